//! The packed sketch: a crown over layers, witnesses, a decoder.
//!
//! An edge in the crown is counted there, all others in the layers. One that
//! outgrows the lightest crown entry changes places with it; what it left in
//! the layers stays (it is an upper bound of what it had), and an edge that
//! falls out of the crown raises its cells to what it has had. So nothing is
//! counted twice, and the upper bound holds for every edge, always.
//!
//! Layers do not grow: all they ever have is theirs from the start. Before them
//! a sketch is a table ([`crate::table`]), whose names and counts are all known
//! when it is poured in, so layers that were grown into are as good as layers
//! from the start.

use std::sync::OnceLock;

use crate::Result;
use crate::arrival::Arrival;
use crate::codes::Codes;
use crate::crown::{BYTES_PER_PACKET, Count, Crown, PLACE};
use crate::layers::Load;
use crate::name::{AnyName, Name, Narrow, Wide};
use crate::packed::PackedProfile;
use crate::packed::calibration::Calibration;
use crate::packed::layers::{LAYERS, NarrowLayers};
use crate::packed::shape::Shape;
use crate::table::{Kept, Tables};
use crate::witnesses::Witnesses;

/// Share of the memory that the crown takes.
const CROWN_SHARE: f64 = 0.15;
/// Pairs that never occurred whose readings tell the noise of the layers.
const PHANTOMS: u32 = 64;
/// Edges stored between two looks at the noise.
const NOISE_EVERY: usize = 4096;

/// Buckets of the crown that are fetched at once.
const AHEAD: usize = 32;

/// A sketch of an edge stream. See the head of this module.
pub struct Packed {
    pub(crate) profile: PackedProfile,
    pub(crate) codes: Codes,
    pub(crate) crown: Crown,
    pub(crate) witnesses: Witnesses,
    pub(crate) layers: NarrowLayers,
    /// What a pair that never occurred reads in the middle.
    pub(crate) noise: u64,
    /// No crown entry ranks below this.
    pub(crate) floor: u64,
    since_noise: usize,
    since_floor: usize,
    phantoms: u32,
    /// Memory of [`Self::store`] that is kept from batch to batch.
    rest: Rest,
    pub(crate) calibration: OnceLock<Calibration>,
}

impl Packed {
    /// An empty sketch of `bytes`.
    pub fn new(profile: &PackedProfile, codes: &Codes, bytes: usize) -> Result<Self> {
        let share = if profile.ablation.crown {
            CROWN_SHARE
        } else {
            0.0
        };
        let shape = Shape::of(bytes, share, PLACE)?;
        let planes = profile
            .placement
            .planes(shape.cell_bytes, profile.ablation.narrow)?;
        Ok(Self {
            profile: profile.clone(),
            codes: codes.clone(),
            crown: Crown::new(shape.crown),
            witnesses: Witnesses::new(shape.witnesses),
            layers: NarrowLayers::new(codes.clone(), planes),
            noise: 0,
            floor: 0,
            since_noise: 0,
            since_floor: 0,
            phantoms: 0,
            rest: Rest::default(),
            calibration: OnceLock::new(),
        })
    }

    /// Takes over all that was in tables, into a sketch that is empty.
    pub fn pour(&mut self, tables: &Tables) -> Result<()> {
        let mut below = Below::default();
        self.pour_names::<Narrow>(tables, &mut below);
        self.pour_names::<Wide>(tables, &mut below);
        self.layers.raise(&below.tags, &below.packets)?;
        self.floor = self.crown.floor();
        // The next batch looks at the noise.
        self.since_noise = NOISE_EVERY;
        self.calibration.take();
        Ok(())
    }

