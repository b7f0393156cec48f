//! The packed sketch: stacks of narrow layers, crown, witnesses and decoder.
//!
//! An edge in the crown is counted there. All others are stored in the stack
//! in use. One that outgrows the lightest crown entry changes places with it;
//! what it left in the layers stays (it is an upper bound of what it had), and
//! an edge that falls out of the crown raises its cells to what it has had. So
//! nothing is counted twice, and the upper bound holds for every edge, always.
//!
//! **Growth.** When a third of the bottom cells are used and the budget allows
//! it, the sketch becomes eight times as large: a new stack takes all that
//! comes, the old one stays and is asked as well, and the crown is enlarged.
//! The next window starts as one stack of the size that this one needed.

use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use crate::crane::{Arrival, Flow};
use crate::crown::{Count, Crown};
use crate::executor::Load;
use crate::packed::codes::{Codes, fold};
use crate::packed::decoder::HIDDEN;
use crate::packed::lens::{self, GLOBAL, Lens, Testimony, View, ln_1p};
use crate::packed::plane::Home;
use crate::packed::shape::Shape;
use crate::packed::stack::{LAYERS, Reading, Stack};
use crate::packed::witnesses::Witnesses;
use crate::packed::{Budget, Parts, Weights};
use crate::{DeviceChoice, Error, Result};

/// Share of used bottom cells at which the sketch grows.
const FULL: f32 = 0.3;
/// How much larger it becomes.
const GROWTH: usize = 8;
/// Growing by less than this factor does not pay for another stack.
const LEAST_GROWTH: usize = 2;
/// Share of the memory that the crown takes.
const CROWN_SHARE: f64 = 0.15;
/// Pairs that never occurred whose readings tell the noise of the layers.
const PHANTOMS: u64 = 64;
/// Edges stored between two looks at the noise.
const NOISE_EVERY: usize = 1024;
/// Share of the witnesses that intervals are made to hold: more than 0.9,
/// because a few hundred witnesses know the stream only so well.
const COVERED: f64 = 0.935;

/// A sketch of an edge stream. See the head of this module.
pub struct Packed<K> {
    weights: Arc<Weights>,
    pub(super) budget: Budget,
    parts: Parts,
    home: Home,
    pub(super) codes: Codes,
    /// Bytes that all parts may take now.
    pub(super) size: usize,
    /// Bytes at the start of this window.
    start: usize,
    pub(super) crown: Crown<K>,
    pub(super) witnesses: Witnesses,
    /// The last one is in use.
    pub(super) stacks: Vec<Stack>,
    pub(super) noise: u64,
    since_noise: usize,
    phantoms: u64,
    pub(super) sight: OnceLock<Sight>,
}

