//! Fan: the number of distinct peers of each node, in bounded memory.
//!
//! Each pair of a node and a peer sets one bit, so repeated pairs change nothing and two
//! windows are merged by a bitwise OR. The nodes share the bits: each node has a *virtual
//! bitmap* whose bits are scattered among those of all others. The share of bits that
//! other nodes have set there is estimated from all other bits and subtracted
//! (`estimate`).
//!
//! | part | contents |
//! |---|---|
//! | `levels` | the bits: level 0 for half of all pairs, level 1 for a quarter, and so on |
//! | `estimate` | the most likely number of peers for the observed bits, and its interval |
//! | `pairs` | the tags of all pairs while they fit; then peers are counted instead of estimated |
//! | `candidates` | nodes by name, among which those with most peers are searched |
//! | `growth` | taking more memory while all pairs are kept |
//! | `state` | saving and loading |
//!
//! **Accuracy.** Counted while all pairs fit. For a node with many more peers than the
//! noise, the relative error is 0.65/√m, where m is the number of bits of a node in a
//! level: 2 % for the m = 1,024 of the upper levels. Near the noise, the error is about
//! √(m·(eˣ − 1)) peers, where x is the number of pairs that share a bit: 18 peers for one
//! pair per bit and the m = 192 of the lower levels. **Cost.** Memory is fixed by the
//! allowance. An arrival costs a few multiplications and one word of bits and, if its bit
//! was not set, one bucket of names.
//!
//! Tags depend on the secret but not on the window, because otherwise windows could not
//! be merged. Without the secret, pairs that collide cannot be chosen.

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

/// The smallest memory of a fan in bytes.
pub const LEAST: usize = 6 << 10;

/// One byte in this many is used for names.
const NAMES: usize = 6;

/// At most this many bytes are used for names, which is enough for the longest list.
const MOST_NAMES: usize = 48 << 10;

/// At least this many bytes, or half of a smaller memory, are used for names, which is
/// enough for a short list.
const FEW_NAMES: usize = 2 << 10;

/// At most this many nodes are evaluated for a list, unless a longer list is asked for.
/// Each evaluation takes some microseconds.
const MOST_LOOKED_AT: usize = 256;

/// The number of peers of a node with a 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peers {
    /// The estimate.
    pub peers: u64,
    /// Lower end of the interval. It holds for all nodes simultaneously and therefore
    /// also for the nodes that are listed because their numbers are the largest.
    pub low: u64,
    /// Upper end of the interval.
    pub high: u64,
    /// Whether the peers were counted by name, so that all three numbers are equal and
    /// exact.
    pub exact: bool,
}

impl Peers {
    /// A number that is known exactly.
    pub fn exactly(peers: u64) -> Self {
        Self {
            exact: true,
            ..Self::counted(peers)
        }
    }

    /// A number that was counted by tags. Two peers may have the same tag, so it is not
    /// marked as exact.
    fn counted(peers: u64) -> Self {
        Self {
            peers,
            low: peers,
            high: peers,
            exact: false,
        }
    }

    /// Moves the numbers into guaranteed bounds. An interval that lies below them keeps its
    /// width, because the number is not known any better than before.
    pub fn within(self, bounds: PeerBounds) -> Self {
        let PeerBounds { at_least, at_most } = bounds;
        let at_least = at_least.min(at_most);
        let high = match self.high < at_least {
            true => at_least.saturating_add(self.high - self.low),
            false => self.high,
        };
        Self {
            peers: self.peers.clamp(at_least, at_most),
            low: self.low.clamp(at_least, at_most),
            high: high.clamp(at_least, at_most),
            exact: self.exact,
        }
    }

    /// Whether the number is larger than noise explains, even for the node with the most
    /// noise of all.
    fn stands_out(&self) -> bool {
        self.low > 1
    }
}

/// Guaranteed bounds of the number of peers of a node, known from another source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerBounds {
    /// The node has at least this many peers.
    pub at_least: u64,
    /// The node has at most this many peers.
    pub at_most: u64,
}

