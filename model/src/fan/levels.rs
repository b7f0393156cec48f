//! Levels of shared bits.
//!
//! The tag of a pair determines its level: level 0 has half of all pairs, level 1 a
//! quarter, the last level the rest. So for every number of peers there is a level in
//! which the bits of a node are neither all empty nor all set. A level consists of
//! columns and rows. A node has one bit in every column, in a row that follows from its
//! tag; a pair sets the bit in the column of the pair.
//!
//! Each level has less memory than the one below, but more than half of it: the upper
//! levels are emptier and are used when the levels below are full.

use super::estimate::{Observation, detectable_peers, estimate};
use super::{Peers, TagPair, level};
use crate::codes::{ODD, SALT, mix};

/// Number of levels. The last one is for nodes with tens of millions of peers.
const LEVELS: usize = 14;

/// The lower levels, which are sufficient for most nodes.
const NEAR: usize = 4;

/// If the upper end for a node exceeds this, all levels are evaluated.
const MANY: u64 = 1000;

/// Columns of a lower and of an upper level. More columns in the lower levels would add
/// noise of other nodes. Few nodes reach the upper levels, where more columns increase
/// the precision.
const COLUMNS: [usize; 2] = [192, 1024];

/// The same for memories below [`SHORT`] words.
const FEW_COLUMNS: [usize; 2] = [128, 256];

/// A memory of fewer words than this is small.
const SHORT: usize = 4096;

/// Rows of the smallest level. With fewer rows a node could not be distinguished from the others.
const LEAST_ROWS: usize = 8;

/// Each level has this many times the memory of the next.
const SHRINK: f64 = 1.6;

struct Level {
    /// Index of its first bit.
    start: usize,
    columns: usize,
    rows: usize,
    /// Number of set bits.
    ones: usize,
    /// The level is full when this many bits are set.
    limit: usize,
    /// Share of all pairs that belong to this level.
    share: f64,
}

/// The layout of the bits in words, and the number of set bits of each level.
pub(super) struct Levels {
    all: [Level; LEVELS],
    /// The levels below this one are full. They no longer help to estimate, so their
    /// pairs are skipped; the rarer pairs of the upper levels are sufficient for large
    /// numbers.
    full: usize,
}

impl Levels {
    pub fn new(words: usize) -> Self {
        let [near, far] = match words {
            0..SHORT => FEW_COLUMNS,
            _ => COLUMNS,
        };
        let columns = |level: usize| if level < NEAR { near } else { far };
        let least: usize = (0..LEVELS).map(|level| columns(level) * LEAST_ROWS).sum();
        let spare = (64 * words).saturating_sub(least) as f64;
        let weight = |level: usize| SHRINK.powi(-(level as i32));
        let all: f64 = (0..LEVELS).map(weight).sum();
        // In quarters. A limit of one half is faster when nearly all pairs are new; in a
        // small memory the bits up to three quarters still help.
        let full = if words < SHORT { 3 } else { 2 };
        let mut start = 0;
        let all = std::array::from_fn(|level| {
            let columns = columns(level);
            let more = (spare * weight(level) / all) as usize / columns;
            let last = usize::from(level + 1 == LEVELS);
            let made = Level {
                start,
                columns,
                rows: LEAST_ROWS + more,
                ones: 0,
                limit: columns * (LEAST_ROWS + more) / 4 * full,
                share: 0.5f64.powi((level + 1 - last) as i32),
            };
            start += columns * made.rows;
            made
        });
        Self { all, full: 0 }
    }

    /// Number of full levels.
    #[inline]
    pub fn full(&self) -> usize {
        self.full
    }

    /// Whether a pair belongs to a level that is not full.
    #[inline]
    pub fn accepts(&self, pair: u32) -> bool {
        level(pair) >= self.full
    }

