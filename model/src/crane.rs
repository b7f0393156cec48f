//! Crane: layers and crown together, in one of two profiles.

use std::hash::Hash;
use std::sync::Arc;

use crate::crown::{Count, Crown};
use crate::executor::Load;
use crate::packed::codes::Codes;
use crate::packed::{self, Budget, Packed, Parts};
use crate::{DeviceChoice, Edge, Result, Sketch, Weighted};

/// Packets of one edge in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<K> {
    /// The edge.
    pub key: K,
    /// How many packets.
    pub packets: u64,
    /// How many bytes they have together.
    pub bytes: u64,
}

/// What is known of one edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow<K> {
    /// The edge.
    pub key: K,
    /// Best estimate of its packets.
    pub packets: u64,
    /// Best estimate of its bytes.
    pub bytes: u64,
    /// It has had no fewer packets than this, most likely.
    pub low: u64,
    /// It has had no more packets than this, most likely.
    pub high: u64,
}

impl<K> Flow<K> {
    /// What the crown says.
    pub(crate) fn of_crown(key: K, count: &Count) -> Self {
        Self {
            key,
            packets: count.packets,
            bytes: count.bytes,
            low: count.packets.saturating_sub(count.slack),
            high: count.packets.saturating_add(count.slack),
        }
    }
}

/// A sketch of an edge stream with its heavy hitters.
pub struct Crane<K>(Profile<K>);

// A sketch is made once and used for hours: its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Profile<K> {
    Paper(Paper<K>),
    Packed(Packed<K>),
}

impl<K: Copy + Eq + Hash> Crane<K> {
    /// The paper profile: a crown of `slots` entries over `layers`; `to_edge`
    /// names an edge as the layers know it.
    pub fn new(layers: Box<dyn Sketch>, slots: usize, seed: u64, to_edge: fn(&K) -> Edge) -> Self {
        Self(Profile::Paper(Paper {
            layers,
            crown: Crown::new(slots),
            codes: Codes::new(seed, None),
            to_edge,
            noise: 0.0,
        }))
    }

    /// The packed profile: everything within `budget` bytes, cells reachable
    /// only with the secret that follows from `seed`.
    pub fn packed(
        weights: Arc<packed::Weights>,
        budget: Budget,
        seed: u64,
        device: DeviceChoice,
    ) -> Result<Self> {
        let packed = Packed::new(weights, budget, Parts::ALL, seed, device)?;
        Ok(Self(Profile::Packed(packed)))
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store(&mut self, batch: &[Arrival<K>]) -> Result<()> {
        match &mut self.0 {
            Profile::Paper(paper) => paper.store(batch),
            Profile::Packed(packed) => packed.store(batch),
        }
    }

    /// What is known of an edge, in the crown or in the layers. The layers
    /// hold no bytes, so an edge that is only there has none.
    pub fn flow(&self, key: K) -> Result<Flow<K>> {
        match &self.0 {
            Profile::Paper(paper) => paper.flow(key),
            Profile::Packed(packed) => packed.flow(key),
        }
    }

    /// Everything in the crown, in no particular order.
    pub fn heavy(&self) -> impl Iterator<Item = Flow<K>> {
        let crown = match &self.0 {
            Profile::Paper(paper) => &paper.crown,
            Profile::Packed(packed) => packed.crown(),
        };
        let entries = crown.entries();
        entries.map(|(key, count)| Flow::of_crown(key, &count))
    }

    /// How full the layers are, and where they live.
    pub fn layers(&self) -> Layers<'_, K> {
        Layers(&self.0)
    }

    /// Bytes of everything that answers come from.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            Profile::Paper(paper) => paper.layers.memory_bytes() + paper.crown.memory_bytes(),
            Profile::Packed(packed) => packed.memory_bytes(),
        }
    }

    /// Bytes that were of use so far: what a sketch of the same stream should
    /// start with.
    pub fn needed_bytes(&self) -> usize {
        match &self.0 {
            Profile::Paper(paper) => {
                let loads = paper.layers.loads();
                let layers = loads.iter().filter(|load| load.mean > 0.0).count().max(1);
                let layer = paper.layers.memory_bytes() / loads.len().max(1);
                layers * layer + paper.crown.entries().count() * Crown::<K>::ENTRY
            }
            Profile::Packed(packed) => packed.needed(),
        }
    }

    /// Forgets everything. The packed profile starts again with the memory
    /// that it needed, within its budget; the paper profile with one layer.
    pub fn reset(&mut self) -> Result<()> {
        match &mut self.0 {
            Profile::Paper(paper) => paper.reset(),
            Profile::Packed(packed) => packed.reset(),
        }
    }
}

/// The layers below the crown, to be looked at.
pub struct Layers<'a, K>(&'a Profile<K>);

