//! Fan: with how many others each node talks, in bounded memory.
//!
//! Of every pair of a node and a peer one bit is set, so a pair that comes
//! again changes nothing, and two windows together are the bits of both. The
//! bits are shared: each node has a *virtual bitmap* of its own, whose bits lie
//! scattered among those of all others. What others have set there is what
//! they have set elsewhere, on average, and is taken off (`estimate`).
//!
//! | part | holds |
//! |---|---|
//! | `levels` | the bits: level 0 for half of all pairs, level 1 for a quarter, and so on |
//! | `estimate` | the number of peers that is most likely for the bits seen, and its interval |
//! | `pairs` | all pairs themselves while they fit: then answers are exact |
//! | `candidates` | nodes by name, among which the largest are sought |
//! | `growth` | more memory for more pairs, while all of them are kept |
//! | `state` | saving and loading |
//!
//! A node with n peers, far above the noise, is known within 0.65/√m, where m
//! is the bits it has in a level: 2 % for the 1,024 of the upper ones. Below
//! that, the error is about √(m·(eˣ − 1)) peers, where x is the pairs that share
//! a bit: 18 for one pair a bit. Memory is bounded; an arrival costs a few
//! multiplications, one word of bits and, if it is new, one bucket of names.
//!
//! Tags follow from the secret alone, not from the window: otherwise windows
//! could not be put together. Who does not know the secret can aim at nothing.

mod candidates;
mod estimate;
mod growth;
mod levels;
mod pairs;
mod state;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::memory::Allowance;
use crate::name::{AnyName, Name};
use crate::secret::Secret;
use crate::{Error, Result};

use candidates::Candidates;
use levels::Levels;

/// The least memory there can be one for.
pub const LEAST: usize = 6 << 10;

/// One part of the memory in so many is for names.
const NAMES: usize = 6;

/// No more bytes than this are for names: no list is as long.
const MOST_NAMES: usize = 48 << 10;

/// Where memory is short so many bytes are for names, or half of it: enough for
/// a list.
const FEW_NAMES: usize = 2 << 10;

/// The number of peers of a node: the estimate and its 90 % interval. While all
/// pairs fit the three are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peers {
    /// The estimate.
    pub peers: u64,
    /// Lower end of the interval.
    pub low: u64,
    /// Upper end of the interval.
    pub high: u64,
}

impl Peers {
    /// A number that is known.
    pub fn exactly(peers: u64) -> Self {
        Self {
            peers,
            low: peers,
            high: peers,
        }
    }

    /// The same, where it is known that there are no more than this.
    pub fn at_most(self, most: u64) -> Self {
        Self {
            peers: self.peers.min(most),
            low: self.low.min(most),
            high: self.high.min(most),
        }
    }

    /// It is known that there is one.
    fn at_least_one(self) -> Self {
        Self {
            peers: self.peers.max(1),
            low: self.low.max(1),
            high: self.high.max(1),
        }
    }
}

/// The number of peers of every node in one direction. See the head of this
/// module.
pub struct Fan {
    /// Tells one of another secret.
    check: u64,
    /// Either pairs, or the bits of all levels.
    words: Vec<u64>,
    kept: Kept,
    candidates: Candidates,
    /// What all of this was made of, and what it may become.
    bytes: usize,
    allowance: Allowance,
}

/// What the words are.
enum Kept {
    /// Pairs themselves, so many.
    Pairs(usize),
    /// Bits.
    Bits(Box<Levels>),
}

/// What a node and one of its peers are known by.
#[derive(Clone, Copy)]
struct Tagged {
    node: u32,
    pair: u32,
}

/// One pair in 2^level has a tag of this level or above.
#[inline]
fn level(pair: u32) -> usize {
    pair.leading_zeros() as usize
}

/// What is random in an id is enough to tell one from the other.
#[inline]
fn tag(id: u64) -> u32 {
    (id >> 32) as u32
}

impl Fan {
    /// An empty one in so many bytes, which it has from the start.
    pub fn new(bytes: usize, secret: &Secret) -> Result<Self> {
        let mut fan = Self::growing(Allowance::alone(bytes, bytes), secret)?;
        fan.resize(bytes);
        Ok(fan)
    }

    /// An empty one that takes memory when it needs it.
    pub fn growing(allowance: Allowance, secret: &Secret) -> Result<Self> {
        if allowance.held() < LEAST {
            return Err(Error::Setting {
                name: "memory",
                value: format!("{} bytes", allowance.held()),
                allowed: format!("the number of peers needs {LEAST} or more"),
            });
        }
        Ok(Self {
            check: secret.derive(0, 4),
            words: Vec::new(),
            kept: Kept::Pairs(0),
            candidates: Candidates::none(),
            bytes: 0,
            allowance,
        })
    }

    /// Notes that a node has a peer. `id` is the id of the node, `pair` that of
    /// the pair of both ([`Secret::id`]). The last two words of a long name of
    /// a node are 0.
    #[inline]
    pub fn note<N: Name>(&mut self, node: &N, id: u64, pair: u64) {
        let tagged = Tagged {
            node: tag(id),
            pair: tag(pair),
        };
        if self.takes(pair)
            && self.keep(tagged)
            && let Some(level) = level(tagged.pair).checked_sub(self.rare())
        {
            self.candidates.count(tagged.node, level, || node.any());
        }
    }