impl PeerBounds {
    /// No bounds.
    pub const UNBOUNDED: Self = Self {
        at_least: 0,
        at_most: u64::MAX,
    };

    /// The bounds of a node of which at least one pair was seen.
    fn with_one(self) -> Self {
        Self {
            at_least: self.at_least.max(1),
            ..self
        }
    }
}

/// A node that may be among those with most peers.
#[derive(Debug, Clone, Copy)]
pub struct KnownNode {
    /// Name of the node.
    pub name: AnyName,
    /// Id of the node ([`Secret::id`]).
    pub id: u64,
    /// Guaranteed bounds of its number of peers.
    pub bounds: PeerBounds,
}

/// The nodes with most peers, as far as their numbers exceed the noise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Largest {
    /// Sorted by the number of peers, largest first.
    pub nodes: Vec<(AnyName, Peers)>,
    /// No other node has more peers than this, with a probability of 95 %.
    pub others_at_most: u64,
}

/// The number of peers of every node in one direction (as source, or as destination).
///
/// ```
/// use crane_model::fan::{Fan, PeerBounds};
/// use crane_model::name::AnyName;
/// use crane_model::{Edge, Secret};
///
/// # fn main() -> crane_model::Result<()> {
/// let secret = Secret::from_seed(1);
/// let mut fan = Fan::new(64 << 10, &secret)?;
/// // Node 1 has 50 peers; each pair arrives twice.
/// for peer in (0..50).chain(0..50) {
///     let pair = Edge::new(1, peer).name();
///     fan.record(&[1], secret.id(&[1]), secret.id(&pair));
/// }
/// assert_eq!(fan.answer(secret.id(&[1])).peers, 50);
///
/// let largest = fan.largest(10, Vec::new(), u64::MAX, |_| PeerBounds::UNBOUNDED);
/// assert_eq!(largest.nodes[0].0, AnyName::Narrow([1]));
/// # Ok(())
/// # }
/// ```
pub struct Fan {
    /// Fingerprint of the secret. A state with another one is refused.
    check: u64,
    /// The set of pairs, or the bits of all levels.
    words: Vec<u64>,
    content: Content,
    candidates: Candidates,
    /// Bytes that words and candidates were sized for.
    bytes: usize,
    allowance: Allowance,
}

/// What `words` holds.
enum Content {
    /// A set of this many pairs.
    Pairs(usize),
    /// Bits, laid out in levels.
    Bits(Box<Levels>),
}

/// The tags of a node and of a pair of that node and a peer.
#[derive(Clone, Copy)]
struct TagPair {
    node: u32,
    pair: u32,
}

/// The level of a pair. One pair in 2^n has level n or a higher one.
#[inline]
fn level(pair: u32) -> usize {
    pair.leading_zeros() as usize
}

/// The upper 32 bits of an id, which identify a node or a pair.
#[inline]
fn tag(id: u64) -> u32 {
    (id >> 32) as u32
}

impl Fan {
    /// An empty fan that takes `bytes` bytes at once.
    pub fn new(bytes: usize, secret: &Secret) -> Result<Self> {
        let mut fan = Self::growing(Allowance::alone(bytes, bytes), secret)?;
        fan.resize(bytes);
        Ok(fan)
    }

    /// An empty fan that takes memory from its allowance when it needs it. Returns an
    /// error if the allowance starts with less than [`LEAST`].
    pub fn growing(allowance: Allowance, secret: &Secret) -> Result<Self> {
        if allowance.held() < LEAST {
            return Err(Error::Setting {
                name: "memory",
                value: format!("{} bytes", allowance.held()),
                allowed: format!("{LEAST} bytes or more, for the number of peers"),
            });
        }
        Ok(Self {
            check: secret.derive(0, 4),
            words: Vec::new(),
            content: Content::Pairs(0),
            candidates: Candidates::none(),
            bytes: 0,
            allowance,
        })
    }

