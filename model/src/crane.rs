//! Crane: layers and crown together.
//!
//! An edge that is in the crown, or finds room there, is counted exactly.
//! All others are stored in the layers. One that outgrows the lightest crown
//! entry changes places with it: it leaves the layers with what they believe
//! it to have had, and the other is poured back into them.

use std::hash::Hash;

use crate::crown::{Count, Crown, Slot};
use crate::{Edge, Result, Sketch, Weighted};

/// Packets of one edge in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<K> {
    /// The edge, by its real name.
    pub key: K,
    /// The same edge as the layers know it.
    pub edge: Edge,
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
    /// It has had no fewer packets than this.
    pub low: u64,
    /// It has had no more packets than this, as far as the layers can tell.
    pub high: u64,
}

/// Batches smaller than this say too little about the noise of the layers.
const ENOUGH_FOR_NOISE: usize = 32;

/// A sketch of an edge stream with its heavy hitters.
pub struct Crane<K> {
    layers: Box<dyn Sketch>,
    crown: Crown<K>,
    to_edge: fn(&K) -> Edge,
    noise: f64,
}

impl<K: Copy + Eq + Hash> Crane<K> {
    /// A crown of `slots` slots over `layers`; `to_edge` names an edge as the
    /// layers know it.
    pub fn new(layers: Box<dyn Sketch>, slots: usize, seed: u64, to_edge: fn(&K) -> Edge) -> Self {
        Self {
            layers,
            crown: Crown::new(slots, seed),
            to_edge,
            noise: 0.0,
        }
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store(&mut self, batch: &[Arrival<K>]) -> Result<()> {
        let crown = &mut self.crown;
        let rest: Vec<&Arrival<K>> = batch
            .iter()
            .filter(|a| !crown.count(a.key, a.packets, a.bytes))
            .collect();
        if rest.is_empty() {
            return Ok(());
        }
        let weighted: Vec<Weighted> = rest
            .iter()
            .map(|a| Weighted::new(a.edge, a.packets))
            .collect();
        let ratios = self.layers.store_and_query(&weighted)?;
        let bounds: Vec<f64> = ratios
            .iter()
            .map(|ratios| self.layers.bound(ratios))
            .collect();
        self.learn_noise(&rest, &bounds);

        let mut poured = Vec::new();
        for (arrival, bound) in rest.into_iter().zip(bounds) {
            let lightest = self.crown.lightest(&arrival.key);
            let count = count_on_admission(arrival, bound, self.noise, &lightest);
            if count.rank() > lightest.rank() {
                self.layers.take(arrival.edge, count.total_packets())?;
                if let Some(Slot { key, count }) = self.crown.admit(arrival.key, count) {
                    poured.push(Weighted::new((self.to_edge)(&key), count.total_packets()));
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
    fn learn_noise(&mut self, rest: &[&Arrival<K>], bounds: &[f64]) {
        if rest.len() < ENOUGH_FOR_NOISE {
            return;
        }
        let beyond = rest
            .iter()
            .zip(bounds)
            .map(|(a, bound)| (bound - a.packets as f64).max(0.0));
        let mut beyond: Vec<f64> = beyond.collect();
        let middle = beyond.len() / 2;
        self.noise = *beyond.select_nth_unstable_by(middle, f64::total_cmp).1;
    }

    /// What is known of an edge, in the crown or in the layers. The layers
    /// hold no bytes, so an edge that is only there has none.
    pub fn flow(&self, key: K) -> Result<Flow<K>> {
        if let Some(count) = self.crown.get(&key) {
            return Ok(flow(key, count));
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

    /// Everything in the crown, in no particular order.
    pub fn heavy(&self) -> impl Iterator<Item = Flow<K>> {
        self.crown.entries().map(|slot| flow(slot.key, &slot.count))
    }

    /// The layers below the crown.
    pub fn layers(&self) -> &dyn Sketch {
        &*self.layers
    }

    /// Bytes of layers and crown.
    pub fn memory_bytes(&self) -> usize {
        self.layers.memory_bytes() + self.crown.memory_bytes()
    }

    /// Forgets everything.
    pub fn reset(&mut self) -> Result<()> {
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
    let earlier = believed.min(lightest.total_packets());
    Count {
        packets: arrival.packets,
        bytes: arrival.bytes,
        earlier_packets: earlier,
        earlier_bytes: earlier
            .saturating_mul(mean_bytes)
            .min(lightest.total_bytes()),
        earlier_limit: limit.max(earlier),
    }
}

fn flow<K>(key: K, count: &Count) -> Flow<K> {
    Flow {
        key,
        packets: count.total_packets(),
        bytes: count.total_bytes(),
        low: count.packets,
        high: count.packets.saturating_add(count.earlier_limit),
    }
}
