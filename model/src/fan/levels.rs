//! Levels of shared bits.
//!
//! A pair belongs to one level, by its tag: level 0 has half of all pairs,
//! level 1 a quarter, the last one the rest. So there is always a level in
//! which a node's bits are neither all empty nor all set. A level has columns
//! and rows; a node has one bit in every column, in a row that follows from its
//! tag, and its pair sets the one in the pair's column.
//!
//! Each level has less memory than the one below, but not half of it: the
//! upper ones are emptier, and answer when those below are full.

use super::estimate::{Seen, estimate, surely_seen};
use super::{Peers, Tagged, level};
use crate::codes::{ODD, SALT, mix};

/// Levels; the last is for nodes with tens of millions of peers.
const LEVELS: usize = 14;

/// The lower levels, which tell nearly all there is to know of most nodes.
const NEAR: usize = 4;

/// Nodes that may have more peers than this are looked up in all levels.
const MANY: u64 = 1000;

/// Columns of a lower and of an upper level. More in the lower ones would bring
/// in more of other nodes; few nodes are in the upper ones, and more make them
/// exact.
const COLUMNS: [usize; 2] = [192, 1024];

/// The same where memory is short.
const FEW_COLUMNS: [usize; 2] = [128, 256];

/// Words that are short.
const SHORT: usize = 4096;

/// Rows of the smallest level: fewer would not tell a node from the others.
const LEAST_ROWS: usize = 8;

/// A level has this many times the memory of the next.
const SHRINK: f64 = 1.6;

struct Level {
    /// Its first bit.
    start: usize,
    columns: usize,
    rows: usize,
    /// Bits that are set.
    ones: usize,
    /// It is full when so many are.
    limit: usize,
    /// Share of the pairs.
    share: f64,
}

/// How bits are laid out in words, and how many of each level are set.
pub(super) struct Levels {
    all: [Level; LEVELS],
    /// Those below this one are full: they know little, and nothing is put there
    /// any more. What is seldom seen is enough to count what is often.
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
        // In quarters. Half is cheaper where nearly every pair is new, but where
        // memory is short the rest still tells something.
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

    /// How many levels are full.
    #[inline]
    pub fn full(&self) -> usize {
        self.full
    }

    /// Whether a pair is of a level that is not full.
    #[inline]
    pub fn takes(&self, pair: u32) -> bool {
        level(pair) >= self.full
    }

    /// Sets the bit of a pair; says whether it was empty.
    #[inline]
    pub fn set(&mut self, words: &mut [u64], tagged: Tagged) -> bool {
        // The high bits of a tag say the level, the low ones the column.
        let number = level(tagged.pair).min(LEVELS - 1);
        let level = &mut self.all[number];
        let column = ((tagged.pair & 0xffff) as usize * level.columns) >> 16;
        let at = level.bit(number, spread(tagged.node), column);
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

    /// The last one has to do for all that comes.
    #[cold]
    fn find_full(&mut self) {
        let last = LEVELS - 1;
        self.full = self.all[..last]
            .iter()
            .take_while(|one| one.is_full())
            .count();
    }

    /// What the bits of a node say.
    pub fn peers(&self, words: &[u64], node: u32) -> Peers {
        let seen = |(number, level): (usize, &Level)| level.seen(words, number, node);
        // Of those that are full the lower ones leave out pairs.
        let levels = || self.all.iter().enumerate().skip(self.full);
        let mut looked_at: Vec<Seen> = levels().take(NEAR).map(seen).collect();
        let peers = estimate(&looked_at, self.nodes());
        if peers.high <= MANY {
            return peers;
        }
        looked_at.extend(levels().skip(NEAR).map(seen));
        estimate(&looked_at, self.nodes())
    }

    /// How many peers a node has at most, but for one in twenty, that does not
    /// stand out.
    pub fn most_hidden(&self) -> u64 {
        let levels = self.all.iter().skip(self.full).take(NEAR);
        let seen: Vec<Seen> = levels.map(|level| level.seen_with(0)).collect();
        surely_seen(&seen, self.nodes())
    }

    /// How many nodes there are at most, roughly: as many as the pairs of a node
    /// and a column of the first level that is not full.
    fn nodes(&self) -> f64 {
        let level = &self.all[self.full];
        let bits = (level.columns * level.rows) as f64;
        let empty = (1.0 - level.ones as f64 / bits).max(1.0 / bits);
        (-bits * empty.ln() / level.share).max(1.0)
    }

    /// Counts the bits that are set again.
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

/// A node's tag, spread over 64 bits.
#[inline]
fn spread(node: u32) -> u64 {
    mix(u64::from(node) ^ SALT, ODD)
}

impl Level {
    /// Whether so many bits are set that the rest tells little.
    #[inline]
    fn is_full(&self) -> bool {
        self.ones >= self.limit
    }

    /// Where the bit of a node in a column is. A multiplier of its own for each
    /// column: nodes that meet in one do not meet in others.
    #[inline]
    fn bit(&self, number: usize, node: u64, column: usize) -> usize {
        let multiplier = ((number << 16 | column) as u64 ^ SALT).wrapping_mul(ODD) | 1;
        let hash = node.wrapping_mul(multiplier) >> 32;
        self.start + column * self.rows + ((hash as usize * self.rows) >> 32)
    }

    fn seen(&self, words: &[u64], number: usize, node: u32) -> Seen {
        let (mut mine, node) = (0, spread(node));
        for column in 0..self.columns {
            let at = self.bit(number, node, column);
            mine += (words[at / 64] >> (at % 64) & 1) as usize;
        }
        self.seen_with(mine)
    }

    /// What is seen of a node with so many bits.
    fn seen_with(&self, mine: usize) -> Seen {
        let others = (self.columns * (self.rows - 1)) as f64;
        Seen {
            share: self.share,
            bits: self.columns as f64,
            others,
            // Of the bits that are not its own.
            empty: 1.0 - (self.ones - mine) as f64 / others,
            set: mine as f64,
        }
    }
}