    /// Records that a node has a peer. `id` is the id of the node and `pair` the id of
    /// the pair of node and peer ([`Secret::id`]). If the name of the node is long, its
    /// last two words must be 0.
    #[inline]
    pub fn record<N: Name>(&mut self, node: &N, id: u64, pair: u64) {
        let tags = TagPair {
            node: tag(id),
            pair: tag(pair),
        };
        if self.accepts(pair)
            && self.keep(tags)
            && let Some(level) = level(tags.pair).checked_sub(self.sampling_level())
        {
            self.candidates.count(tags.node, level, || node.any());
        }
    }

    /// Whether recording this pair can have an effect. When the lower levels are full,
    /// most pairs are skipped.
    #[inline]
    pub fn accepts(&self, pair: u64) -> bool {
        match &self.content {
            Content::Pairs(_) => true,
            Content::Bits(levels) => levels.accepts(tag(pair)),
        }
    }

    /// The lowest level whose pairs are counted for the candidates.
    #[inline]
    fn sampling_level(&self) -> usize {
        match &self.content {
            Content::Pairs(_) => 0,
            Content::Bits(levels) => levels.full(),
        }
    }

    /// Stores a pair. Returns whether it may be new.
    #[inline]
    fn keep(&mut self, tags: TagPair) -> bool {
        if self.words.is_empty() {
            self.grow();
        }
        let sampling_level = self.sampling_level();
        match &mut self.content {
            Content::Bits(levels) => {
                let new = levels.set(&mut self.words, tags);
                self.rescale_candidates(sampling_level);
                new
            }
            Content::Pairs(count) => {
                let new = pairs::insert(&mut self.words, tags);
                *count += usize::from(new);
                if pairs::is_full(&self.words, *count) {
                    self.grow();
                }
                new
            }
        }
    }

    /// If only pairs of a higher level than `before` are counted for candidates from now
    /// on, divides the present counts accordingly.
    #[inline]
    fn rescale_candidates(&mut self, before: usize) {
        let higher = self.sampling_level() - before;
        if higher > 0 {
            self.candidates.divide(1 << higher);
        }
    }

    /// The number of peers of the node with this id.
    pub fn answer(&self, id: u64) -> Peers {
        self.answer_within(id, PeerBounds::UNBOUNDED)
    }

    /// The number of peers of the node with this id, with guaranteed bounds.
    pub fn answer_within(&self, id: u64, bounds: PeerBounds) -> Peers {
        let tag = tag(id);
        match &self.content {
            Content::Pairs(_) => {
                let mine = pairs::all(&self.words).filter(|tags| tags.node == tag);
                Peers::counted(mine.count() as u64).within(bounds)
            }
            Content::Bits(levels) => {
                let peers = levels.peers(&self.words, tag);
                let undetected = levels.most_undetected();
                if peers.stands_out() || bounds.at_least > undetected {
                    return peers.within(bounds);
                }
                // The same upper bound as for nodes that are not in a list.
                peers.within(PeerBounds {
                    at_most: bounds.at_most.min(undetected),
                    ..bounds
                })
            }
        }
    }

