//! Admission: who is counted in the crown and who in the layers.
//!
//! An edge in the crown is counted there, all others in the layers. One that
//! outgrows the lightest entry of its bucket changes places with it: the layers
//! are rid of it, or keep what it left as an upper bound of what it had, and
//! hold what the other one has had. So nothing is counted twice, and where
//! layers guarantee their bounds, every edge has one, always.

use std::sync::OnceLock;

use crate::Result;
use crate::arrival::Arrival;
use crate::codes::Codes;
use crate::crown::{BYTES_PER_PACKET, Count, Crown};
use crate::layers::{Allotment, Bounds, Layers};
use crate::name::{AnyName, Name};
use crate::sample::Sample;
use crate::sizes::{LearntSizes, PacketSizes};
use crate::table::Total;
use crate::witnesses::Witnesses;

/// Edges stored between two looks at the noise.
const NOISE_EVERY: usize = 4096;

/// Buckets of the crown that are fetched at once.
const AHEAD: usize = 32;

/// A crown over layers. See the head of this module.
pub(crate) struct Layered {
    pub(super) codes: Codes,
    pub(super) crown: Crown,
    pub(super) witnesses: Witnesses,
    pub(super) layers: Box<dyn Layers>,
    /// Packets that no entry of the crown has counted, if sums are asked for.
    pub(super) sample: Option<Sample>,
    /// All that was stored.
    pub(super) total: Total,
    /// What an edge that is not in the crown has had at most, see `unnamed`.
    pub(super) unnamed: Total,
    worth: Bounds,
    /// What packets weigh.
    pub(super) sizes: PacketSizes,
    /// What those of the layers weigh, worked out once after a store.
    pub(super) learnt_sizes: OnceLock<LearntSizes>,
    /// Counts of the witnesses, smallest first, sorted once after a store.
    pub(super) witness_counts: OnceLock<Vec<u64>>,
    /// No crown entry ranks below this.
    floor: u64,
    since_noise: usize,
    since_floor: usize,
    scratch: Scratch,
}

/// Memory of [`Layered::store`] that is kept from batch to batch.
#[derive(Default)]
struct Scratch {
    /// Arrivals that outrank the lightest of the crown by themselves.
    heavy: Vec<u32>,
    rest: Rest,
    moved: Moved,
}

/// Arrivals of a batch that the crown has no place for.
#[derive(Default)]
struct Rest {
    /// Where they stand in the batch.
    at: Vec<u32>,
    ids: Vec<u64>,
    packets: Vec<u64>,
    /// Their bounds, once they are in the layers.
    bounds: Vec<u64>,
}

/// Edges that changed places.
#[derive(Default)]
struct Moved {
    /// Who was admitted, and how many of its packets are in the layers.
    ids: Vec<u64>,
    packets: Vec<u64>,
    /// Who had to make room.
    gone: Vec<(AnyName, Count)>,
}

impl Rest {
    fn push<N>(&mut self, at: u32, arrival: &Arrival<N>) {
        self.at.push(at);
        self.ids.push(arrival.id);
        self.packets.push(arrival.packets);
    }
}

impl Scratch {
    fn clear(&mut self) {
        self.heavy.clear();
        self.rest.at.clear();
        self.rest.ids.clear();
        self.rest.packets.clear();
        self.moved.ids.clear();
        self.moved.packets.clear();
        self.moved.gone.clear();
    }
}

impl Layered {
    /// Nothing in it yet.
    pub(super) fn new(allotment: Allotment, codes: Codes, sample: Option<Sample>) -> Self {
        let Allotment {
            crown,
            witnesses,
            layers,
        } = allotment;
        Self {
            codes,
            worth: layers.worth(),
            floor: crown.floor(),
            crown,
            witnesses,
            layers,
            sample,
            total: Total::default(),
            unnamed: Total::default(),
            sizes: PacketSizes::NONE,
            learnt_sizes: OnceLock::new(),
            witness_counts: OnceLock::new(),
            since_noise: 0,
            since_floor: 0,
            scratch: Scratch::default(),
        }
    }

    /// Takes note of what came into crown and layers from elsewhere.
    pub(super) fn begin(&mut self) {
        self.floor = self.crown.floor();
        self.invalidate();
    }

    /// Forgets what was worked out for answers.
    fn invalidate(&mut self) {
        self.layers.invalidate();
        self.learnt_sizes.take();
        self.witness_counts.take();
    }

