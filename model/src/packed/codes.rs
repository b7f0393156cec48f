//! Codes: which cells an edge has in each layer.
//!
//! A secret-keyed 64-bit hash of the edge is its id. Every stream then looks
//! like random ids, star-shaped traffic does not pile up anywhere, and who does
//! not know the secret cannot craft collisions. Three cells of each layer
//! follow from the id, one in each third of the layer: by the hash itself, or
//! by learned encoders that see its two halves. On ids that look random no code
//! can beat a good hash, and encoders cost a hundred times as much, so hashed
//! codes are the default (`docs/accuracy.md` has both).

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::quality::FixedState;

use crate::encoder::{CODE, Code};
use crate::weights::Ends;

/// Cells of an edge in each layer.
pub const CELLS: usize = 3;

/// Where the cells of an edge are in one layer.
pub type Places = [u32; CELLS];

/// Makes ids and places from a secret.
#[derive(Clone)]
pub struct Codes {
    hasher: FixedState,
    secret: u64,
    /// Encoders by layer, for learned codes.
    learned: Option<Arc<Vec<Ends>>>,
}

impl Codes {
    /// Codes that only this seed gives: hashed ones, or those of encoders, one
    /// pair for each layer.
    pub fn new(seed: u64, learned: Option<Arc<Vec<Ends>>>) -> Self {
        Self {
            learned: learned.filter(|layers| !layers.is_empty()),
            hasher: FixedState::with_seed(fold(seed ^ SALT, ODD)),
            secret: fold(seed ^ ODD, SALT),
        }
    }

    /// Tells codes of another seed.
    pub fn check(&self) -> u64 {
        fold(self.secret, SALT)
    }

    /// The id of an edge or a node.
    #[inline]
    pub fn id<K: Hash>(&self, key: &K) -> u64 {
        fold(self.hasher.hash_one(key) ^ self.secret, ODD)
    }

    /// The part of an id that table and layers know.
    pub fn short(id: u64) -> u32 {
        (id >> 32) as u32
    }

    /// The cells of a short id in the layer numbered `layer` with `cells` cells.
    #[inline]
    pub fn places(&self, id: u32, layer: usize, cells: usize) -> Places {
        let third = (cells / CELLS) as u64;
        let id = u64::from(id) << 32 | u64::from(!id);
        let first = fold(id ^ self.secret.rotate_left(17 * layer as u32), ODD);
        if let Some(layers) = &self.learned {
            return learned(&layers[layer % layers.len()], first, third);
        }
        let second = fold(first ^ SALT, ODD);
        let at = |part: u64, bits: u64| (part * third + ((bits * third) >> 32)) as u32;
        [
            at(0, first >> 32),
            at(1, first & u64::from(u32::MAX)),
            at(2, second >> 32),
        ]
    }
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
            seen = fold(seen ^ SALT, ODD ^ cell as u64);
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

const SALT: u64 = 0x243f_6a88_85a3_08d3;
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// High and low half of a 128-bit product: one multiplication mixes all bits.
#[inline]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Edge;

    #[test]
    fn a_star_spreads_like_random_pairs_and_every_seed_differently() {
        let cells = 3 * 1000;
        for seed in 0..3 {
            let codes = Codes::new(seed, None);
            let mut hits = vec![0u32; cells];
            for n in 0..20_000 {
                let id = codes.id(&Edge::new(7, n));
                for place in codes.places(Codes::short(id), 0, cells) {
                    hits[place as usize] += 1;
                }
            }
            // 20 expected in each cell, with the variance of a Poisson.
            let variance: f64 = hits
                .iter()
                .map(|hits| (f64::from(*hits) - 20.0).powi(2))
                .sum::<f64>()
                / cells as f64;
            assert!((15.0..25.0).contains(&variance), "{variance}");
        }
        let edge = Edge::new(1, 2);
        assert_ne!(Codes::new(1, None).id(&edge), Codes::new(2, None).id(&edge));
    }
}
