//! The cells of an edge in each layer.
//!
//! An edge has three cells, one in each third of the layer, chosen by a hash of its tag.
//! Ids look random, and on random ids no learned code is better than a good hash. Other
//! ways to choose cells ([`FindCells`]) exist to measure that; `docs/accuracy.md`
//! compares the learned codes of the paper.

use std::sync::Arc;

use crate::codes::{Codes, ODD, SALT, mix};

/// Number of cells of an edge in each layer.
pub const CELLS: usize = 3;

/// Indices of the cells of an edge in one layer.
pub type CellIndices = [u32; CELLS];

/// Values of the cells of an edge in one layer.
pub type CellValues = [u32; CELLS];

/// Chooses the cells of an edge in another way than by hash.
pub trait FindCells: Send + Sync {
    /// The cells of an edge in the layer numbered `layer`, one in each third; a third has
    /// `third` cells. `id` is a keyed hash of the edge.
    fn find(&self, layer: usize, id: u64, third: u64) -> CellIndices;
}

/// Finds the cells of an edge.
#[derive(Clone)]
pub struct CellFinder {
    /// Derived from the secret and the window.
    seed: u64,
    /// Used instead of the hash, if present.
    other: Option<Arc<dyn FindCells>>,
}

impl CellFinder {
    /// Chooses cells by hash.
    pub fn new(codes: &Codes) -> Self {
        Self {
            seed: codes.cells(),
            other: None,
        }
    }

    /// Chooses cells in another way.
    pub fn found_by(self, other: Arc<dyn FindCells>) -> Self {
        Self {
            other: Some(other),
            ..self
        }
    }

    /// The cells of edges with these tags in the layer numbered `layer`, which has
    /// `cells` cells.
    #[inline]
    pub fn find(
        &self,
        tags: impl Iterator<Item = u32>,
        layer: usize,
        cells: usize,
        indices: &mut Vec<CellIndices>,
    ) {
        indices.clear();
        let seed = self.seed.rotate_left(17 * layer as u32);
        let third = (cells / CELLS) as u64;
        match &self.other {
            None => indices.extend(tags.map(|tag| hashed(spread(tag, seed), third))),
            Some(other) => {
                indices.extend(tags.map(|tag| other.find(layer, spread(tag, seed), third)));
            }
        }
    }
}

#[inline]
fn spread(tag: u32, seed: u64) -> u64 {
    let id = u64::from(tag) << 32 | u64::from(!tag);
    mix(id ^ seed, ODD)
}

#[inline]
fn hashed(first: u64, third: u64) -> CellIndices {
    let second = mix(first ^ SALT, ODD);
    let at = |part: u64, bits: u64| (part * third + ((bits * third) >> 32)) as u32;
    [
        at(0, first >> 32),
        at(1, first & u64::from(u32::MAX)),
        at(2, second >> 32),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Secret};

    #[test]
    fn a_star_spreads_like_random_pairs_for_every_seed() {
        let cells = 3 * 1000;
        for seed in 0..3 {
            let codes = Codes::new(Secret::from_seed(seed), 0);
            let ids = (0..20_000).map(|n| codes.id(&Edge::new(7, n).name()));
            let mut indices = Vec::new();
            let tags = ids.map(|id| codes.tag(id));
            CellFinder::new(&codes).find(tags, 0, cells, &mut indices);
            let mut hits = vec![0u32; cells];
            for index in indices.as_flattened() {
                hits[*index as usize] += 1;
            }
            // 20 hits are expected in each cell, with the variance of a Poisson
            // distribution.
            let variance: f64 = hits
                .iter()
                .map(|hits| (f64::from(*hits) - 20.0).powi(2))
                .sum::<f64>()
                / cells as f64;
            assert!((15.0..25.0).contains(&variance), "{variance}");
        }
    }
}
