//! Candidates: nodes by name, among which those with most peers are searched.
//!
//! Buckets of eight slots. An entry counts the new pairs of its node since it was
//! inserted. This count is rough; it decides which entry is replaced. A node without an
//! entry replaces the smallest entry of its bucket, which has n pairs, when it has a pair
//! whose tag is as rare as one in n: on average after n pairs. A repeated pair has the
//! same tag, so repeating it has no further effect.

use std::cmp::Reverse;

use crate::name::AnyName;

/// Number of slots in a bucket.
const WAYS: usize = 8;

/// Flag in the count of a node with a long name.
const LONG: u32 = 1 << 31;

/// The largest count.
const MOST: u32 = LONG - 1;

/// Eight slots, stored by column. Finding a node reads 64 bytes.
#[derive(Clone, Copy, Default)]
struct Bucket {
    /// Tags of the nodes.
    tags: [u32; WAYS],
    /// Their counts with the flag [`LONG`]; 0 for an empty slot.
    marked: [u32; WAYS],
    /// The words of their names that are not always 0.
    names: [[u64; 2]; WAYS],
}

/// A node and its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Candidate {
    name: [u64; 2],
    /// Tag of the node.
    pub tag: u32,
    marked: u32,
}

impl Candidate {
    fn new(tag: u32, name: AnyName, count: u32) -> Self {
        let (name, kind) = match name {
            AnyName::Narrow([word]) => ([word, 0], 0),
            AnyName::Wide([first, second, ..]) => ([first, second], LONG),
        };
        let marked = count.clamp(1, MOST) | kind;
        Self { name, tag, marked }
    }

    /// The rough number of peers; 0 for an empty slot.
    pub fn count(&self) -> u32 {
        self.marked & MOST
    }

    /// The same node with the number of peers that `peers` returns for its tag.
    fn counted(self, peers: impl Fn(u32) -> u64) -> Self {
        let count = u32::try_from(peers(self.tag)).unwrap_or(MOST);
        Self::new(self.tag, self.name(), count)
    }

    pub fn name(&self) -> AnyName {
        let [first, second] = self.name;
        match self.marked & LONG {
            0 => AnyName::Narrow([first]),
            _ => AnyName::Wide([first, second, 0, 0]),
        }
    }

    /// The words of a saved state.
    pub fn to_words(self) -> [u64; 3] {
        let [first, second] = self.name;
        let rest = u64::from(self.tag) << 32 | u64::from(self.marked);
        [first, second, rest]
    }

    /// The inverse of [`to_words`](Self::to_words). Returns `None` if the words are
    /// invalid.
    pub fn from_words([first, second, rest]: [u64; 3]) -> Option<Self> {
        let read = Self {
            name: [first, second],
            tag: (rest >> 32) as u32,
            marked: rest as u32,
        };
        let possible = match (read.count(), read.marked & LONG) {
            (0, _) => read == Self::default(),
            (_, 0) => second == 0,
            _ => true,
        };
        possible.then_some(read)
    }
}

impl Bucket {
    #[inline]
    fn find(&self, tag: u32) -> Option<usize> {
        (0..WAYS).find(|at| self.tags[*at] == tag && self.marked[*at] != 0)
    }

    fn get(&self, at: usize) -> Candidate {
        Candidate {
            name: self.names[at],
            tag: self.tags[at],
            marked: self.marked[at],
        }
    }

    fn put(&mut self, at: usize, candidate: Candidate) {
        self.names[at] = candidate.name;
        self.tags[at] = candidate.tag;
        self.marked[at] = candidate.marked;
    }

    fn all(&self) -> impl Iterator<Item = Candidate> {
        (0..WAYS).map(|at| self.get(at))
    }

    fn taken(&self) -> impl Iterator<Item = Candidate> {
        self.all().filter(|slot| slot.count() > 0)
    }
}

/// The table of candidates.
pub(super) struct Candidates {
    buckets: Vec<Bucket>,
}