    /// The next batch looks at the noise.
    pub(super) fn expect_noise(&mut self) {
        self.since_noise = NOISE_EVERY;
    }

    /// The layers.
    pub(crate) fn layers(&self) -> &dyn Layers {
        &*self.layers
    }

    /// Bytes of layers, crown, witnesses and sample.
    pub(super) fn memory_bytes(&self) -> usize {
        let sample = self.sample.as_ref().map_or(0, Sample::memory_bytes);
        let named = self.crown.memory_bytes() + self.witnesses.memory_bytes();
        self.layers.memory_bytes() + named + sample
    }

    /// Takes note of packets that were stored, wherever that will be.
    pub(super) fn note(&mut self, id: u64, packets: u64, bytes: u64) {
        self.witnesses.note(id, packets, bytes);
        self.sizes.note(packets, bytes);
        self.total.packets = self.total.packets.saturating_add(packets);
        self.total.bytes = self.total.bytes.saturating_add(bytes);
    }

    /// Stores a batch in which no edge occurs twice.
    pub(super) fn store<N: Name>(&mut self, batch: &[Arrival<N>]) -> Result<()> {
        self.invalidate();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        self.count_crowned(batch, &mut scratch);
        let Scratch { heavy, rest, moved } = &mut scratch;
        if !heavy.is_empty() {
            let ids = heavy.iter().map(|at| batch[*at as usize].id);
            let bounds = self.layers.bounds(&ids.collect::<Vec<u64>>())?;
            for (at, before) in heavy.iter().zip(bounds) {
                let arrival = &batch[*at as usize];
                if !self.admit(arrival, before, arrival.packets, moved) {
                    rest.push(*at, arrival);
                }
            }
        }
        if !rest.at.is_empty() {
            self.layers
                .add(&rest.ids, &rest.packets, &mut rest.bounds)?;
            self.look_at_noise(rest.at.len())?;
            for (at, bound) in rest.at.iter().zip(&rest.bounds) {
                let arrival = &batch[*at as usize];
                let admitted =
                    !self.is_light(arrival, *bound) && self.admit(arrival, *bound, 0, moved);
                if admitted {
                    continue;
                }
                self.unnamed.note_rejected(arrival, *bound, &self.sizes);
                if let Some(sample) = &mut self.sample {
                    sample.offer(&arrival.name, arrival.packets, arrival.bytes);
                }
            }
        }
        self.change_places(moved)?;
        self.scratch = scratch;
        Ok(())
    }

    /// Counts what is in the crown, and sorts out the rest.
    fn count_crowned<N: Name>(&mut self, batch: &[Arrival<N>], scratch: &mut Scratch) {
        for (at, arrival) in (0..).zip(batch) {
            if (at as usize).is_multiple_of(AHEAD) {
                let ahead = batch[at as usize..].iter().take(AHEAD);
                let touched = ahead.map(|a| self.crown.touch(self.codes.spot(a.id)));
                std::hint::black_box(touched.fold(0, |all, one| all ^ one));
            }
            if arrival.packets == 0 {
                continue;
            }
            let id = arrival.id;
            self.note(id, arrival.packets, arrival.bytes);
            let (crown, spot) = (&mut self.crown, self.codes.spot(id));
            if crown.count(spot, &arrival.name, arrival.packets, arrival.bytes) {
                continue;
            }
            // One that outranks the lightest by this batch alone goes to the
            // crown without leaving a trace in the layers.
            let rank = Count::exact(arrival.packets, arrival.bytes).rank();
            if self.outranks::<N>(rank, spot) {
                scratch.heavy.push(at);
            } else {
                scratch.rest.push(at, arrival);
            }
        }
    }

    /// Whether a name of this rank would be admitted at this spot.
    #[inline(always)]
    pub(super) fn outranks<N: Name>(&self, rank: u64, spot: u64) -> bool {
        rank > self.floor && rank > self.crown.lightest::<N>(spot)
    }

    /// Whether an edge is below the floor of the crown, as most are, whatever
    /// of its bound is noise.
    fn is_light<N>(&self, arrival: &Arrival<N>, bound: u64) -> bool {
        // Packets of the usual size weigh no more than others.
        let usual = BYTES_PER_PACKET.saturating_mul(arrival.packets);
        let bytes = || bound.saturating_mul(arrival.bytes);
        bound <= self.floor
            && (arrival.bytes <= usual || bytes() <= self.floor.saturating_mul(usual))
    }

