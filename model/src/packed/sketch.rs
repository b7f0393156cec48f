//! The packed sketch: a crown over a table or layers, witnesses, a decoder.
//!
//! An edge in the crown is counted there, all others in the body. One that
//! outgrows the lightest crown entry changes places with it; what it left in
//! the body stays (it is an upper bound of what it had), and an edge that falls
//! out of the crown raises its cells to what it has had. So nothing is counted
//! twice, and the upper bound holds for every edge, always.
//!
//! **Growth.** A sketch that starts below its budget is a table of all edges,
//! which doubles when it is full, up to half of the budget; then everything is
//! poured into layers that take the whole budget. Ids are known until then, so
//! layers that were grown into are as good as layers from the start. While it
//! is poured both exist: at most 1.5 times the budget, for milliseconds. The
//! next window starts with what this one needed.

use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use crate::crane::Arrival;
use crate::crown::{BYTES_PER_PACKET, Count, Crown};
use crate::executor::Load;
use crate::packed::answers::Sight;
use crate::packed::body::Body;
use crate::packed::codes::Codes;
use crate::packed::plane::Home;
use crate::packed::shape::Shape;
use crate::packed::stack::Stack;
use crate::packed::table::Table;
use crate::packed::witnesses::Witnesses;
use crate::packed::{Budget, Parts, Weights};
use crate::{DeviceChoice, Result};

/// A table takes no more than the budget divided by this.
const TABLE_PART: usize = 2;
/// How much larger a full table becomes.
const GROWTH: usize = 2;
/// The next window may have so many times the edges of this one.
const HEADROOM: f64 = 1.25;
/// Share of the memory that the crown takes.
const CROWN_SHARE: f64 = 0.15;
/// Pairs that never occurred whose readings tell the noise of the layers.
const PHANTOMS: u32 = 64;
/// Edges stored between two looks at the noise.
const NOISE_EVERY: usize = 4096;
/// A sketch of an edge stream. See the head of this module.
pub struct Packed<K> {
    pub(super) weights: Arc<Weights>,
    pub(super) budget: Budget,
    pub(super) parts: Parts,
    home: Home,
    pub(super) codes: Codes,
    /// Bytes that all parts may take now.
    pub(super) size: usize,
    pub(super) crown: Crown<K>,
    pub(super) witnesses: Witnesses,
    pub(super) body: Body,
    expansions: usize,
    /// What a pair that never occurred reads in the middle.
    pub(super) noise: u64,
    /// No crown entry ranks below this.
    pub(super) floor: u64,
    since_noise: usize,
    phantoms: u32,
    /// Memory of [`Self::store`] that is kept from batch to batch.
    rest: Rest,
    pub(super) sight: OnceLock<Sight>,
}

impl<K: Copy + Eq + Hash> Packed<K> {
    /// An empty sketch.
    pub fn new(
        weights: Arc<Weights>,
        budget: Budget,
        parts: Parts,
        seed: u64,
        device: DeviceChoice,
    ) -> Result<Self> {
        let mut sketch = Self {
            codes: Codes::new(seed, weights.encoders.clone()),
            weights,
            budget,
            parts,
            home: device.home()?,
            size: 0,
            crown: Crown::new(0),
            witnesses: Witnesses::new(0),
            body: Body::Table(Table::new(0)),
            expansions: 0,
            noise: 0,
            floor: 0,
            since_noise: 0,
            phantoms: 0,
            rest: Rest::default(),
            sight: OnceLock::new(),
        };
        sketch.restart(budget.start)?;
        Ok(sketch)
    }

    /// Forgets everything and starts with `bytes`, or with the whole budget if
    /// that is more than a table may have.
    pub fn restart(&mut self, bytes: usize) -> Result<()> {
        let (size, shape, body) = self.empty(bytes)?;
        self.size = size;
        self.crown = Crown::new(shape.crown);
        self.witnesses = Witnesses::new(shape.witnesses);
        self.body = body;
        self.expansions = 0;
        (self.noise, self.floor, self.since_noise) = (0, 0, 0);
        self.sight.take();
        Ok(())
    }

    /// Forgets everything and starts with what this window needed.
    pub fn reset(&mut self) -> Result<()> {
        self.restart(self.needed())
    }

    /// Bytes with which this stream would not have had to grow, with a little
    /// room for more; no less than at the first start.
    pub fn needed(&self) -> usize {
        let table = Table::bytes_for(HEADROOM * self.witnesses.distinct());
        let bytes = (table as f64 / (1.0 - CROWN_SHARE)) as usize;
        bytes.max(self.budget.start).min(self.budget.most)
    }