    /// Sets the bit of a pair. Returns whether it was empty.
    #[inline]
    pub fn set(&mut self, words: &mut [u64], tags: TagPair) -> bool {
        // The high bits of a tag determine the level, the low ones the column.
        let number = level(tags.pair).min(LEVELS - 1);
        let level = &mut self.all[number];
        let column = ((tags.pair & 0xffff) as usize * level.columns) >> 16;
        let at = level.bit(number, spread(tags.node), column);
        let bit = 1u64 << (at % 64);
        let word = &mut words[at / 64];
        let new = *word & bit == 0;
        *word |= bit;
        level.ones += usize::from(new);
        if level.is_full() && number == self.full {
            self.find_full();
        }
        new
    }

    /// Counts the full levels. The last level never counts as full, because no other one
    /// could replace it.
    #[cold]
    fn find_full(&mut self) {
        let last = LEVELS - 1;
        self.full = self.all[..last]
            .iter()
            .take_while(|one| one.is_full())
            .count();
    }

    /// The number of peers of a node.
    pub fn peers(&self, words: &[u64], node: u32) -> Peers {
        let seen = |(number, level): (usize, &Level)| level.observe(words, number, node);
        // Full levels are skipped, because pairs are missing there.
        let levels = || self.all.iter().enumerate().skip(self.full);
        let mut looked_at: Vec<Observation> = levels().take(NEAR).map(seen).collect();
        let peers = estimate(&looked_at, self.nodes());
        if peers.high <= MANY {
            return peers;
        }
        looked_at.extend(levels().skip(NEAR).map(seen));
        estimate(&looked_at, self.nodes())
    }

    /// The number of peers that a node which does not stand out has at most, with a
    /// probability of 95 %.
    pub fn most_undetected(&self) -> u64 {
        let levels = self.all.iter().skip(self.full).take(NEAR);
        let seen: Vec<Observation> = levels.map(|level| level.observation_with(0)).collect();
        detectable_peers(&seen, self.nodes())
    }

    /// A rough upper bound of the number of nodes: the number of distinct combinations of
    /// a node and a column in the first level that is not full.
    fn nodes(&self) -> f64 {
        let level = &self.all[self.full];
        let bits = (level.columns * level.rows) as f64;
        let empty = (1.0 - level.ones as f64 / bits).max(1.0 / bits);
        (-bits * empty.ln() / level.share).max(1.0)
    }

    /// Counts the set bits of all levels again.
    pub fn recount(&mut self, words: &[u64]) {
        for level in &mut self.all {
            let bits = level.start..level.start + level.columns * level.rows;
            level.ones = bits
                .filter(|at| words[at / 64] >> (at % 64) & 1 == 1)
                .count();
        }
        self.find_full();
    }
}

/// The tag of a node, spread over 64 bits.
#[inline]
fn spread(node: u32) -> u64 {
    mix(u64::from(node) ^ SALT, ODD)
}

impl Level {
    /// Whether so many bits are set that the level no longer helps to estimate.
    #[inline]
    fn is_full(&self) -> bool {
        self.ones >= self.limit
    }

    /// Index of the bit of a node in a column. Each column has its own multiplier, so
    /// nodes that collide in one column do not collide in others.
    #[inline]
    fn bit(&self, number: usize, node: u64, column: usize) -> usize {
        let multiplier = ((number << 16 | column) as u64 ^ SALT).wrapping_mul(ODD) | 1;
        let hash = node.wrapping_mul(multiplier) >> 32;
        self.start + column * self.rows + ((hash as usize * self.rows) >> 32)
    }

    fn observe(&self, words: &[u64], number: usize, node: u32) -> Observation {
        let (mut mine, node) = (0, spread(node));
        for column in 0..self.columns {
            let at = self.bit(number, node, column);
            mine += (words[at / 64] >> (at % 64) & 1) as usize;
        }
        self.observation_with(mine)
    }

    /// The observation of a node that has `mine` bits set.
    fn observation_with(&self, mine: usize) -> Observation {
        let others = (self.columns * (self.rows - 1)) as f64;
        Observation {
            share: self.share,
            bits: self.columns as f64,
            others,
            // Share among the bits that are not its own. One of them counts as set if none
            // is: otherwise a single bit of such a level would outweigh all other levels.
            empty: 1.0 - (self.ones - mine).max(1) as f64 / others,
            set: mine as f64,
        }
    }
}
