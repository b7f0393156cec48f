//! The entries of pairs with names of one length, in two buckets a pair.

use std::collections::HashSet;
use std::hash::Hash;

use crane_model::name::Name;

use super::MOST;
use super::bucket::{Bucket, Known, Record};
use crate::sketches::parts::{put, take};
use crate::traffic::batch::Part;

/// The table. See the head of this file.
#[derive(Default)]
pub struct Table<N> {
    buckets: Vec<Bucket<N>>,
}

/// Where an entry is: bucket and position.
type Place = (usize, usize);

/// What there is in the buckets of a pair.
struct Found {
    /// Entries of the pair.
    own: usize,
    /// Whether one of them inherited packets.
    has_inherited: bool,
    /// The one with the fewest packets.
    fewest: Option<(u64, Place)>,
    /// The one of other pairs with the fewest packets.
    lightest: Option<(u64, Place)>,
    taken: [usize; 2],
}

impl<N: Name + Hash> Table<N> {
    /// Bytes of a bucket.
    pub const BUCKET: usize = size_of::<Bucket<N>>();
    /// Bytes of the first table.
    pub const FIRST: usize = 4 * Self::BUCKET;

    /// The two buckets of a pair; there must be any. They may be the same.
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

    /// Counts packets of a pair and a service that have an entry; whether they have.
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

    /// Makes an entry for a service that its pair has none for, in a free place, or in that of
    /// the one of its pair with the fewest packets. Returns false, and changes nothing, if
    /// there is no free place.
    pub fn insert(&mut self, name: N, id: u64, part: Part) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let homes = self.homes(id);
        let found = self.find(&name, homes);
        // If a service lost its place, its packets are a part of those of another entry: only
        // whoever inherits as many is certain to have had no more than its entry says.
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

    /// Puts an entry in the place of the lightest one of other pairs, with the probability
    /// that makes it as likely for each packet of this one.
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
            // One that has no place is not recorded any more.
            if let Some(at) = self.buckets[emptier].vacancy() {
                self.buckets[emptier].set(at, name, known);
            }
        }
    }

    /// Forgets all pairs but these.
    pub fn keep(&mut self, names: HashSet<N>) {
        for bucket in &mut self.buckets {
            bucket.free(|name| !names.contains(name));
        }
    }

    /// Forgets a pair.
    pub fn forget(&mut self, name: &N, id: u64) {
        if !self.buckets.is_empty() {
            for home in self.homes(id) {
                self.buckets[home].free(|held| held == name);
            }
        }
    }

    /// What is known of a pair.
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

    /// Takes a saved table off the front; none if it cannot be one.
    pub fn load(state: &mut &[u8]) -> Option<Self> {
        let buckets = usize::try_from(take(state)?).ok()?;
        let length = Bucket::<N>::length();
        // Nothing is allocated for what cannot be there.
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