    /// Size, shape and empty body of a sketch of about `bytes`.
    pub(super) fn empty(&self, bytes: usize) -> Result<(usize, Shape, Body)> {
        let is_table = bytes <= self.budget.most / TABLE_PART;
        let size = if is_table { bytes } else { self.budget.most };
        let shape = self.shape(size)?;
        let body = if is_table {
            Body::Table(Table::new(shape.cell_bytes))
        } else {
            Body::Layers(self.stack(shape.cell_bytes)?)
        };
        Ok((size, shape, body))
    }

    pub(super) fn shape(&self, bytes: usize) -> Result<Shape> {
        let share = if self.parts.crown { CROWN_SHARE } else { 0.0 };
        Shape::of(bytes, share, Crown::<K>::ENTRY)
    }

    pub(super) fn stack(&self, cell_bytes: usize) -> Result<Stack> {
        let planes = self.home.planes(cell_bytes, self.parts.narrow)?;
        Ok(Stack::new(self.codes.clone(), planes))
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store(&mut self, batch: &[Arrival<K>]) -> Result<()> {
        self.sight.take();
        let mut heavy: Vec<(u32, u64)> = Vec::new();
        let mut rest = std::mem::take(&mut self.rest);
        rest.clear();
        for (at, arrival) in (0..).zip(batch) {
            if arrival.packets == 0 {
                continue;
            }
            let id = self.codes.id(&arrival.key);
            self.witnesses.note(id, arrival.packets);
            let crown = &mut self.crown;
            if crown.count(id, arrival.key, arrival.packets, arrival.bytes) {
                continue;
            }
            // One that outranks the lightest by this batch alone goes to the
            // crown without leaving a trace in the body.
            let rank = Count::exact(arrival.packets, arrival.bytes).rank();
            if self.parts.crown && rank > self.floor && rank > crown.lightest(id).rank() {
                heavy.push((at, id));
            } else {
                rest.push(at, id, arrival.packets);
            }
        }
        let mut gone = Vec::new();
        if !heavy.is_empty() {
            let ids: Vec<u32> = heavy.iter().map(|(_, id)| Codes::short(*id)).collect();
            let bounds = self.body.bounds(&ids)?;
            for ((at, id), bound) in heavy.into_iter().zip(bounds) {
                let arrival = &batch[at as usize];
                let bound = bound.saturating_add(arrival.packets);
                if !self.admit(arrival, id, bound, &mut gone) {
                    rest.push(at, id, arrival.packets);
                }
            }
        }
        if !rest.at.is_empty() {
            self.add(&mut rest)?;
            self.look_at_noise(rest.at.len())?;
            for (at, bound) in rest.at.iter().zip(&rest.bounds) {
                let arrival = &batch[*at as usize];
                if !self.is_light(arrival, *bound) {
                    let id = self.codes.id(&arrival.key);
                    self.admit(arrival, id, *bound, &mut gone);
                }
            }
        }
        self.rest = rest;
        self.pour(&gone)
    }

    /// Adds arrivals to the body, growing where it has no room; notes their
    /// bounds.
    fn add(&mut self, rest: &mut Rest) -> Result<()> {
        let (ids, packets) = (&rest.ids, &rest.packets);
        let mut done = self.body.add(ids, packets, &mut rest.bounds)?;
        let mut bounds = Vec::new();
        while done < ids.len() {
            self.grow()?;
            done += self.body.add(&ids[done..], &packets[done..], &mut bounds)?;
            rest.bounds.append(&mut bounds);
        }
        Ok(())
    }

    /// Whether an edge is below the floor of the crown, as most are, whatever
    /// of its bound is noise.
    fn is_light(&self, arrival: &Arrival<K>, bound: u64) -> bool {
        // Packets of the usual size weigh no more than others.
        let usual = BYTES_PER_PACKET.saturating_mul(arrival.packets);
        let bytes = || bound.saturating_mul(arrival.bytes);
        bound <= self.floor
            && (arrival.bytes <= usual || bytes() <= self.floor.saturating_mul(usual))
    }

    /// Moves an edge that outranks the lightest of its bucket to the crown,
    /// and says whether it did; `gone` gets the one that had to make room.
    fn admit(
        &mut self,
        arrival: &Arrival<K>,
        id: u64,
        bound: u64,
        gone: &mut Vec<(K, Count)>,
    ) -> bool {
        let count = count_on_admission(arrival, bound, self.noise);
        let admitted = self.parts.crown
            && count.rank() > self.floor
            && count.rank() > self.crown.lightest(id).rank();
        if admitted {
            gone.extend(self.crown.admit(id, arrival.key, count));
        }
        admitted
    }

    /// Makes the body hold what these edges have had.
    fn pour(&mut self, gone: &[(K, Count)]) -> Result<()> {
        let ids = gone.iter().map(|(key, _)| Codes::short(self.codes.id(key)));
        let ids: Vec<u32> = ids.collect();
        let totals: Vec<u64> = gone
            .iter()
            .map(|(_, count)| count.packets.saturating_add(count.slack))
            .collect();
        let mut done = 0;
        while done < ids.len() {
            done += self.body.raise(&ids[done..], &totals[done..])?;
            if done < ids.len() {
                self.grow()?;
            }
        }
        Ok(())
    }

    /// Now and then: the median reading of pairs that never occurred, and the
    /// floor of the crown.
    fn look_at_noise(&mut self, stored: usize) -> Result<()> {
        self.since_noise += stored;
        if self.since_noise < NOISE_EVERY {
            return Ok(());
        }
        self.since_noise = 0;
        self.floor = self.crown.floor();
        if matches!(self.body, Body::Table(_)) {
            return Ok(());
        }
        let ids: Vec<u32> = (0..PHANTOMS)
            .map(|n| (self.phantoms + n).wrapping_mul(0x9e37_79b1))
            .collect();
        self.phantoms = self.phantoms.wrapping_add(PHANTOMS);
        let mut bounds = self.body.bounds(&ids)?;
        let middle = bounds.len() / 2;
        self.noise = *bounds.select_nth_unstable(middle).1;
        Ok(())
    }

    /// From a table to a larger one, or to layers. Layers have always room.
    fn grow(&mut self) -> Result<()> {
        let (size, shape, body) = self.empty(self.size.saturating_mul(GROWTH))?;
        let Body::Table(table) = std::mem::replace(&mut self.body, body) else {
            return Ok(());
        };
        self.size = size;
        self.expansions += 1;
        self.witnesses.grow(shape.witnesses);
        let crowned = self.crown.entries().map(|(key, _)| self.codes.id(&key));
        let mut crowned: Vec<u32> = crowned.map(Codes::short).collect();
        crowned.sort_unstable();
        // What the crown has taken out of the table need not be poured.
        let left = table
            .entries()
            .filter(|(id, _)| crowned.binary_search(id).is_err());
        let (ids, counts): (Vec<u32>, Vec<u64>) = left.unzip();
        drop(table);
        self.body.raise(&ids, &counts)?;
        let small = std::mem::replace(&mut self.crown, Crown::new(shape.crown));
        self.floor = 0;
        let mut gone = Vec::new();
        for (key, count) in small.entries() {
            gone.extend(self.crown.admit(self.codes.id(&key), key, count));
        }
        self.pour(&gone)
    }

    /// The table of heavy edges.
    pub fn crown(&self) -> &Crown<K> {
        &self.crown
    }

    /// How full the table is, or each layer, bottom first: the share of places
    /// or cells that are taken.
    pub fn loads(&self) -> Vec<Load> {
        let fill = self.body.fill().unwrap_or_default().into_iter();
        fill.map(|mean| Load {
            mean,
            max: mean,
            typical: mean,
        })
        .collect()
    }

    /// How often the sketch has grown in this window.
    pub fn expansions(&self) -> usize {
        self.expansions
    }

    /// Bytes of table or cells, crown and witnesses.
    pub fn memory_bytes(&self) -> usize {
        self.body.memory_bytes() + self.crown.memory_bytes() + self.witnesses.memory_bytes()
    }

    /// Whether a cell of the top layer is at its limit, so that counts may be
    /// too low.
    pub fn is_saturated(&self) -> bool {
        self.body.is_saturated().unwrap_or(true)
    }

    /// Where this runs, for people.
    pub fn device_name(&self) -> String {
        self.home.to_string()
    }
}

/// Arrivals of a batch that the crown has no place for.
#[derive(Default)]
struct Rest {
    /// Where they stand in the batch.
    at: Vec<u32>,
    /// As the body knows them.
    ids: Vec<u32>,
    packets: Vec<u64>,
    /// Their bounds, once they are in the body.
    bounds: Vec<u64>,
}

impl Rest {
    fn clear(&mut self) {
        self.at.clear();
        self.ids.clear();
        self.packets.clear();
    }

    fn push(&mut self, at: u32, id: u64, packets: u64) {
        self.at.push(at);
        self.ids.push(Codes::short(id));
        self.packets.push(packets);
    }
}

/// The layers say at most `bound`, of which `noise` is usually not the edge's
/// own.
fn count_on_admission<K>(arrival: &Arrival<K>, bound: u64, noise: u64) -> Count {
    let packets = bound.saturating_sub(noise).max(arrival.packets);
    let mean_bytes = arrival.bytes / arrival.packets.max(1);
    let earlier = packets - arrival.packets;
    Count {
        packets,
        bytes: arrival
            .bytes
            .saturating_add(earlier.saturating_mul(mean_bytes)),
        slack: bound.saturating_sub(packets),
    }
}
