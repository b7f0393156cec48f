//! The set of all pairs while they fit. Each word holds the tag of a node and the tag of
//! a pair.

use super::TagPair;
use crate::codes::{ODD, mix};

/// Whether a set with this many pairs is so full that searching becomes slow.
#[inline]
pub(super) fn is_full(words: &[u64], count: usize) -> bool {
    count * 8 >= words.len() * 7
}

/// Inserts a pair. Returns whether it was new.
#[inline]
pub(super) fn insert(words: &mut [u64], tags: TagPair) -> bool {
    // 0 marks an empty word, so the pair with the word 0 is stored as 1. It cannot be
    // distinguished from the pair with the word 1.
    let word = (u64::from(tags.node) << 32 | u64::from(tags.pair)).max(1);
    let mut at = ((u128::from(mix(word, ODD)) * words.len() as u128) >> 64) as usize;
    loop {
        match words[at] {
            0 => {
                words[at] = word;
                return true;
            }
            here if here == word => return false,
            _ => at = if at + 1 == words.len() { 0 } else { at + 1 },
        }
    }
}

/// All pairs of the set.
pub(super) fn all(words: &[u64]) -> impl Iterator<Item = TagPair> {
    let taken = words.iter().filter(|word| **word != 0);
    taken.map(|word| TagPair {
        node: (word >> 32) as u32,
        pair: *word as u32,
    })
}