impl Candidates {
    /// A table without any slot.
    pub fn none() -> Self {
        Self {
            buckets: Vec::new(),
        }
    }

    /// An empty table of `bytes` bytes, at least one bucket.
    pub fn new(bytes: usize) -> Self {
        Self {
            buckets: vec![Bucket::default(); (bytes / size_of::<Bucket>()).max(1)],
        }
    }

    #[inline]
    fn at(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Counts a new pair of a node. `level` is the level of the pair: one pair in 2^level
    /// has it.
    #[inline]
    pub fn count(&mut self, tag: u32, level: usize, name: impl FnOnce() -> AnyName) {
        let at = self.at(tag);
        let bucket = &mut self.buckets[at];
        if let Some(at) = bucket.find(tag) {
            let marked = &mut bucket.marked[at];
            *marked += u32::from(*marked & MOST < MOST);
            return;
        }
        let counts = bucket.marked.map(|marked| marked & MOST);
        let smallest = counts.into_iter().fold(MOST, u32::min);
        if level >= smallest.checked_ilog2().unwrap_or(0) as usize {
            let at = counts.iter().position(|count| *count == smallest);
            bucket.put(at.unwrap_or(0), Candidate::new(tag, name(), smallest + 1));
        }
    }

    /// Divides all counts, because from now on only one pair in `by` is counted.
    pub fn divide(&mut self, by: u32) {
        for bucket in &mut self.buckets {
            for marked in &mut bucket.marked {
                let count = *marked & MOST;
                *marked = *marked & LONG | count.div_ceil(by);
            }
        }
    }

    /// All candidates, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = Candidate> {
        self.buckets.iter().flat_map(Bucket::taken)
    }

    /// All slots, occupied or empty.
    pub fn slots(&self) -> impl Iterator<Item = Candidate> {
        self.buckets.iter().flat_map(Bucket::all)
    }

    /// Fills all slots. Returns false, and changes nothing, if their number is wrong or
    /// a node is in the wrong bucket.
    pub fn restore(&mut self, slots: &[Candidate]) -> bool {
        let (buckets, rest) = slots.as_chunks::<WAYS>();
        let right = |(at, bucket): (usize, &[Candidate; WAYS])| {
            let mut taken = bucket.iter().filter(|slot| slot.count() > 0);
            taken.all(|slot| self.at(slot.tag) == at)
        };
        let fits = rest.is_empty()
            && buckets.len() == self.buckets.len()
            && buckets.iter().enumerate().all(right);
        if fits {
            for (bucket, slots) in self.buckets.iter_mut().zip(buckets) {
                (0..WAYS).for_each(|at| bucket.put(at, slots[at]));
            }
        }
        fits
    }

    /// Inserts the candidates of a smaller table, those with most peers first.
    pub fn take_over(&mut self, other: &Self, peers: impl Fn(u32) -> u64) {
        let mut all: Vec<Candidate> = other.all().map(|one| one.counted(&peers)).collect();
        all.sort_unstable_by_key(|one| (Reverse(one.count()), one.tag));
        for one in all {
            let at = self.at(one.tag);
            let bucket = &mut self.buckets[at];
            if let Some(empty) = (0..WAYS).find(|slot| bucket.marked[*slot] == 0) {
                bucket.put(empty, one);
            }
        }
    }

    /// Keeps those of both tables that have most peers.
    pub fn merge(&mut self, other: &Self, peers: impl Fn(u32) -> u64) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            let mut both: Vec<Candidate> = mine
                .taken()
                .chain(theirs.taken())
                .map(|slot| slot.counted(&peers))
                .collect();
            both.sort_unstable_by_key(|slot| (Reverse(slot.count()), slot.tag));
            both.dedup_by_key(|slot| slot.tag);
            both.resize(WAYS, Candidate::default());
            (0..WAYS).for_each(|at| mine.put(at, both[at]));
        }
    }

    /// Bytes of all buckets.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }
}
