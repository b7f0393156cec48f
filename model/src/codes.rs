//! Codes: which cells an edge has in each layer.
//!
//! An id is a keyed hash of a name ([`crate::secret`]), so every stream looks
//! like random ids and star-shaped traffic does not pile up anywhere. Whatever
//! has a place in a sketch gets it from the id and the window: two edges that
//! meet in one window do not meet in the next. Three cells of each layer follow,
//! one in each third of the layer: by the hash itself, or by learned encoders
//! that see its two halves. On ids that look random no code can beat a good
//! hash, and encoders cost a hundred times as much, so hashed codes are the
//! default (`docs/accuracy.md` has both).
//!
//! Layers know an edge by 32 bits of its id, its *tag*. Of D edges about D²/2^33
//! pairs share their tag and with it all their cells: one in 93,000 edges, 120 in
//! a million. Each reads as the other one, too.

use std::sync::Arc;

use crate::name::{AnyName, Name};
use crate::paper::encoder::{CODE, Code};
use crate::paper::weights::Ends;
use crate::secret::Secret;

/// Cells of an edge in each layer.
pub const CELLS: usize = 3;

/// Where the cells of an edge are in one layer.
pub type Places = [u32; CELLS];

/// Makes ids and places from a secret, for one window.
#[derive(Clone)]
pub struct Codes {
    secret: Secret,
    /// Follow from the secret and the window.
    tags: u64,
    cells: u64,
    spots: u64,
    /// Encoders by layer, for learned codes.
    learned: Option<Arc<Vec<Ends>>>,
}

impl Codes {
    /// Codes of the window numbered `window`: hashed ones, or those of
    /// encoders, one pair for each layer.
    pub fn new(secret: Secret, window: u64, learned: Option<Arc<Vec<Ends>>>) -> Self {
        Self {
            secret,
            tags: secret.derive(window, 1),
            cells: secret.derive(window, 2),
            spots: secret.derive(window, 3),
            learned: learned.filter(|layers| !layers.is_empty()),
        }
    }

    /// Tells codes of another secret or window.
    pub fn check(&self) -> u64 {
        fold(self.cells, SALT)
    }

    /// The id of a name. It depends on the secret alone.
    #[inline]
    pub fn id<N: Name>(&self, name: &N) -> u64 {
        self.secret.id(name)
    }

    /// The id of a name of either kind.
    pub fn id_of_any(&self, name: &AnyName) -> u64 {
        match name {
            AnyName::Narrow(name) => self.id(name),
            AnyName::Wide(name) => self.id(name),
        }
    }

    /// What table and layers know an id by in this window.
    #[inline]
    pub fn tag(&self, id: u64) -> u32 {
        (fold(id ^ self.tags, ODD) >> 32) as u32
    }

    /// Where an id is in the crown in this window.
    #[inline]
    pub fn spot(&self, id: u64) -> u64 {
        fold(id ^ self.spots, ODD)
    }

    /// The cells of a tag in the layer numbered `layer` with `cells` cells.
    #[inline]
    pub fn places(&self, tag: u32, layer: usize, cells: usize) -> Places {
        let third = (cells / CELLS) as u64;
        let id = u64::from(tag) << 32 | u64::from(!tag);
        let first = fold(id ^ self.cells.rotate_left(17 * layer as u32), ODD);
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

    fn codes(seed: u64, window: u64) -> Codes {
        Codes::new(Secret::from_seed(seed), window, None)
    }

    #[test]
    fn a_star_spreads_like_random_pairs_and_every_seed_differently() {
        let cells = 3 * 1000;
        for seed in 0..3 {
            let codes = codes(seed, 0);
            let mut hits = vec![0u32; cells];
            for n in 0..20_000 {
                let id = codes.id(&Edge::new(7, n).name());
                for place in codes.places(codes.tag(id), 0, cells) {
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
    }

    /// Who knows the seed can search for edges that share all their cells, as
    /// this does. They do so in one window, under one secret.
    #[test]
    fn edges_that_meet_once_do_not_meet_in_another_window_or_under_another_secret() {
        let known = codes(1, 5);
        let mut tags: Vec<(u32, u64)> = (0..400_000u64)
            .map(|n| (known.tag(known.id(&[n])), n))
            .collect();
        tags.sort_unstable();
        let twins: Vec<(u64, u64)> = tags
            .windows(2)
            .filter(|pair| pair[0].0 == pair[1].0)
            .map(|pair| (pair[0].1, pair[1].1))
            .collect();
        // 400,000² / 2^33, as the head of this module says.
        assert!((8..35).contains(&twins.len()), "{}", twins.len());
        for other in [codes(1, 6), codes(2, 5)] {
            let meet =
                |(a, b): &(u64, u64)| other.tag(other.id(&[*a])) == other.tag(other.id(&[*b]));
            assert!(!twins.iter().any(meet));
        }
    }
}
