//! An exact map: the memory that exact answers need.

use crane_model::{Edge, Error, Result, Weighted};
use rustc_hash::FxHashMap;

use super::Rival;

/// Counts every edge; its memory grows with the stream.
#[derive(Default)]
pub struct Exact {
    counts: FxHashMap<Edge, u64>,
}

/// Two ids and a 64-bit count.
const ENTRY: usize = 16;

impl Rival for Exact {
    fn store(&mut self, batch: &[Weighted]) -> Result<()> {
        for arrival in batch {
            *self.counts.entry(arrival.edge).or_default() += arrival.weight;
        }
        Ok(())
    }

    fn query(&self, edges: &[Edge]) -> Result<Vec<f64>> {
        let count = |edge| self.counts.get(edge).copied().unwrap_or(0) as f64;
        Ok(edges.iter().map(count).collect())
    }

    /// The size of a hashbrown table: a power of two slots, at most 7/8 of them used, and
    /// one control byte for each.
    fn memory_bytes(&self) -> usize {
        let slots = (self.counts.len() * 8).div_ceil(7).next_power_of_two();
        slots * (ENTRY + 1)
    }

    fn save(&self) -> Result<Vec<u8>> {
        let mut state = Vec::with_capacity(self.counts.len() * ENTRY);
        for (edge, count) in &self.counts {
            state.extend(edge.src.to_le_bytes());
            state.extend(edge.dst.to_le_bytes());
            state.extend(count.to_le_bytes());
        }
        Ok(state)
    }

    fn load(&mut self, state: &[u8]) -> Result<()> {
        let (entries, rest) = state.as_chunks::<ENTRY>();
        if !rest.is_empty() {
            return Err(Error::State("it ends inside an entry".into()));
        }
        let word = |entry: &[u8; ENTRY], at: usize| {
            u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
        };
        let entries = entries.iter().map(|entry| {
            let count = u64::from(word(entry, 8)) | u64::from(word(entry, 12)) << 32;
            (Edge::new(word(entry, 0), word(entry, 4)), count)
        });
        self.counts = entries.collect();
        Ok(())
    }
}