    /// The heaviest go to the crown, all others to the layers.
    fn pour_names<N: Kept>(&mut self, tables: &Tables, below: &mut Below) {
        let mut gone = Vec::new();
        for (name, tag, total) in tables.of::<N>().entries() {
            let id = self.codes.id(&name);
            self.witnesses.note(id, total.packets);
            let spot = self.codes.spot(id);
            let count = Count::exact(total.packets, total.bytes);
            if self.profile.ablation.crown && count.rank() > self.crown.lightest::<N>(spot) {
                self.crown.admit(spot, &name, count, &mut gone);
            } else {
                below.push(tag, total.packets);
            }
        }
        for (name, count) in gone {
            let tag = self.codes.tag(self.codes.id_of_any(&name));
            below.push(tag, count.packets);
        }
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store<N: Name>(&mut self, batch: &[Arrival<N>]) -> Result<()> {
        self.calibration.take();
        let mut heavy: Vec<u32> = Vec::new();
        let mut rest = std::mem::take(&mut self.rest);
        rest.clear();
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
            self.witnesses.note(id, arrival.packets);
            let (crown, spot) = (&mut self.crown, self.codes.spot(id));
            if crown.count(spot, &arrival.name, arrival.packets, arrival.bytes) {
                continue;
            }
            // One that outranks the lightest by this batch alone goes to the
            // crown without leaving a trace in the layers.
            let rank = Count::exact(arrival.packets, arrival.bytes).rank();
            let is_heavy = self.profile.ablation.crown
                && rank > self.floor
                && rank > crown.lightest::<N>(spot);
            if is_heavy {
                heavy.push(at);
            } else {
                rest.push(at, self.codes.tag(id), arrival.packets);
            }
        }
        let mut gone = Vec::new();
        if !heavy.is_empty() {
            let tags = heavy
                .iter()
                .map(|at| self.codes.tag(batch[*at as usize].id));
            let bounds = self.layers.bounds(&tags.collect::<Vec<u32>>())?;
            for (at, bound) in heavy.into_iter().zip(bounds) {
                let arrival = &batch[at as usize];
                let bound = bound.saturating_add(arrival.packets);
                if !self.admit(arrival, bound, &mut gone) {
                    rest.push(at, self.codes.tag(arrival.id), arrival.packets);
                }
            }
        }
        if !rest.at.is_empty() {
            let Below { tags, packets } = &rest.below;
            self.layers.add(tags, packets, &mut rest.bounds)?;
            self.look_at_noise(rest.at.len())?;
            for (at, bound) in rest.at.iter().zip(&rest.bounds) {
                let arrival = &batch[*at as usize];
                if !self.is_light(arrival, *bound) {
                    self.admit(arrival, *bound, &mut gone);
                }
            }
        }
        self.rest = rest;
        self.give_back(&gone)
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

    /// Moves an edge that outranks the lightest of its bucket to the crown,
    /// and says whether it did; `gone` gets who had to make room.
    fn admit<N: Name>(
        &mut self,
        arrival: &Arrival<N>,
        bound: u64,
        gone: &mut Vec<(AnyName, Count)>,
    ) -> bool {
        let count = count_on_admission(arrival, bound, self.noise);
        let spot = self.codes.spot(arrival.id);
        let admitted = self.profile.ablation.crown
            && count.rank() > self.floor
            && count.rank() > self.crown.lightest::<N>(spot);
        if admitted {
            self.crown.admit(spot, &arrival.name, count, gone);
        }
        admitted
    }

    /// Makes the layers hold what these edges have had.
    fn give_back(&mut self, gone: &[(AnyName, Count)]) -> Result<()> {
        let tags = gone
            .iter()
            .map(|(name, _)| self.codes.tag(self.codes.id_of_any(name)));
        let tags: Vec<u32> = tags.collect();
        let totals: Vec<u64> = gone.iter().map(|(_, count)| count.bound()).collect();
        self.layers.raise(&tags, &totals)
    }

    /// Now and then: the median reading of pairs that never occurred, and the
    /// floor of the crown, which only ever rises.
    fn look_at_noise(&mut self, stored: usize) -> Result<()> {
        self.since_noise += stored;
        self.since_floor += stored;
        // A look at all places, which must not cost more than storing does.
        if self.since_floor >= NOISE_EVERY.max(4 * self.crown.places()) {
            self.since_floor = 0;
            self.floor = self.crown.floor();
        }
        if self.since_noise < NOISE_EVERY {
            return Ok(());
        }
        self.since_noise = 0;
        let tags: Vec<u32> = (0..PHANTOMS)
            .map(|n| (self.phantoms + n).wrapping_mul(0x9e37_79b1))
            .collect();
        self.phantoms = self.phantoms.wrapping_add(PHANTOMS);
        let mut bounds = self.layers.bounds(&tags)?;
        let middle = bounds.len() / 2;
        self.noise = *bounds.select_nth_unstable(middle).1;
        Ok(())
    }

    /// The table of heavy edges.
    pub fn crown(&self) -> &Crown {
        &self.crown
    }

    /// How full each layer is, bottom first: the share of cells that are taken.
    pub fn loads(&self) -> Result<Vec<Load>> {
        let fill = self.layers.fill()?.into_iter();
        let load = |mean| Load {
            mean,
            max: mean,
            typical: mean,
        };
        Ok(fill.map(load).collect())
    }

    /// Bytes of cells, crown and witnesses.
    pub fn memory_bytes(&self) -> usize {
        self.layers.memory_bytes() + self.crown.memory_bytes() + self.witnesses.memory_bytes()
    }

    /// Whether a cell of the top layer is at its limit, so that counts may be
    /// too low.
    pub fn is_saturated(&self) -> Result<bool> {
        let top = self.layers.planes()[LAYERS - 1].to_bytes()?;
        Ok(top.as_chunks::<4>().0.contains(&[u8::MAX; 4]))
    }
}

/// Edges on their way to the layers.
#[derive(Default)]
struct Below {
    tags: Vec<u32>,
    packets: Vec<u64>,
}

impl Below {
    fn push(&mut self, tag: u32, packets: u64) {
        self.tags.push(tag);
        self.packets.push(packets);
    }
}

/// Arrivals of a batch that the crown has no place for.
#[derive(Default)]
struct Rest {
    /// Where they stand in the batch.
    at: Vec<u32>,
    below: Below,
    /// Their bounds, once they are in the layers.
    bounds: Vec<u64>,
}

impl Rest {
    fn clear(&mut self) {
        self.at.clear();
        self.below.tags.clear();
        self.below.packets.clear();
    }

    fn push(&mut self, at: u32, tag: u32, packets: u64) {
        self.at.push(at);
        self.below.push(tag, packets);
    }
}

/// The layers say at most `bound`, of which `noise` is usually not the edge's
/// own. Of bytes they know nothing: what it had before is guessed, to rank by.
fn count_on_admission<N>(arrival: &Arrival<N>, bound: u64, noise: u64) -> Count {
    let packets = bound.saturating_sub(noise).max(arrival.packets);
    let mean_bytes = arrival.bytes / arrival.packets.max(1);
    Count {
        packets,
        slack: bound.saturating_sub(packets),
        bytes: arrival.bytes,
        all_bytes: bound <= arrival.packets,
        guessed_bytes: (packets - arrival.packets).saturating_mul(mean_bytes),
    }
}
