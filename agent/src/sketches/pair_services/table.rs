//! The entries of pairs with names of one length. Each pair has two buckets.

use std::collections::HashSet;
use std::hash::Hash;

use crane_model::name::Name;

use super::MOST;
use super::bucket::{Bucket, Known, Record};
use crate::sketches::parts::{put, take};
use crate::traffic::batch::Part;

/// A table of entries.
#[derive(Default)]
pub struct Table<N> {
    buckets: Vec<Bucket<N>>,
}

/// Where an entry is: bucket and position.
type Place = (usize, usize);

/// The entries in the two buckets of a pair.
struct Found {
    /// Number of entries of the pair.
    own: usize,
    /// Whether an entry of the pair inherited packets.
    has_inherited: bool,
    /// The entry of the pair with the fewest packets.
    fewest: Option<(u64, Place)>,
    /// The entry of another pair with the fewest packets.
    lightest: Option<(u64, Place)>,
    /// Entries in use in each bucket.
    taken: [usize; 2],
}

impl<N: Name + Hash> Table<N> {
    /// Bytes of a bucket.
    pub const BUCKET: usize = size_of::<Bucket<N>>();
    /// Bytes of the first table.
    pub const FIRST: usize = 4 * Self::BUCKET;

    /// The two buckets of a pair, which may be the same. The table must not be empty.
    #[inline]
    fn homes(&self, id: u64) -> [usize; 2] {
        let buckets = self.buckets.len() as u64;
        [id as u32, (id >> 32) as u32].map(|bits| ((u64::from(bits) * buckets) >> 32) as usize)
    }

    /// Reads both buckets of a pair, so that they are in the cache when they are needed.
    #[inline]
    pub fn touch(&self, id: u64) -> u64 {
        if self.buckets.is_empty() {
            return 0;
        }
        let [one, other] = self.homes(id);
        self.buckets[one].touch() ^ self.buckets[other].touch()
    }

    /// Counts packets of a pair and a service. Returns false if they have no entry.
    #[inline]
    pub fn add(&mut self, name: &N, id: u64, part: Part) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        for home in self.homes(id) {
            let bucket = &mut self.buckets[home];
            if let Some(at) = bucket.find(name, part.service) {
                bucket.add(at, part.packets, part.bytes);
                return true;
            }
        }
        false
    }

    fn find(&self, name: &N, homes: [usize; 2]) -> Found {
        let mut found = Found {
            own: 0,
            has_inherited: false,
            fewest: None,
            lightest: None,
            taken: [0; 2],
        };
        let lower = |one: &mut Option<(u64, Place)>, packets: u64, place: Place| {
            if one.is_none_or(|(least, _)| packets < least) {
                *one = Some((packets, place));
            }
        };
        let both = if homes[0] == homes[1] { 1 } else { 2 };
        for (which, home) in homes.into_iter().enumerate().take(both) {
            for (at, held, known) in self.buckets[home].entries() {
                found.taken[which] += 1;
                if held == *name {
                    found.own += 1;
                    found.has_inherited |= known.inherited > 0;
                    lower(&mut found.fewest, known.packets, (home, at));
                } else {
                    lower(&mut found.lightest, known.packets, (home, at));
                }
            }
        }
        if both == 1 {
            found.taken[1] = found.taken[0];
        }
        found
    }

    /// Makes an entry for a service of a pair that has none: in a free place, or instead of the
    /// entry of the pair with the fewest packets. Returns false, and changes nothing, if neither is
    /// possible.
    pub fn insert(&mut self, name: N, id: u64, part: Part) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let homes = self.homes(id);
        let found = self.find(&name, homes);
        // If an entry of the pair was replaced, its packets are part of those of another entry, and
        // this service may have had some of them. Its entry is a valid upper bound only if it
        // inherits the packets of an entry.
        if let Some((packets, (bucket, at))) = found.fewest
            && (found.own == MOST || found.has_inherited)
        {
            let known = Known {
                service: part.service,
                packets: packets.saturating_add(part.packets),
                inherited: packets,
                bytes: part.bytes,
            };
            self.buckets[bucket].set(at, name, known);
            return true;
        }
        let emptier = homes[usize::from(found.taken[1] < found.taken[0])];
        let vacancy = self.buckets[emptier].vacancy();
        if let Some(at) = vacancy {
            self.buckets[emptier].set(at, name, Known::new(part));
        }
        vacancy.is_some()
    }

    /// Replaces the lightest entry of other pairs, with a probability of the packets of the new
    /// entry divided by those of both.
    pub fn replace_lightest(&mut self, name: N, id: u64, part: Part, random: u64) {
        if self.buckets.is_empty() {
            return;
        }
        let found = self.find(&name, self.homes(id));
        if let Some((packets, (bucket, at))) = found.lightest
            && random % packets.saturating_add(part.packets) < part.packets
        {
            self.buckets[bucket].set(at, name, Known::new(part));
        }
    }

    /// The same entries in a table of `bytes` bytes.
    pub fn resize(&mut self, bytes: usize, id: impl Fn(&N) -> u64) {
        let buckets = vec![Bucket::default(); bytes / Self::BUCKET];
        let before = std::mem::replace(&mut self.buckets, buckets);
        for (_, name, known) in before.iter().flat_map(Bucket::entries) {
            let homes = self.homes(id(&name));
            let taken = homes.map(|home| self.buckets[home].entries().count());
            let emptier = homes[usize::from(taken[1] < taken[0])];
            // An entry without a free place is dropped, and its packets become unrecorded.
            if let Some(at) = self.buckets[emptier].vacancy() {
                self.buckets[emptier].set(at, name, known);
            }
        }
    }

    /// Removes all pairs except these.
    pub fn keep(&mut self, names: HashSet<N>) {
        for bucket in &mut self.buckets {
            bucket.free(|name| !names.contains(name));
        }
    }

    /// Removes a pair.
    pub fn forget(&mut self, name: &N, id: u64) {
        if !self.buckets.is_empty() {
            for home in self.homes(id) {
                self.buckets[home].free(|held| held == name);
            }
        }
    }

    /// The services of a pair.
    pub fn record(&self, name: &N, id: u64) -> Record {
        let mut record = Record::default();
        if self.buckets.is_empty() {
            return record;
        }
        let [one, other] = self.homes(id);
        let both = [Some(one), Some(other).filter(|other| *other != one)];
        for home in both.into_iter().flatten() {
            for (_, held, known) in self.buckets[home].entries() {
                if held == *name {
                    record.push(known);
                }
            }
        }
        record
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (N, Known)> {
        let entries = self.buckets.iter().flat_map(Bucket::entries);
        entries.map(|(_, name, known)| (name, known))
    }

    pub fn save(&self, state: &mut Vec<u8>) {
        put(state, self.buckets.len() as u64);
        for word in self.buckets.iter().flat_map(Bucket::words) {
            put(state, word);
        }
    }

    /// Takes a saved table from the front. `None` if it is invalid.
    pub fn load(state: &mut &[u8]) -> Option<Self> {
        let buckets = usize::try_from(take(state)?).ok()?;
        let length = Bucket::<N>::length();
        // A wrong number of buckets must not cause a large allocation.
        if buckets > state.len() / (8 * length) {
            return None;
        }
        let bucket = |_| {
            let words: Option<Vec<u64>> = (0..length).map(|_| take(state)).collect();
            Bucket::of_words(&words?)
        };
        let buckets = (0..buckets).map(bucket).collect::<Option<Vec<_>>>()?;
        Some(Self { buckets })
    }

    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * Self::BUCKET
    }
}