/// The lens and what follows from it for all edges.
pub(super) struct Sight {
    lens: Lens,
    /// None for a load that the decoder has never seen.
    focus: Option<[f32; HIDDEN]>,
    /// By how much intervals are widened, in ln(1 + count).
    spread: f32,
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
            weights,
            budget,
            parts,
            home: device.home()?,
            codes: Codes::new(seed),
            size: 0,
            start: budget.start.min(budget.most),
            crown: Crown::new(0),
            witnesses: Witnesses::new(0),
            stacks: Vec::new(),
            noise: 0,
            since_noise: 0,
            phantoms: 0,
            sight: OnceLock::new(),
        };
        sketch.restart(sketch.start)?;
        Ok(sketch)
    }

    /// Forgets everything and starts with `bytes`, within the budget.
    pub fn restart(&mut self, bytes: usize) -> Result<()> {
        let bytes = bytes.min(self.budget.most);
        let shape = self.shape(bytes)?;
        let stack = self.stack(0, shape.cell_bytes)?;
        self.start = bytes;
        self.size = bytes;
        self.crown = Crown::new(shape.crown);
        self.witnesses = Witnesses::new(shape.witnesses);
        self.stacks = vec![stack];
        (self.noise, self.since_noise) = (0, 0);
        self.sight = OnceLock::new();
        Ok(())
    }

    /// Forgets everything and starts with what this window needed.
    pub fn reset(&mut self) -> Result<()> {
        self.restart(self.needed())
    }

    /// Bytes with which this stream would not have had to grow.
    pub fn needed(&self) -> usize {
        let cells = -3.0 * self.witnesses.distinct() / f64::from(1.0 - FULL).ln();
        let bytes = (cells / 2.0 / 0.55) as usize;
        bytes.clamp(self.budget.start.min(self.budget.most), self.budget.most)
    }

    pub(super) fn shape(&self, bytes: usize) -> Result<Shape> {
        let share = if self.parts.crown { CROWN_SHARE } else { 0.0 };
        Shape::of(bytes, share, Crown::<K>::ENTRY)
    }

    pub(super) fn stack(&self, number: usize, cell_bytes: usize) -> Result<Stack> {
        let planes = self.home.planes(cell_bytes, self.parts.narrow)?;
        Ok(Stack::new(self.codes.clone(), number, cell_bytes, planes))
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store(&mut self, batch: &[Arrival<K>]) -> Result<()> {
        self.sight.take();
        let mut rest = Vec::with_capacity(batch.len());
        let (mut ids, mut packets) = (Vec::with_capacity(batch.len()), Vec::new());
        for arrival in batch.iter().filter(|arrival| arrival.packets > 0) {
            let id = self.codes.id(&arrival.key);
            self.witnesses.note(id, arrival.packets);
            let counted = self
                .crown
                .count(id, arrival.key, arrival.packets, arrival.bytes);
            if let Some(lightest) = counted {
                rest.push((arrival, lightest.rank()));
                ids.push(id);
                packets.push(arrival.packets);
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        let mut bounds = Vec::new();
        let Some((stack, old)) = self.stacks.split_last_mut() else {
            return Ok(());
        };
        stack.add(&ids, &packets, &mut bounds)?;
        for stack in old {
            for (bound, reading) in bounds.iter_mut().zip(stack.read(&ids)?) {
                *bound += reading.bound();
            }
        }
        self.look_at_noise(ids.len())?;
        if self.parts.crown {
            self.admit(&rest, &ids, &bounds)?;
        }
        self.grow_if_full()
    }

    /// Moves edges that outrank the lightest of their bucket to the crown.
    fn admit(&mut self, rest: &[(&Arrival<K>, u64)], ids: &[u64], bounds: &[u64]) -> Result<()> {
        let mut gone = Vec::new();
        for (((arrival, lightest), id), bound) in rest.iter().zip(ids).zip(bounds) {
            let count = count_on_admission(arrival, *bound, self.noise);
            // The bucket may have changed since: what is there now counts.
            if count.rank() > *lightest && count.rank() > self.crown.lightest(*id).rank() {
                gone.extend(self.crown.admit(*id, arrival.key, count));
            }
        }
        self.pour(&gone)
    }

    /// Makes the layers hold what these edges have had.
    fn pour(&mut self, gone: &[(K, Count)]) -> Result<()> {
        let Some((stack, old)) = self.stacks.split_last_mut() else {
            return Ok(());
        };
        if gone.is_empty() {
            return Ok(());
        }
        let ids: Vec<u64> = gone.iter().map(|(key, _)| self.codes.id(key)).collect();
        let mut totals: Vec<u64> = gone
            .iter()
            .map(|(_, count)| count.packets.saturating_add(count.slack))
            .collect();
        for stack in old {
            for (total, reading) in totals.iter_mut().zip(stack.read(&ids)?) {
                *total = total.saturating_sub(reading.bound());
            }
        }
        stack.raise(&ids, &totals)
    }

    /// The median reading of pairs that never occurred, now and then.
    fn look_at_noise(&mut self, stored: usize) -> Result<()> {
        self.since_noise += stored;
        if self.since_noise < NOISE_EVERY {
            return Ok(());
        }
        self.since_noise = 0;
        let first = self.phantoms;
        self.phantoms += PHANTOMS;
        let ids: Vec<u64> = (first..self.phantoms)
            .map(|n| fold(n ^ 0x5bf0_3635_f0a5_1f9d, 0xe703_7ed1_a0b4_28db))
            .collect();
        let mut bounds = vec![0; ids.len()];
        for stack in &self.stacks {
            for (bound, reading) in bounds.iter_mut().zip(stack.read(&ids)?) {
                *bound += reading.bound();
            }
        }
        let middle = bounds.len() / 2;
        self.noise = *bounds.select_nth_unstable(middle).1;
        Ok(())
    }

    fn grow_if_full(&mut self) -> Result<()> {
        let size = (self.size.saturating_mul(GROWTH)).min(self.budget.most);
        if size < LEAST_GROWTH * self.size {
            return Ok(());
        }
        let Some(stack) = self.stacks.last() else {
            return Ok(());
        };
        if stack.fill()?[0] <= FULL {
            return Ok(());
        }
        let shape = self.shape(size)?;
        let old: usize = self.stacks.iter().map(Stack::memory_bytes).sum();
        let stack = self.stack(self.stacks.len(), shape.cell_bytes.saturating_sub(old))?;
        self.stacks.push(stack);
        self.size = size;
        self.witnesses.grow(shape.witnesses);
        let small = std::mem::replace(&mut self.crown, Crown::new(shape.crown));
        let mut gone = Vec::new();
        for (key, count) in small.entries() {
            let id = self.codes.id(&key);
            gone.extend(self.crown.admit(id, key, count));
        }
        self.pour(&gone)
    }

    /// What is known of an edge, in the crown or in the layers. The layers
    /// hold no bytes, so an edge that is only there has none.
    pub fn flow(&self, key: K) -> Result<Flow<K>> {
        let flows = self.flows(&[key])?;
        flows
            .first()
            .copied()
            .ok_or_else(|| Error::State("an edge without an answer".into()))
    }

    /// What is known of each of these edges.
    pub fn flows(&self, keys: &[K]) -> Result<Vec<Flow<K>>> {
        let sight = self.sight()?;
        let ids: Vec<u64> = keys.iter().map(|key| self.codes.id(key)).collect();
        let readings = self.readings(&ids)?;
        let readings = readings.chunks_exact(self.stacks.len());
        let flows = keys.iter().zip(&ids).zip(readings);
        Ok(flows
            .map(|((key, id), readings)| match self.crown.get(*id, key) {
                Some(count) => Flow::of_crown(*key, &count),
                None => self.layered(*key, sight, readings),
            })
            .collect())
    }

    /// What all stacks hold of each edge, edge by edge.
    fn readings(&self, ids: &[u64]) -> Result<Vec<Reading>> {
        let mut all = vec![Reading::default(); ids.len() * self.stacks.len()];
        for (number, stack) in self.stacks.iter().enumerate() {
            let mine = all.iter_mut().skip(number).step_by(self.stacks.len());
            for (place, reading) in mine.zip(stack.read(ids)?) {
                *place = reading;
            }
        }
        Ok(all)
    }

    fn layered(&self, key: K, sight: &Sight, readings: &[Reading]) -> Flow<K> {
        let bound = lens::bound(readings);
        let answer = |packets, low, high| Flow {
            key,
            packets,
            bytes: 0,
            low,
            high,
        };
        let Some(focus) = sight.focus.filter(|_| self.parts.decoder) else {
            return answer(bound, 0, bound);
        };
        let view = sight.lens.view(readings);
        if bound == 0 || view.is_certain() {
            return answer(bound, bound, bound);
        }
        let [low, middle, high] = self.weights.decoder.decode(&focus, &view).quantiles;
        let count = |ln: f32| (f64::from(ln).exp_m1().round() as u64).min(bound);
        let middle = count(middle);
        answer(
            middle,
            count(low - sight.spread).min(middle),
            count(high + sight.spread).max(middle),
        )
    }

    fn sight(&self) -> Result<&Sight> {
        if let Some(sight) = self.sight.get() {
            return Ok(sight);
        }
        let sight = self.look()?;
        Ok(self.sight.get_or_init(|| sight))
    }

    /// Witnesses that are not in the crown: id and count.
    fn in_layers(&self) -> Vec<(u64, u64)> {
        let crowned = self.crown.entries().map(|(key, _)| self.codes.id(&key));
        let mut crowned: Vec<u64> = crowned.filter(|id| *id < self.witnesses.limit()).collect();
        crowned.sort_unstable();
        let witnesses = self.witnesses.all().iter();
        witnesses
            .filter(|witness| crowned.binary_search(&witness.id).is_err())
            .map(|witness| (witness.id, witness.count))
            .collect()
    }

    fn look(&self) -> Result<Sight> {
        let (ids, counts): (Vec<u64>, Vec<u64>) = match self.parts.witnesses {
            true => self.in_layers().into_iter().unzip(),
            false => Default::default(),
        };
        let readings = self.readings(&ids)?;
        let readings: Vec<&[Reading]> = readings.chunks_exact(self.stacks.len()).collect();
        let testimonies: Vec<Testimony> = counts
            .iter()
            .zip(&readings)
            .map(|(count, readings)| Testimony {
                count: *count,
                bound: lens::bound(readings),
            })
            .collect();
        let lens = Lens::new(&self.stacks, &testimonies, self.witnesses.distinct())?;
        let focus = self.weights.decoder.focus(&lens);
        let spread = focus.map_or(0.0, |focus| {
            let missed = readings.iter().zip(&counts).map(|(readings, count)| {
                let view = lens.view(readings);
                self.missed(&focus, &view, *count)
            });
            covering(missed.collect())
        });
        Ok(Sight {
            lens,
            focus,
            spread,
        })
    }

    /// By how much the interval of a witness would have to be wider to hold
    /// its count; less than 0 if it could be narrower.
    fn missed(&self, focus: &[f32; HIDDEN], view: &View, count: u64) -> f32 {
        if view.is_certain() || view.bound == 0.0 {
            return if view.bound <= ln_1p(count) {
                -1.0
            } else {
                1.0
            };
        }
        let [low, _, high] = self.weights.decoder.decode(focus, view).quantiles;
        let above = (count as f32 + HALF).ln_1p();
        let below = (count as f32 - HALF).ln_1p();
        (low - above).max(below - high)
    }

    /// What the decoder is given for each of these ids, for training.
    pub(crate) fn views(&self, ids: &[u64]) -> Result<(Vec<View>, [f32; GLOBAL])> {
        let sight = self.sight()?;
        let readings = self.readings(ids)?;
        let views = readings
            .chunks_exact(self.stacks.len())
            .map(|readings| sight.lens.view(readings))
            .collect();
        Ok((views, *sight.lens.global()))
    }

    /// The id of an edge, and whether the crown has it.
    pub(crate) fn place(&self, key: &K) -> (u64, bool) {
        let id = self.codes.id(key);
        (id, self.crown.get(id, key).is_some())
    }

    /// The table of heavy edges.
    pub fn crown(&self) -> &Crown<K> {
        &self.crown
    }

    /// How full the layers of the stack in use are, bottom first: the share of
    /// cells that are not 0.
    pub fn loads(&self) -> Vec<Load> {
        let stack = self.stacks.last();
        let fill = stack.and_then(|stack| stack.fill().ok());
        let loads = fill.unwrap_or([0.0; LAYERS]);
        loads.map(|mean| Load { mean, max: mean }).to_vec()
    }

    /// How often the sketch has grown in this window.
    pub fn expansions(&self) -> usize {
        self.stacks.len() - 1
    }

    /// Bytes of cells, crown and witnesses.
    pub fn memory_bytes(&self) -> usize {
        let cells: usize = self.stacks.iter().map(Stack::memory_bytes).sum();
        cells + self.crown.memory_bytes() + self.witnesses.memory_bytes()
    }

    /// Whether a cell of the top layer is at its limit, so that counts may be
    /// too low.
    pub fn is_saturated(&self) -> bool {
        let tops = self.stacks.iter().map(|stack| &stack.planes()[LAYERS - 1]);
        let mut bytes = tops.filter_map(|plane| plane.to_bytes().ok());
        bytes.any(|bytes| bytes.as_chunks::<4>().0.contains(&[u8::MAX; 4]))
    }

    /// Where this runs, for people.
    pub fn device_name(&self) -> String {
        self.home.to_string()
    }
}

/// Counts are whole: an interval that comes within this of a count holds it.
const HALF: f32 = 0.499;

/// The widening that holds [`COVERED`] of the witnesses.
fn covering(mut missed: Vec<f32>) -> f32 {
    if missed.is_empty() {
        return 0.0;
    }
    missed.sort_unstable_by(f32::total_cmp);
    let rank = (COVERED * (missed.len() + 1) as f64).ceil() as usize;
    missed[rank.clamp(1, missed.len()) - 1].clamp(-0.5, 3.0)
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
