//! Admission: which edges are counted in the crown and which in the layers.
//!
//! An edge that has an entry in the crown is counted there, every other edge in the
//! layers. An edge that outranks the lightest entry it may replace ([`crate::crown`])
//! takes its place. Layers that can subtract remove the packets of the admitted edge; the
//! others keep them as an upper bound of what it had before. The layers take over the
//! count of the evicted entry. So no packet is counted twice, and where layers guarantee
//! their bounds, every edge has a guaranteed bound at any time.

use std::sync::OnceLock;

use crate::Result;
use crate::arrival::Arrival;
use crate::codes::Codes;
use crate::crown::{BYTES_PER_PACKET, Count, Crown};
use crate::layers::{Allotment, BoundsKind, Layers};
use crate::name::{AnyName, Name};
use crate::sample::Sample;
use crate::scratch::{Moved, Scratch};
use crate::sizes::{LearntSizes, PacketSizes};
use crate::table::Total;
use crate::witnesses::Witnesses;

/// The noise of the layers is measured again after this many stored edges.
const NOISE_EVERY: usize = 4096;

/// Buckets of the crown that are prefetched together.
const AHEAD: usize = 32;

/// A crown above layers.
pub(crate) struct Layered {
    pub(super) codes: Codes,
    pub(super) crown: Crown,
    pub(super) witnesses: Witnesses,
    pub(super) layers: Box<dyn Layers>,
    /// A sample of all packets that no present entry of the crown has counted. `None` if
    /// the sketch has no sample.
    pub(super) sample: Option<Sample>,
    /// All packets and bytes stored so far.
    pub(super) total: Total,
    /// Upper bounds for every edge without an entry in the crown, see `unnamed`.
    pub(super) unnamed: Total,
    bounds_kind: BoundsKind,
    /// The smallest and the largest packet sizes.
    pub(super) sizes: PacketSizes,
    /// Packet sizes of the edges in the layers, computed on demand after a store.
    pub(super) learnt_sizes: OnceLock<LearntSizes>,
    /// Packets of the witnesses in ascending order, computed on demand after a store.
    pub(super) witness_counts: OnceLock<Vec<u64>>,
    since_noise: usize,
}

impl Layered {
    /// An empty crown and empty layers.
    pub(super) fn new(allotment: Allotment, codes: Codes, sample: Option<Sample>) -> Self {
        let Allotment {
            crown,
            witnesses,
            layers,
        } = allotment;
        Self {
            codes,
            bounds_kind: layers.bounds_kind(),
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
        }
    }

    /// Drops cached values after crown and layers were filled from elsewhere.
    pub(super) fn refresh(&mut self) {
        self.invalidate();
    }

    /// Drops the values that were computed for answers.
    fn invalidate(&mut self) {
        self.layers.invalidate();
        self.learnt_sizes.take();
        self.witness_counts.take();
    }

    /// Makes the next batch measure the noise.
    pub(super) fn measure_noise_next(&mut self) {
        self.since_noise = NOISE_EVERY;
    }

    pub(crate) fn layers(&self) -> &dyn Layers {
        &*self.layers
    }

    /// Bytes of layers, crown, witnesses and sample.
    pub(super) fn memory_bytes(&self) -> usize {
        let sample = self.sample.as_ref().map_or(0, Sample::memory_bytes);
        let named = self.crown.memory_bytes() + self.witnesses.memory_bytes();
        self.layers.memory_bytes() + named + sample
    }

    /// Records packets in the totals and the witnesses, before it is decided whether
    /// crown or layers count them.
    pub(super) fn record(&mut self, id: u64, packets: u64, bytes: u64) {
        self.witnesses.record(id, packets, bytes);
        self.sizes.record(packets, bytes);
        self.total.packets = self.total.packets.saturating_add(packets);
        self.total.bytes = self.total.bytes.saturating_add(bytes);
    }

    /// Stores a batch in which no edge occurs twice.
    pub(super) fn store<N: Name>(
        &mut self,
        batch: &[Arrival<N>],
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.invalidate();
        scratch.clear();
        self.count_crowned(batch, scratch);
        let Scratch {
            named,
            heavy,
            rest,
            moved,
            cells,
        } = scratch;
        if !heavy.is_empty() {
            let ids = heavy.iter().map(|at| batch[*at as usize].id);
            let bounds = self.layers.bounds(&ids.collect::<Vec<u64>>())?;
            for (at, before) in heavy.iter().zip(bounds) {
                let arrival = &batch[*at as usize];
                if self.admit(arrival, before, arrival.packets, moved) {
                    named.push(*at);
                } else {
                    rest.push(*at, arrival);
                }
            }
        }
        if !rest.at.is_empty() {
            self.layers
                .add(&rest.ids, &rest.packets, &mut rest.bounds, cells)?;
            self.measure_noise(rest.at.len())?;
            for (at, bound) in rest.at.iter().zip(&rest.bounds) {
                let arrival = &batch[*at as usize];
                let admitted =
                    !self.is_light(arrival, *bound) && self.admit(arrival, *bound, 0, moved);
                if admitted {
                    named.push(*at);
                    continue;
                }
                self.unnamed
                    .raise_for_rejected(arrival, *bound, &self.sizes);
                if let Some(sample) = &mut self.sample {
                    sample.offer(&arrival.name, arrival.packets, arrival.bytes);
                }
            }
        }
        self.apply_moves(moved)
    }

