//! All pairs, while they fit: a set of words, each a node's tag and a pair's.

use super::Tagged;
use crate::codes::{ODD, mix};

/// Whether so many pairs leave too little room to find one quickly.
#[inline]
pub(super) fn is_full(words: &[u64], count: usize) -> bool {
    count * 8 >= words.len() * 7
}

/// Inserts a pair; says whether it was new.
#[inline]
pub(super) fn insert(words: &mut [u64], tagged: Tagged) -> bool {
    // 0 is an empty place; one pair in 2^64 is taken for another.
    let word = (u64::from(tagged.node) << 32 | u64::from(tagged.pair)).max(1);
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
pub(super) fn all(words: &[u64]) -> impl Iterator<Item = Tagged> {
    let taken = words.iter().filter(|word| **word != 0);
    taken.map(|word| Tagged {
        node: (word >> 32) as u32,
        pair: *word as u32,
    })
}
