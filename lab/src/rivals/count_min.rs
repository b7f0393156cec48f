//! Count-Min, plain and with conservative update.
//!
//! With total weight W and w counters in each of d rows the plain sketch is
//! too high by more than e·W/w with probability at most e^−d. Conservative
//! update raises only the counters that have to be raised; it is never worse.

use crane_model::{Edge, Result, Weighted};

use super::{Rival, from_bytes, hash, reduce, to_bytes, too_small};

/// Rows of 32-bit counters that saturate.
pub struct CountMin {
    rows: usize,
    width: usize,
    conservative: bool,
    seed: u64,
    counters: Vec<u32>,
}

impl CountMin {
    /// As many counters as fit `bytes`, in `rows` rows.
    pub fn new(bytes: usize, rows: usize, conservative: bool, seed: u64) -> Result<Self> {
        let width = bytes / 4 / rows;
        if width == 0 {
            return Err(too_small(bytes, 4 * rows));
        }
        Ok(Self {
            rows,
            width,
            conservative,
            seed,
            counters: vec![0; rows * width],
        })
    }

    fn indices(&self, edge: Edge) -> impl Iterator<Item = usize> + use<> {
        let (width, seed) = (self.width, self.seed);
        (0..self.rows).map(move |row| row * width + reduce(hash(edge, seed + row as u64), width))
    }

    fn least(&self, edge: Edge) -> u32 {
        self.indices(edge)
            .map(|index| self.counters[index])
            .min()
            .unwrap_or(0)
    }
}

impl Rival for CountMin {
    fn store(&mut self, batch: &[Weighted]) -> Result<()> {
        for arrival in batch {
            let weight = u32::try_from(arrival.weight).unwrap_or(u32::MAX);
            let least = self.least(arrival.edge).saturating_add(weight);
            for index in self.indices(arrival.edge) {
                let counter = &mut self.counters[index];
                *counter = if self.conservative {
                    (*counter).max(least)
                } else {
                    counter.saturating_add(weight)
                };
            }
        }
        Ok(())
    }

    fn query(&self, edges: &[Edge]) -> Result<Vec<f64>> {
        Ok(edges
            .iter()
            .map(|edge| f64::from(self.least(*edge)))
            .collect())
    }

    fn memory_bytes(&self) -> usize {
        4 * self.counters.len()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(to_bytes(&self.counters))
    }

    fn load(&mut self, state: &[u8]) -> Result<()> {
        from_bytes(&mut self.counters, state)
    }
}