impl<K: Copy + Eq + Hash> Layers<'_, K> {
    /// How full each layer is, bottom first.
    pub fn loads(&self) -> Vec<Load> {
        match self.0 {
            Profile::Paper(paper) => paper.layers.loads().to_vec(),
            Profile::Packed(packed) => packed.loads(),
        }
    }

    /// How often they have grown since the start or the last reset.
    pub fn expansions(&self) -> usize {
        match self.0 {
            Profile::Paper(paper) => paper.layers.expansions(),
            Profile::Packed(packed) => packed.expansions(),
        }
    }

    /// Whether a cell has reached its limit, so that counts may be too low.
    pub fn is_saturated(&self) -> bool {
        match self.0 {
            Profile::Paper(paper) => paper.layers.is_saturated(),
            Profile::Packed(packed) => packed.is_saturated(),
        }
    }

    /// Where they live, for people.
    pub fn device_name(&self) -> String {
        match self.0 {
            Profile::Paper(paper) => paper.layers.device_name(),
            Profile::Packed(packed) => packed.device_name(),
        }
    }
}

/// Batches smaller than this say too little about the noise of the layers.
const ENOUGH_FOR_NOISE: usize = 32;

/// A crown over the paper's layers. One that outgrows the lightest crown entry
/// leaves the layers with what they believe it to have had, and the other is
/// poured back into them.
struct Paper<K> {
    layers: Box<dyn Sketch>,
    crown: Crown<K>,
    codes: Codes,
    to_edge: fn(&K) -> Edge,
    noise: f64,
}

impl<K: Copy + Eq + Hash> Paper<K> {
    fn store(&mut self, batch: &[Arrival<K>]) -> Result<()> {
        let (crown, codes) = (&mut self.crown, &self.codes);
        let rest = batch.iter().filter(|a| a.packets > 0).filter_map(|a| {
            let id = codes.id(&a.key);
            if crown.count(id, a.key, a.packets, a.bytes) {
                return None;
            }
            // One that finds room is new, so it has left nothing in the layers.
            if crown.lightest(id).rank() == 0 {
                crown.admit(id, a.key, Count::exact(a.packets, a.bytes));
                return None;
            }
            Some((id, a))
        });
        let rest: Vec<(u64, &Arrival<K>)> = rest.collect();
        if rest.is_empty() {
            return Ok(());
        }
        let weighted: Vec<Weighted> = rest
            .iter()
            .map(|(_, a)| Weighted::new((self.to_edge)(&a.key), a.packets))
            .collect();
        let ratios = self.layers.store_and_query(&weighted)?;
        let bounds: Vec<f64> = ratios
            .iter()
            .map(|ratios| self.layers.bound(ratios))
            .collect();
        self.learn_noise(&rest, &bounds);

        let mut poured = Vec::new();
        for ((id, arrival), bound) in rest.into_iter().zip(bounds) {
            let lightest = self.crown.lightest(id);
            let count = count_on_admission(arrival, bound, self.noise, &lightest);
            if count.rank() > lightest.rank() {
                let edge = (self.to_edge)(&arrival.key);
                self.layers.take(edge, count.packets)?;
                if let Some((key, count)) = self.crown.admit(id, arrival.key, count) {
                    poured.push(Weighted::new((self.to_edge)(&key), count.packets));
                }
            }
        }
        if poured.is_empty() {
            Ok(())
        } else {
            self.layers.store(&poured)
        }
    }

    /// The layers answer too high, most of them by about the same: by what
    /// the median edge of a batch has beyond its own packets.
    fn learn_noise(&mut self, rest: &[(u64, &Arrival<K>)], bounds: &[f64]) {
        if rest.len() < ENOUGH_FOR_NOISE {
            return;
        }
        let beyond = rest
            .iter()
            .zip(bounds)
            .map(|((_, a), bound)| (bound - a.packets as f64).max(0.0));
        let mut beyond: Vec<f64> = beyond.collect();
        let middle = beyond.len() / 2;
        self.noise = *beyond.select_nth_unstable_by(middle, f64::total_cmp).1;
    }

    fn flow(&self, key: K) -> Result<Flow<K>> {
        if let Some(count) = self.crown.get(self.codes.id(&key), &key) {
            return Ok(Flow::of_crown(key, &count));
        }
        let ratios = self.layers.ratios(&[(self.to_edge)(&key)])?;
        let ratios = ratios.first().map_or(&[][..], |ratios| ratios);
        let high = self.layers.bound(ratios).ceil() as u64;
        let packets = self.layers.decode(ratios).round() as u64;
        Ok(Flow {
            key,
            packets,
            bytes: 0,
            low: 0,
            high: high.max(packets),
        })
    }

    fn reset(&mut self) -> Result<()> {
        self.crown.clear();
        self.noise = 0.0;
        self.layers.reset()
    }
}

/// The layers say at most `bound`, of which `noise` is usually not the edge's
/// own. They can be wrong without limit where many edges share cells, so they
/// are believed no further than what `lightest` had: no admission then adds
/// more to the crown than the packets that arrived, as in Space-Saving.
fn count_on_admission<K>(arrival: &Arrival<K>, bound: f64, noise: f64, lightest: &Count) -> Count {
    let mean_bytes = arrival.bytes / arrival.packets.max(1);
    let limit = (bound as u64).saturating_sub(arrival.packets);
    let believed = ((bound - noise) as u64).saturating_sub(arrival.packets);
    let earlier = believed.min(lightest.packets);
    let earlier_bytes = earlier.saturating_mul(mean_bytes).min(lightest.bytes);
    Count {
        packets: arrival.packets.saturating_add(earlier),
        bytes: arrival.bytes.saturating_add(earlier_bytes),
        slack: limit.saturating_sub(earlier).max(earlier),
    }
}
