//! Places: which cells an edge has in each layer.
//!
//! Three, one in each third of the layer: by a hash of its tag, or by learned
//! encoders that see the two halves of the hash. On ids that look random no code
//! can beat a good hash, and encoders cost a hundred times as much, so hashed
//! places are the default (`docs/accuracy.md` has both).

use std::sync::Arc;

use crate::codes::{Codes, ODD, SALT, mix};
use crate::paper::encoder::{CODE, Code};
use crate::paper::weights::Ends;

/// Cells of an edge in each layer.
pub const CELLS: usize = 3;

/// Where the cells of an edge are in one layer.
pub type Places = [u32; CELLS];

/// Finds the cells of an edge.
#[derive(Clone)]
pub struct CellPlaces {
    /// Follows from the secret and the window.
    seed: u64,
    /// Encoders by layer, for learned places.
    learned: Option<Arc<Vec<Ends>>>,
}

impl CellPlaces {
    /// Hashed places, or those of encoders, one pair for each layer.
    pub fn new(codes: &Codes, learned: Option<Arc<Vec<Ends>>>) -> Self {
        Self {
            seed: codes.cells(),
            learned: learned.filter(|layers| !layers.is_empty()),
        }
    }

    /// The cells of tags in the layer numbered `layer`, which has `cells` cells.
    #[inline]
    pub fn find(
        &self,
        tags: impl Iterator<Item = u32>,
        layer: usize,
        cells: usize,
        places: &mut Vec<Places>,
    ) {
        places.clear();
        let seed = self.seed.rotate_left(17 * layer as u32);
        let third = (cells / CELLS) as u64;
        match &self.learned {
            None => places.extend(tags.map(|tag| hashed(spread(tag, seed), third))),
            Some(layers) => {
                let ends = &layers[layer % layers.len()];
                places.extend(tags.map(|tag| learned(ends, spread(tag, seed), third)));
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
fn hashed(first: u64, third: u64) -> Places {
    let second = mix(first ^ SALT, ODD);
    let at = |part: u64, bits: u64| (part * third + ((bits * third) >> 32)) as u32;
    [
        at(0, first >> 32),
        at(1, first & u64::from(u32::MAX)),
        at(2, second >> 32),
    ]
}

/// Encoder runs that one place is made of, 6 bits each.
const DIGITS: u32 = 4;

/// Places by learned encoders: the strongest outputs of four codes are the
/// digits of a number that says where in its third a cell is.
fn learned(ends: &Ends, id: u64, third: u64) -> Places {
    std::array::from_fn(|cell| {
        let mut seen = id;
        let mut number = 0;
        for digit in 0..DIGITS {
            seen = mix(seen ^ SALT, ODD ^ cell as u64);
            let code = match digit % 2 {
                0 => ends.src.encode((seen >> 32) as u32),
                _ => ends.dst.encode(seen as u32),
            };
            number = number * CODE as u64 + strongest(&code);
        }
        let all = (CODE as u64).pow(DIGITS);
        (cell as u64 * third + number * third / all) as u32
    })
}

fn strongest(code: &Code) -> u64 {
    let outputs = (0..).zip(code);
    let best = outputs.max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Secret};

    #[test]
    fn a_star_spreads_like_random_pairs_and_every_seed_differently() {
        let cells = 3 * 1000;
        for seed in 0..3 {
            let codes = Codes::new(Secret::from_seed(seed), 0);
            let ids = (0..20_000).map(|n| codes.id(&Edge::new(7, n).name()));
            let mut places = Vec::new();
            let tags = ids.map(|id| codes.tag(id));
            CellPlaces::new(&codes, None).find(tags, 0, cells, &mut places);
            let mut hits = vec![0u32; cells];
            for place in places.as_flattened() {
                hits[*place as usize] += 1;
            }
            // 20 expected in each cell, with the variance of a Poisson.
            let variance: f64 = hits
                .iter()
                .map(|hits| (f64::from(*hits) - 20.0).powi(2))
                .sum::<f64>()
                / cells as f64;
            assert!((15.0..25.0).contains(&variance), "{variance}");
        }
    }
}
