//! Candidates: nodes by name, among which those with most peers are sought.
//!
//! Buckets of eight places. What is counted is new pairs since a node is here,
//! roughly, to know who may go. A node that is not here gets in with a pair
//! whose tag is as rare as one in as many as the smallest of its bucket has: on
//! average after as many pairs, and a pair that comes again is no other chance.

use std::cmp::Reverse;

use crate::name::AnyName;

/// Places of a bucket.
const WAYS: usize = 8;

/// Set in the count of a node with a long name.
const LONG: u32 = 1 << 31;

/// The largest count.
const MOST: u32 = LONG - 1;

/// Places beside each other: to find a node, 64 bytes are enough.
#[derive(Clone, Copy, Default)]
struct Bucket {
    /// What nodes are known by elsewhere.
    tags: [u32; WAYS],
    /// Their counts, and whether their names are long; 0 for an empty place.
    marked: [u32; WAYS],
    /// The words of their names that are not always 0.
    names: [[u64; 2]; WAYS],
}

/// A node as it is in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Candidate {
    name: [u64; 2],
    /// What the node is known by elsewhere.
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

    /// Roughly how many peers it has; none has an empty place.
    pub fn count(&self) -> u32 {
        self.marked & MOST
    }

    /// The same with as many peers as its tag has.
    fn counted(self, peers: impl Fn(u32) -> u64) -> Self {
        let count = u32::try_from(peers(self.tag)).unwrap_or(MOST);
        Self::new(self.tag, self.name(), count)
    }

    /// Its name.
    pub fn name(&self) -> AnyName {
        let [first, second] = self.name;
        match self.marked & LONG {
            0 => AnyName::Narrow([first]),
            _ => AnyName::Wide([first, second, 0, 0]),
        }
    }

    /// As numbers, to be saved.
    pub fn to_words(self) -> [u64; 3] {
        let [first, second] = self.name;
        let rest = u64::from(self.tag) << 32 | u64::from(self.marked);
        [first, second, rest]
    }

    /// From these numbers; none if they are not possible.
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
        self.all().filter(|place| place.count() > 0)
    }
}

/// The table. See the head of this file.
pub(super) struct Candidates {
    buckets: Vec<Bucket>,
}

impl Candidates {
    /// No places at all.
    pub fn none() -> Self {
        Self {
            buckets: Vec::new(),
        }
    }

    /// As many as fit, at least a bucket of them.
    pub fn new(bytes: usize) -> Self {
        Self {
            buckets: vec![Bucket::default(); (bytes / size_of::<Bucket>()).max(1)],
        }
    }

    #[inline]
    fn at(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.buckets.len() as u64) >> 32) as usize
    }

    /// Counts a new pair of a node; `level` says how rare the pair is: one in
    /// 2^level.
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

    /// From now on one pair in so many is counted.
    pub fn divide(&mut self, by: u32) {
        for bucket in &mut self.buckets {
            for marked in &mut bucket.marked {
                let count = *marked & MOST;
                *marked = *marked & LONG | count.div_ceil(by);
            }
        }
    }

    /// All of them, in no particular order.
    pub fn all(&self) -> impl Iterator<Item = Candidate> {
        self.buckets.iter().flat_map(Bucket::taken)
    }

    /// All places, taken or not.
    pub fn places(&self) -> impl Iterator<Item = Candidate> {
        self.buckets.iter().flat_map(Bucket::all)
    }

    /// Fills all places; says whether there are as many and each node is where
    /// it is sought.
    pub fn restore(&mut self, places: &[Candidate]) -> bool {
        let (buckets, rest) = places.as_chunks::<WAYS>();
        let right = |(at, bucket): (usize, &[Candidate; WAYS])| {
            let mut taken = bucket.iter().filter(|place| place.count() > 0);
            taken.all(|place| self.at(place.tag) == at)
        };
        let fits = rest.is_empty()
            && buckets.len() == self.buckets.len()
            && buckets.iter().enumerate().all(right);
        if fits {
            for (bucket, places) in self.buckets.iter_mut().zip(buckets) {
                (0..WAYS).for_each(|at| bucket.put(at, places[at]));
            }
        }
        fits
    }

    /// Takes over those of a smaller table, those with most peers first.
    pub fn take_over(&mut self, other: &Self, peers: impl Fn(u32) -> u64) {
        let mut all: Vec<Candidate> = other.all().map(|one| one.counted(&peers)).collect();
        all.sort_unstable_by_key(|one| (Reverse(one.count()), one.tag));
        for one in all {
            let at = self.at(one.tag);
            let bucket = &mut self.buckets[at];
            if let Some(empty) = (0..WAYS).find(|place| bucket.marked[*place] == 0) {
                bucket.put(empty, one);
            }
        }
    }

    /// Keeps those of both that have most peers.
    pub fn merge(&mut self, other: &Self, peers: impl Fn(u32) -> u64) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            let mut both: Vec<Candidate> = mine
                .taken()
                .chain(theirs.taken())
                .map(|place| place.counted(&peers))
                .collect();
            both.sort_unstable_by_key(|place| (Reverse(place.count()), place.tag));
            both.dedup_by_key(|place| place.tag);
            both.resize(WAYS, Candidate::default());
            (0..WAYS).for_each(|at| mine.put(at, both[at]));
        }
    }

    /// What it weighs.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }
}