    /// Moves an edge that outranks the lightest of its bucket to the crown, and
    /// says whether it did. The layers know of no more than `known` packets, and
    /// have not seen `unseen` of those that arrived.
    fn admit<N: Name>(
        &mut self,
        arrival: &Arrival<N>,
        known: u64,
        unseen: u64,
        moved: &mut Moved,
    ) -> bool {
        let spot = self.codes.spot(arrival.id);
        let bound = known.saturating_add(unseen);
        // Most are not heavy enough even if all of it were their own.
        let mean_bytes = match arrival.packets {
            0 | 1 => arrival.bytes,
            packets => arrival.bytes.div_ceil(packets),
        };
        let at_most = Count::exact(bound, bound.saturating_mul(mean_bytes));
        if !self.outranks::<N>(at_most.rank(), spot) {
            return false;
        }
        let noise = self.layers.noise(bound).middle;
        let mut count = match self.worth {
            Bounds::Guaranteed => count_on_admission(arrival, bound, noise),
            Bounds::Likely => {
                let lightest = self.crown.lightest::<N>(spot);
                likely_count_on_admission(arrival, bound, noise, lightest)
            }
        };
        if self.layers.is_at_limit(known) {
            count.slack = u64::MAX;
        }
        let admitted = self.outranks::<N>(count.rank(), spot);
        if admitted {
            self.crown
                .admit(spot, &arrival.name, count, &mut moved.gone);
            moved.ids.push(arrival.id);
            moved.packets.push(count.packets - unseen);
        }
        admitted
    }

    /// The layers are rid of who was admitted and hold what the others have had.
    fn change_places(&mut self, moved: &Moved) -> Result<()> {
        self.layers.take(&moved.ids, &moved.packets)?;
        let gone = moved.gone.iter();
        for (name, count) in gone.clone() {
            self.unnamed.note_gone(count, &self.sizes);
            self.offer_gone(name, count);
        }
        let ids: Vec<u64> = gone
            .clone()
            .map(|(name, _)| self.codes.id_of_any(name))
            .collect();
        let totals: Vec<u64> = gone
            .map(|(_, count)| match self.worth {
                Bounds::Guaranteed => count.bound(),
                Bounds::Likely => count.packets,
            })
            .collect();
        self.layers.put(&ids, &totals)
    }

    /// What the crown had counted of who had to go. What it had before that was
    /// offered when it came.
    pub(super) fn offer_gone(&mut self, name: &AnyName, count: &Count) {
        if let Some(sample) = &mut self.sample {
            let (packets, bytes) = (count.counted(), count.bytes);
            match name {
                AnyName::Narrow(name) => sample.offer(name, packets, bytes),
                AnyName::Wide(name) => sample.offer(name, packets, bytes),
            }
        }
    }

    /// Now and then: the bound of pairs that never occurred, and the floor of
    /// the crown.
    fn look_at_noise(&mut self, stored: usize) -> Result<()> {
        self.since_noise += stored;
        self.since_floor += stored;
        // A look at all places, which must not cost more than storing does.
        if self.since_floor >= NOISE_EVERY.max(4 * self.crown.places()) {
            self.since_floor = 0;
            self.floor = self.crown.floor();
        }
        if self.since_noise >= NOISE_EVERY {
            self.since_noise = 0;
            self.layers.look_at_noise()?;
        }
        Ok(())
    }
}

/// The layers say at most `bound`, of which `noise` is usually not the edge's
/// own. Of bytes they know nothing: what it had before is guessed, to rank by.
fn count_on_admission<N>(arrival: &Arrival<N>, bound: u64, noise: u64) -> Count {
    let packets = bound.saturating_sub(noise).max(arrival.packets);
    let earlier = packets - arrival.packets;
    let mean_bytes = arrival.bytes / arrival.packets.max(1);
    Count {
        packets,
        earlier,
        slack: bound.saturating_sub(packets),
        bytes: arrival.bytes,
        guessed_bytes: earlier.saturating_mul(mean_bytes),
    }
}

/// The same where bounds can be wrong without limit. They are believed no
/// further than the rank of the lightest: no admission then adds more to the
/// crown than the packets that arrived, as in Space-Saving.
fn likely_count_on_admission<N>(
    arrival: &Arrival<N>,
    bound: u64,
    noise: u64,
    lightest: u64,
) -> Count {
    let believed = arrival.packets.saturating_add(lightest);
    let count = count_on_admission(arrival, bound.min(believed.saturating_add(noise)), noise);
    Count {
        slack: bound.saturating_sub(count.packets).max(count.earlier),
        ..count
    }
}