    /// Counts the arrivals that have an entry in the crown and divides the others into
    /// `heavy` and `rest`.
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
            self.record(id, arrival.packets, arrival.bytes);
            let (crown, spot) = (&mut self.crown, self.codes.spot(id));
            if crown.count(spot, &arrival.name, arrival.packets, arrival.bytes) {
                scratch.named.push(at);
                continue;
            }
            // An edge that outranks an entry with the packets of this batch alone is
            // admitted without being stored in the layers first.
            let rank = Count::exact(arrival.packets, arrival.bytes).rank();
            if self.crown.admits::<N>(spot, rank) {
                scratch.heavy.push(at);
            } else {
                scratch.rest.push(at, arrival);
            }
        }
    }

    /// Whether an edge is below the floor of its bucket in the crown. This is true for most
    /// edges.
    fn is_light<N>(&self, arrival: &Arrival<N>, bound: u64) -> bool {
        let floor = self.crown.floor(self.codes.spot(arrival.id));
        let packets = match self.bounds_kind {
            BoundsKind::Guaranteed => {
                let noise = self.layers.noise(bound).middle;
                bound.saturating_sub(noise).max(arrival.packets)
            }
            BoundsKind::Likely => bound,
        };
        // Packets of at most this size do not add to the rank.
        let usual = BYTES_PER_PACKET.saturating_mul(arrival.packets);
        let bytes = || packets.saturating_mul(arrival.bytes);
        packets <= floor && (arrival.bytes <= usual || bytes() <= floor.saturating_mul(usual))
    }

    /// Moves an edge to the crown if it outranks the lightest entry that it may replace.
    /// Returns whether it was moved. `known` is the upper bound that the layers have for
    /// the edge; `unseen` of the packets that arrived are not yet stored in the layers.
    fn admit<N: Name>(
        &mut self,
        arrival: &Arrival<N>,
        known: u64,
        unseen: u64,
        moved: &mut Moved,
    ) -> bool {
        let spot = self.codes.spot(arrival.id);
        let bound = known.saturating_add(unseen);
        let noise = self.layers.noise(bound).middle;
        let mut count = match self.bounds_kind {
            BoundsKind::Guaranteed => count_on_admission(arrival, bound, noise),
            BoundsKind::Likely => {
                let lightest = self.crown.lightest::<N>(spot);
                likely_count_on_admission(arrival, bound, noise, lightest)
            }
        };
        if self.layers.is_at_limit(known) {
            count.slack = u64::MAX;
        }
        let evicted = &mut moved.evicted;
        let admitted = self.crown.admit(spot, &arrival.name, count, evicted);
        if admitted {
            moved.ids.push(arrival.id);
            moved.packets.push(count.packets - unseen);
        }
        admitted
    }

    /// Applies the moves of a batch: the packets of admitted edges are subtracted from
    /// the layers, and the counts of evicted entries are added to them.
    fn apply_moves(&mut self, moved: &Moved) -> Result<()> {
        self.layers.take(&moved.ids, &moved.packets)?;
        let evicted = moved.evicted.iter();
        for (name, count) in evicted.clone() {
            self.unnamed.raise_for_evicted(count, &self.sizes);
            self.offer_evicted(name, count);
        }
        let ids: Vec<u64> = evicted
            .clone()
            .map(|(name, _)| self.codes.id_of_any(name))
            .collect();
        let totals: Vec<u64> = evicted
            .map(|(_, count)| match self.bounds_kind {
                BoundsKind::Guaranteed => count.bound(),
                BoundsKind::Likely => count.packets,
            })
            .collect();
        self.layers.put(&ids, &totals)
    }

    /// Offers the packets that the crown has counted of an evicted edge to the sample.
    /// The packets that the edge had before its admission were offered when they arrived.
    pub(super) fn offer_evicted(&mut self, name: &AnyName, count: &Count) {
        if let Some(sample) = &mut self.sample {
            let (packets, bytes) = (count.counted(), count.bytes);
            match name {
                AnyName::Narrow(name) => sample.offer(name, packets, bytes),
                AnyName::Wide(name) => sample.offer(name, packets, bytes),
            }
        }
    }

    /// Measures the noise of the layers after every [`NOISE_EVERY`] stored edges.
    fn measure_noise(&mut self, stored: usize) -> Result<()> {
        self.since_noise += stored;
        if self.since_noise >= NOISE_EVERY {
            self.since_noise = 0;
            self.layers.measure_noise()?;
        }
        Ok(())
    }
}

/// The count that an edge is admitted with. The layers give the upper bound `bound`, of
/// which `noise` usually belongs to other edges. The layers do not count bytes, so the
/// bytes before the admission are guessed, for ranking only.
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

/// The same for layers whose bounds may be far too high. The bound is used only up to the
/// rank of the lightest entry, so an admission never adds more to the crown than the
/// packets that arrived, as in Space-Saving.
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