    /// The `count` nodes with most peers whose numbers exceed the noise, largest first.
    /// They are searched among the candidates and `known`. `bounds` returns the
    /// guaranteed bounds of a candidate; nodes that are in neither have at most `unknown`
    /// peers.
    pub fn largest(
        &self,
        count: usize,
        mut known: Vec<KnownNode>,
        unknown: u64,
        bounds: impl Fn(&AnyName) -> PeerBounds,
    ) -> Largest {
        let counts = self.counts();
        let answer = |tag: u32| match &self.content {
            Content::Pairs(_) => Peers::counted(counts.get(&tag).copied().unwrap_or(0)),
            Content::Bits(levels) => levels.peers(&self.words, tag),
        };
        // More nodes than asked for are evaluated, because the counts of candidates are
        // rough and known nodes may have fewer peers than their upper bound. All of them
        // are evaluated if that is cheap.
        let enough = match self.content {
            Content::Pairs(_) => usize::MAX,
            Content::Bits(_) => count.max(count.saturating_mul(4).clamp(64, MOST_LOOKED_AT)),
        };
        known.sort_unstable_by_key(|node| (Reverse(node.bounds.at_most), node.name));
        let not_looked_at = known.get(enough).map_or(0, |node| node.bounds.at_most);
        known.truncate(enough);
        let mut looked_at: FxHashMap<AnyName, (u32, PeerBounds)> = FxHashMap::default();
        for node in known {
            looked_at.insert(node.name, (tag(node.id), node.bounds));
        }
        let mut candidates: Vec<_> = self.candidates.all().collect();
        candidates.sort_unstable_by_key(|one| (Reverse(one.count()), one.tag));
        for one in candidates.iter().take(enough) {
            let name = one.name();
            let entry = looked_at.entry(name);
            entry.or_insert_with(|| (one.tag, bounds(&name).with_one()));
        }
        let mut nodes: Vec<(AnyName, u32, Peers)> = Vec::new();
        let mut others_at_most = 0;
        let undetected = match &self.content {
            Content::Pairs(_) => u64::MAX,
            Content::Bits(levels) => levels.most_undetected(),
        };
        for (name, (tag, bounds)) in looked_at {
            let peers = answer(tag);
            let stands_out = peers.stands_out() && bounds.at_most > 1;
            if self.keeps_pairs() || stands_out || bounds.at_least > undetected {
                nodes.push((name, tag, peers.within(bounds)));
            } else {
                others_at_most = others_at_most.max(bounds.at_most.min(undetected));
            }
        }
        nodes.sort_unstable_by_key(|(name, _, peers)| (Reverse(peers.peers), *name));
        for (.., cut) in nodes.drain(count.min(nodes.len())..) {
            others_at_most = others_at_most.max(cut.high);
        }
        let elsewhere = match &self.content {
            Content::Bits(_) => not_looked_at.max(unknown).min(undetected),
            Content::Pairs(_) => {
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

    /// The number of pairs of each node. Empty if bits are kept instead of pairs.
    fn counts(&self) -> FxHashMap<u32, u64> {
        let mut counts = FxHashMap::default();
        if self.keeps_pairs() {
            for tags in pairs::all(&self.words) {
                *counts.entry(tags.node).or_default() += 1;
            }
        }
        counts
    }

    /// Adds the pairs of another fan, so that answers are about peers in either. Returns
    /// an error if the other fan has another secret or size.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.check != other.check || self.memory_bytes() != other.memory_bytes() {
            return Err(Error::State(
                "one of another secret or size cannot be added".into(),
            ));
        }
        match &other.content {
            Content::Pairs(_) => {
                for tags in pairs::all(&other.words) {
                    self.keep(tags);
                }
            }
            Content::Bits(_) => {
                self.convert_to_bits();
                for (word, more) in self.words.iter_mut().zip(&other.words) {
                    *word |= more;
                }
                self.recount();
            }
        }
        let counts = self.counts();
        let (content, words, sampling_level) = (&self.content, &self.words, self.sampling_level());
        self.candidates
            .merge(&other.candidates, |tag| match content {
                Content::Pairs(_) => counts.get(&tag).copied().unwrap_or(0),
                Content::Bits(levels) => levels.peers(words, tag).peers >> sampling_level,
            });
        Ok(())
    }

    /// Recomputes the values that are derived from the bits.
    fn recount(&mut self) {
        if let Content::Bits(levels) = &mut self.content {
            levels.recount(&self.words);
        }
    }

    /// Whether all pairs are kept, so that peers are counted and not estimated.
    pub fn keeps_pairs(&self) -> bool {
        matches!(self.content, Content::Pairs(_))
    }

    /// Bytes in use.
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
