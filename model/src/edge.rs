//! Edges of a graph stream.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::str::FromStr;

use foldhash::fast::RandomState;

use crate::{Error, choice};

/// A directed edge between two nodes with 32-bit ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// Source id.
    pub src: u32,
    /// Destination id.
    pub dst: u32,
}

impl Edge {
    /// The edge `src → dst`.
    pub fn new(src: u32, dst: u32) -> Self {
        Self { src, dst }
    }
}

/// Which ids of an edge the encoders see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ids {
    /// Those of its nodes, as in the paper: all edges of a node share a row or
    /// a column, which fills up where traffic is star-shaped.
    Node,
    /// Two made of both by a bijection of 64 bits: every edge is by itself.
    #[default]
    Pair,
}

impl Ids {
    /// Names in weight files and on the command line.
    pub const NAMES: [(&'static str, Self); 2] = [("node", Self::Node), ("pair", Self::Pair)];

    /// The edge as the encoders see it.
    pub fn of(self, edge: Edge) -> Edge {
        match self {
            Self::Node => edge,
            Self::Pair => {
                let mut x = u64::from(edge.src) << 32 | u64::from(edge.dst);
                x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
                x ^= x >> 32;
                Edge::new((x >> 32) as u32, x as u32)
            }
        }
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(choice::name(&Self::NAMES, self))
    }
}

impl FromStr for Ids {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        choice::parse("ids", &Self::NAMES, text)
    }
}

/// An edge that arrives `weight` times at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighted {
    /// The edge.
    pub edge: Edge,
    /// How often it arrives; 0 is allowed and stores nothing.
    pub weight: u64,
}

impl Weighted {
    /// `edge`, `weight` times.
    pub fn new(edge: Edge, weight: u64) -> Self {
        Self { edge, weight }
    }
}

/// Merges equal edges of a batch into one, in order of first arrival, and
/// leaves out weight 0.
pub fn fold(batch: &[Weighted]) -> Vec<Weighted> {
    let weighted = batch.iter().map(|w| (w.edge, w.weight));
    let folded = fold_by_key(weighted).into_iter();
    folded
        .map(|(edge, weight)| Weighted { edge, weight })
        .collect()
}

/// The same for keys of any kind. An index of a batch needs no more than
/// places in a small array: several times as fast as a map.
pub fn fold_by_key<K: Copy + Eq + Hash>(
    batch: impl ExactSizeIterator<Item = (K, u64)>,
) -> Vec<(K, u64)> {
    let hasher = RandomState::default();
    let places = (2 * batch.len()).next_power_of_two();
    // Where a key stands among the folded ones, counted from 1.
    let mut index = vec![0u32; places];
    let mut folded: Vec<(K, u64)> = Vec::with_capacity(batch.len());
    for (key, weight) in batch.filter(|(_, weight)| *weight > 0) {
        let mut at = hasher.hash_one(key) as usize & (places - 1);
        loop {
            match index[at].checked_sub(1) {
                None => {
                    folded.push((key, weight));
                    index[at] = folded.len() as u32;
                    break;
                }
                Some(seen) if folded[seen as usize].0 == key => {
                    let sum = &mut folded[seen as usize].1;
                    *sum = sum.saturating_add(weight);
                    break;
                }
                Some(_) => at = (at + 1) & (places - 1),
            }
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_order_and_total() {
        let (a, b) = (Edge::new(1, 2), Edge::new(2, 1));
        let batch = [(a, 1), (b, 5), (a, 2), (b, 0)].map(|(e, w)| Weighted::new(e, w));
        assert_eq!(fold(&batch), [Weighted::new(a, 3), Weighted::new(b, 5)]);
        assert!(fold(&[Weighted::new(a, 0)]).is_empty());
    }
}
