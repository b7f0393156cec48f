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
//! | `pairs` | the tags of all pairs while they fit: then they are counted |
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

/// For a list, no more nodes than this are looked at, unless it is as long: each
/// takes some microseconds.
const MOST_LOOKED_AT: usize = 256;

/// The number of peers of a node: the estimate and its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peers {
    /// The estimate.
    pub peers: u64,
    /// Lower end of the interval. It holds for all nodes together, so also for
    /// those that are listed because their numbers are the largest.
    pub low: u64,
    /// Upper end of the interval.
    pub high: u64,
    /// Whether all peers were counted by name, so that the three are the number.
    pub exact: bool,
}

impl Peers {
    /// A number that is known.
    pub fn exactly(peers: u64) -> Self {
        Self {
            exact: true,
            ..Self::counted(peers)
        }
    }

    /// A number that was counted by tags, of which two may be equal.
    fn counted(peers: u64) -> Self {
        Self {
            peers,
            low: peers,
            high: peers,
            exact: false,
        }
    }

    /// The same within what is certain.
    pub fn within(self, certain: Certain) -> Self {
        let Certain { at_least, at_most } = certain;
        let at_least = at_least.min(at_most);
        Self {
            peers: self.peers.clamp(at_least, at_most),
            low: self.low.clamp(at_least, at_most),
            high: self.high.clamp(at_least, at_most),
            exact: self.exact,
        }
    }

    /// Whether it is more than chance explains, for the luckiest of all nodes.
    fn stands_out(&self) -> bool {
        self.low > 1
    }
}

/// How many peers a node certainly has, as was counted elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Certain {
    /// No fewer.
    pub at_least: u64,
    /// No more.
    pub at_most: u64,
}

impl Certain {
    /// Nothing is certain.
    pub const ANYTHING: Self = Self {
        at_least: 0,
        at_most: u64::MAX,
    };

    /// The same of a node of which a pair was seen.
    fn with_one(self) -> Self {
        Self {
            at_least: self.at_least.max(1),
            ..self
        }
    }
}

/// A node that may be among the largest.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Its name.
    pub name: AnyName,
    /// Its id ([`Secret::id`]).
    pub id: u64,
    /// What is certain of it.
    pub certain: Certain,
}

/// The nodes with most peers, as far as they stand out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Largest {
    /// The largest first.
    pub nodes: Vec<(AnyName, Peers)>,
    /// No other node has more peers than this, in nineteen cases of twenty.
    pub others_at_most: u64,
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
                Peers::counted(mine.count() as u64)
            }
            Kept::Bits(levels) => {
                let peers = levels.peers(&self.words, tag);
                match peers.stands_out() {
                    true => peers,
                    // As a list says of all that are not in it.
                    false => peers.within(Certain {
                        at_least: 0,
                        at_most: levels.most_hidden(),
                    }),
                }
            }
        }
    }

    /// The `count` nodes with most peers that stand out, the largest first, sought
    /// among the candidates and the nodes of `known`. `certain` says what is certain
    /// of a candidate; nodes that are in neither have at most `unknown` peers.
    pub fn largest(
        &self,
        count: usize,
        mut known: Vec<Known>,
        unknown: u64,
        certain: impl Fn(&AnyName) -> Certain,
    ) -> Largest {
        let counts = self.counts();
        let answer = |tag: u32| match &self.kept {
            Kept::Pairs(_) => Peers::counted(counts.get(&tag).copied().unwrap_or(0)),
            Kept::Bits(levels) => levels.peers(&self.words, tag),
        };
        // More than are asked for, as candidates are counted roughly and others
        // may have fewer peers than they can have; all of them where that costs
        // nothing.
        let enough = match self.kept {
            Kept::Pairs(_) => usize::MAX,
            Kept::Bits(_) => count.max(count.saturating_mul(4).clamp(64, MOST_LOOKED_AT)),
        };
        known.sort_unstable_by_key(|node| (Reverse(node.certain.at_most), node.name));
        let not_looked_at = known.get(enough).map_or(0, |node| node.certain.at_most);
        known.truncate(enough);
        let mut looked_at: FxHashMap<AnyName, (u32, Certain)> = FxHashMap::default();
        for node in known {
            looked_at.insert(node.name, (tag(node.id), node.certain));
        }
        let mut candidates: Vec<_> = self.candidates.all().collect();
        candidates.sort_unstable_by_key(|one| (Reverse(one.count()), one.tag));
        for one in candidates.iter().take(enough) {
            let name = one.name();
            let entry = looked_at.entry(name);
            entry.or_insert_with(|| (one.tag, certain(&name).with_one()));
        }
        let mut nodes: Vec<(AnyName, u32, Peers)> = Vec::new();
        let mut others_at_most = 0;
        let hidden = match &self.kept {
            Kept::Pairs(_) => u64::MAX,
            Kept::Bits(levels) => levels.most_hidden(),
        };
        for (name, (tag, certain)) in looked_at {
            let peers = answer(tag);
            let stands_out = peers.stands_out() && certain.at_most > 1;
            if self.keeps_pairs() || stands_out || certain.at_least > hidden {
                nodes.push((name, tag, peers.within(certain)));
            } else {
                others_at_most = others_at_most.max(certain.at_most.min(hidden));
            }
        }
        nodes.sort_unstable_by_key(|(name, _, peers)| (Reverse(peers.peers), *name));
        for (.., cut) in nodes.drain(count.min(nodes.len())..) {
            others_at_most = others_at_most.max(cut.high);
        }
        let elsewhere = match &self.kept {
            Kept::Bits(_) => not_looked_at.max(unknown).min(hidden),
            Kept::Pairs(_) => {
                let others = counts
                    .iter()
                    .filter(|(tag, _)| nodes.iter().all(|(_, listed, _)| listed != *tag));
                others.map(|(_, peers)| *peers).max().unwrap_or(0)
            }
        };
        Largest {
            nodes: nodes
                .into_iter()
                .map(|(name, _, peers)| (name, peers))
                .collect(),
            others_at_most: others_at_most.max(elsewhere),
        }
    }

    /// The pairs of each node, if pairs are what is kept.
    fn counts(&self) -> FxHashMap<u32, u64> {
        let mut counts = FxHashMap::default();
        if self.keeps_pairs() {
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

    /// Whether all pairs are kept, by their tags.
    pub fn keeps_pairs(&self) -> bool {
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