    /// Whether a pair is noted at all: those that are full leave most out.
    #[inline]
    pub fn takes(&self, pair: u64) -> bool {
        match &self.kept {
            Kept::Pairs(_) => true,
            Kept::Bits(levels) => levels.takes(tag(pair)),
        }
    }

    /// The level from which on pairs count for candidates.
    #[inline]
    fn rare(&self) -> usize {
        match &self.kept {
            Kept::Pairs(_) => 0,
            Kept::Bits(levels) => levels.full(),
        }
    }

    /// Says whether it may be new.
    #[inline]
    fn keep(&mut self, tagged: Tagged) -> bool {
        if self.words.is_empty() {
            self.grow();
        }
        let rare = self.rare();
        match &mut self.kept {
            Kept::Bits(levels) => {
                let new = levels.set(&mut self.words, tagged);
                self.count_rarer(rare);
                new
            }
            Kept::Pairs(count) => {
                let new = pairs::insert(&mut self.words, tagged);
                *count += usize::from(new);
                if pairs::is_full(&self.words, *count) {
                    self.grow();
                }
                new
            }
        }
    }

    /// Where fewer pairs count for candidates than before, so do those they had.
    #[inline]
    fn count_rarer(&mut self, before: usize) {
        let rarer = self.rare() - before;
        if rarer > 0 {
            self.candidates.divide(1 << rarer);
        }
    }

    /// The number of peers of the node with this id.
    pub fn answer(&self, id: u64) -> Peers {
        let tag = tag(id);
        match &self.kept {
            Kept::Pairs(_) => {
                let mine = pairs::all(&self.words).filter(|tagged| tagged.node == tag);
                Peers::exactly(mine.count() as u64)
            }
            Kept::Bits(levels) if self.candidates.has(tag) => {
                levels.peers(&self.words, tag).at_least_one()
            }
            Kept::Bits(levels) => levels.peers(&self.words, tag),
        }
    }

    /// The `count` nodes with most peers, the largest first.
    pub fn largest(&self, count: usize) -> Vec<(AnyName, Peers)> {
        let mut known: Vec<_> = self.candidates.all().collect();
        // More than are asked for, as they are counted roughly; all of them
        // where that costs nothing.
        let enough = match self.kept {
            Kept::Pairs(_) => known.len(),
            Kept::Bits(_) => count.saturating_mul(4).max(64).min(known.len()),
        };
        known.sort_unstable_by_key(|known| (Reverse(known.count()), known.tag));
        let counts = self.counts();
        let answer = |tag: u32| match &self.kept {
            Kept::Pairs(_) => Peers::exactly(counts.get(&tag).copied().unwrap_or(0)),
            Kept::Bits(levels) => levels.peers(&self.words, tag).at_least_one(),
        };
        let known = known[..enough].iter();
        let mut known: Vec<_> = known
            .map(|known| (known.name(), answer(known.tag)))
            .collect();
        known.sort_unstable_by_key(|(name, peers)| (Reverse(peers.peers), *name));
        known.truncate(count);
        known
    }

    /// The pairs of each node, if pairs are what is kept.
    fn counts(&self) -> FxHashMap<u32, u64> {
        let mut counts = FxHashMap::default();
        if self.is_exact() {
            for tagged in pairs::all(&self.words) {
                *counts.entry(tagged.node).or_default() += 1;
            }
        }
        counts
    }

    /// Adds what another one has noted, which has the same secret and memory:
    /// answers are then about the peers in either.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.check != other.check || self.memory_bytes() != other.memory_bytes() {
            return Err(Error::State(
                "one of another secret or size cannot be added".into(),
            ));
        }
        match &other.kept {
            Kept::Pairs(_) => {
                for tagged in pairs::all(&other.words) {
                    self.keep(tagged);
                }
            }
            Kept::Bits(_) => {
                self.turn_to_bits();
                for (word, more) in self.words.iter_mut().zip(&other.words) {
                    *word |= more;
                }
                self.recount();
            }
        }
        let counts = self.counts();
        let (kept, words, rare) = (&self.kept, &self.words, self.rare());
        self.candidates.merge(&other.candidates, |tag| match kept {
            Kept::Pairs(_) => counts.get(&tag).copied().unwrap_or(0),
            Kept::Bits(levels) => levels.peers(words, tag).peers >> rare,
        });
        Ok(())
    }

    /// What follows from the bits.
    fn recount(&mut self) {
        if let Kept::Bits(levels) = &mut self.kept {
            levels.recount(&self.words);
        }
    }

    /// Whether all pairs are kept, so that answers are exact.
    pub fn is_exact(&self) -> bool {
        matches!(self.kept, Kept::Pairs(_))
    }

    /// What it weighs.
    pub fn memory_bytes(&self) -> usize {
        let levels = if self.bytes > 0 {
            size_of::<Levels>()
        } else {
            0
        };
        self.words.len() * size_of::<u64>() + self.candidates.memory_bytes() + levels
    }
}

#[cfg(test)]
mod tests;
