//! The crown: a small hash table of the heaviest edges, counted by name.
//!
//! The table consists of buckets of eight slots. The id of an edge determines its
//! bucket; an edge that is admitted replaces the lightest entry of that bucket. Four
//! buckets form a group: if all entries of its bucket are heavy and another bucket of the
//! group has an entry that is far lighter ([`FAR`]), the edge is admitted there. So more
//! heavy edges than a bucket has slots do not leave one without an entry while others have
//! room.
//!
//! **Accuracy.** Packets and bytes since the admission are exact. The packets before are
//! known within `earlier ..= earlier + slack` ([`Count`]); storing rounds `earlier` up by
//! at most 1/512 and `slack` up by at most 1/8, so both stay on the safe side. **Cost.**
//! 24 bytes for a pair of IPv4 addresses, 48 bytes (two slots) for a pair of IPv6
//! addresses. Finding and counting read one bucket, and its group if an edge of the bucket
//! was admitted to another one, which one bit for each bucket tells. Most edges are too
//! light to be admitted, which one number for each bucket tells, its floor.

mod bucket;
mod count;

use bucket::{Bucket, Slot, WIDE, begins, entry, find, lightest, packed, words};

use crate::name::{AnyName, Name, Narrow};

pub use bucket::{MOST_BYTES, SLOT_BYTES, WAYS};
pub use count::{BYTES_PER_PACKET, Count};

/// Buckets of a group.
const GROUP: usize = 4;

/// An edge is admitted to another bucket of the group only if it outranks so many times
/// the lightest entry there: nearly all edges have to be found by reading one bucket.
const FAR: u64 = 2;

/// The table of the heaviest edges.
pub struct Crown {
    buckets: Vec<Bucket>,
    /// For each bucket a bit that is set if an edge of the bucket was admitted to another
    /// bucket of the group.
    spilled: Vec<u64>,
    /// For each bucket a rank that its edges have to exceed to be admitted. It may be too
    /// low: it is raised when an edge is refused.
    floors: Vec<u16>,
    /// An edge has to exceed this rank to be admitted, even to an empty slot: 0, or the
    /// maximum in a [closed](Self::closed) crown.
    threshold: u64,
}

impl Crown {
    /// An empty crown with `slots` slots, rounded up to whole buckets.
    pub fn new(slots: usize) -> Self {
        let buckets = slots.max(1).div_ceil(WAYS);
        Self {
            buckets: vec![Bucket::default(); buckets],
            spilled: vec![0; buckets.div_ceil(64)],
            floors: vec![0; buckets],
            threshold: 0,
        }
    }

    /// A crown that never admits an edge. It serves ablations, which measure what the
    /// crown contributes; no profile of this crate uses it.
    pub fn closed(self) -> Self {
        Self {
            threshold: u64::MAX,
            ..self
        }
    }

    fn at(&self, spot: u64) -> usize {
        ((u128::from(spot) * self.buckets.len() as u128) >> 64) as usize
    }

    /// The other buckets of the group.
    #[inline]
    fn neighbours(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        let buckets = self.buckets.len();
        (1..GROUP)
            .map(move |n| at ^ n)
            .filter(move |other| *other < buckets)
    }

    #[inline]
    fn has_spilled(&self, at: usize) -> bool {
        self.spilled[at / 64] >> (at % 64) & 1 == 1
    }

    /// The bucket and the slot of the entry of an edge.
    #[inline(always)]
    fn search<N: Name>(&self, spot: u64, name: &N) -> Option<(usize, usize)> {
        let at = self.at(spot);
        if let Some(slot) = find(&self.buckets[at], name) {
            return Some((at, slot));
        }
        if !self.has_spilled(at) {
            return None;
        }
        let mut neighbours = self.neighbours(at);
        neighbours.find_map(|other| Some((other, find(&self.buckets[other], name)?)))
    }

    /// Reads one word of the bucket, so that it is in the cache when it is needed. Many
    /// such reads can be in flight at the same time.
    #[inline]
    pub fn touch(&self, spot: u64) -> u64 {
        self.buckets[self.at(spot)].touch()
    }

    /// Counts an arrival if the edge has an entry, and returns whether it has. `spot` is
    /// the [`crate::codes::Codes::spot`] of its id.
    #[inline]
    pub fn count<N: Name>(&mut self, spot: u64, name: &N, packets: u64, bytes: u64) -> bool {
        let found = self.search(spot, name);
        if let Some((at, slot)) = found {
            let bucket = &mut self.buckets[at];
            let mut entry = bucket.slot(slot);
            entry.add(packets, bytes);
            bucket.set(slot, entry);
        }
        found.is_some()
    }

    /// A rank that an edge has to exceed to be admitted at this spot. Most edges do not,
    /// and nothing else has to be read for them; another edge may still be too light.
    #[inline]
    pub fn floor(&self, spot: u64) -> u64 {
        u64::from(self.floors[self.at(spot)]).max(self.threshold)
    }

    /// Whether an edge with a name of this length and this rank would be admitted.
    #[inline(always)]
    pub fn admits<N: Name>(&mut self, spot: u64, rank: u64) -> bool {
        rank > self.floor(spot) && self.outranks::<N>(self.at(spot), rank)
    }

    /// Whether the rank exceeds that of an entry that an edge of this bucket may replace.
    fn outranks<N: Name>(&mut self, at: usize, rank: u64) -> bool {
        // The ranks of entries only rise, and a short name may replace any entry.
        if rank > lightest::<N>(&self.buckets[at]).1 || rank > self.opening::<N>(at).1 {
            return true;
        }
        let (_, least) = self.opening::<Narrow>(at);
        self.floors[at] = u16::try_from(least).unwrap_or(u16::MAX);
        false
    }

    /// The rank that an edge with a name of this length has to exceed to be admitted. 0
    /// while there is an empty slot in its bucket.
    pub fn lightest<N: Name>(&self, spot: u64) -> u64 {
        self.opening::<N>(self.at(spot)).1
    }

    /// The bucket that an edge of bucket `at` would be admitted to, and the rank that it
    /// has to exceed.
    #[inline]
    fn opening<N: Name>(&self, at: usize) -> (usize, u64) {
        let own = (at, lightest::<N>(&self.buckets[at]).1);
        let others = self.neighbours(at);
        let others = others.map(|other| (other, far(lightest::<N>(&self.buckets[other]).1)));
        // The first of several with the same rank, so the own bucket before all others.
        std::iter::once(own)
            .chain(others)
            .min_by_key(|(_, rank)| *rank)
            .unwrap_or(own)
    }

    /// Admits an edge. The entries that it replaces are appended to `evicted`.
    pub fn admit<N: Name>(
        &mut self,
        spot: u64,
        name: &N,
        count: Count,
        evicted: &mut Vec<(AnyName, Count)>,
    ) {
        let home = self.at(spot);
        let (target, _) = self.opening::<N>(home);
        if target != home {
            self.spilled[home / 64] |= 1 << (home % 64);
        }
        let bucket = &mut self.buckets[target];
        let (at, _) = lightest::<N>(bucket);
        let [count, bytes] = packed(&count);
        match name.any() {
            AnyName::Narrow([name]) => {
                evicted.extend(entry(bucket, at));
                if bucket.slot(at).is_wide() {
                    bucket.set(at + 1, Slot::default());
                    // Only here a slot becomes empty again.
                    let group = target / GROUP * GROUP;
                    self.floors
                        .iter_mut()
                        .skip(group)
                        .take(GROUP)
                        .for_each(|f| *f = 0);
                }
                bucket.set(at, Slot { name, count, bytes });
            }
            AnyName::Wide([first, b, c, d]) => {
                evicted.extend(entry(bucket, at));
                evicted.extend(entry(bucket, at + 1));
                let count = count | WIDE;
                let (name, rest) = (first, [b, c, d]);
                bucket.set(at, Slot { name, count, bytes });
                bucket.set(at + 1, Slot::of_words(rest));
            }
        }
    }

    /// The count of an edge, if it has an entry.
    pub fn get<N: Name>(&self, spot: u64, name: &N) -> Option<Count> {
        let (at, slot) = self.search(spot, name)?;
        Some(self.buckets[at].slot(slot).count())
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (AnyName, Count)> {
        let buckets = self.buckets.iter();
        buckets.flat_map(|bucket| (0..WAYS).filter_map(|at| entry(bucket, at)))
    }

    /// Number of slots, occupied or empty.
    pub fn slots(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Bytes of all buckets. Bits and floors are not counted: a hundredth.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * WAYS * SLOT_BYTES
    }

    /// All slots as words, for a saved state.
    pub(crate) fn to_words(&self) -> impl Iterator<Item = u64> {
        let slots = self.buckets.iter().flat_map(Bucket::slots);
        slots.flat_map(words)
    }

    /// Continues from saved words, where `spot` returns that of a name. Returns false, and
    /// changes nothing, if they cannot be those of a crown of this size.
    pub(crate) fn restore(&mut self, all: &[u64], spot: impl Fn(&AnyName) -> u64) -> bool {
        let (slots, rest) = all.as_chunks::<3>();
        let slots: Vec<Slot> = slots.iter().copied().map(Slot::of_words).collect();
        let (buckets, left) = slots.as_chunks::<WAYS>();
        let buckets: Vec<Bucket> = buckets.iter().map(Bucket::new).collect();
        let whole = rest.is_empty() && left.is_empty() && buckets.len() == self.buckets.len();
        // An entry of two slots begins at an even slot. A slot that is not empty has
        // counted a packet.
        let possible = |bucket: &Bucket| {
            (0..WAYS).filter(|at| begins(bucket, *at)).all(|at| {
                let slot = bucket.slot(at);
                (at.is_multiple_of(2) || !slot.is_wide()) && (slot.count == 0 || slot.packets() > 0)
            })
        };
        if !whole || !buckets.iter().all(possible) {
            return false;
        }
        let mut spilled = vec![0; self.spilled.len()];
        for (at, bucket) in buckets.iter().enumerate() {
            for (name, _) in (0..WAYS).filter_map(|slot| entry(bucket, slot)) {
                match self.at(spot(&name)) {
                    home if home == at => {}
                    home if home / GROUP == at / GROUP => spilled[home / 64] |= 1 << (home % 64),
                    _ => return false,
                }
            }
        }
        (self.buckets, self.spilled) = (buckets, spilled);
        self.floors.fill(0);
        true
    }
}

/// The rank that an edge of another bucket has to exceed to replace an entry of this rank.
/// Entries with a packet or two are not worth reading other buckets.
#[inline]
fn far(rank: u64) -> u64 {
    FAR * rank.max(FAR)
}

#[cfg(test)]
mod tests {
    use super::bucket::{GUESS_UNIT, MOST_PACKETS};
    use super::*;
    use crate::name::Wide;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn the_lightest_goes_and_the_rest_is_exact() {
        let mut crown = Crown::new(8);
        let mut evicted = Vec::new();
        for name in 0..8u64 {
            let count = Count::exact(10 + name, 100);
            assert!(!crown.count(1, &[name], 1, 1), "it is not here yet");
            crown.admit(1, &[name], count, &mut evicted);
            assert!(evicted.is_empty());
        }
        assert_eq!(crown.floor(1), 0, "none was refused");
        assert!(!crown.admits::<Narrow>(1, 10));
        assert_eq!(crown.floor(1), 10);
        assert!(crown.count(1, &[3], 1, 1));
        assert!(!crown.count(1, &[99], 1, 1));
        assert_eq!(crown.lightest::<Narrow>(1), 10);
        crown.admit(1, &[99], Count::exact(50, 60), &mut evicted);
        assert_eq!(evicted, [(AnyName::Narrow([0]), Count::exact(10, 100))]);
        assert_eq!(crown.get(1, &[3]), Some(Count::exact(14, 101)));
        assert_eq!(crown.get(1, &[0]), None);
        assert_eq!(crown.entries().count(), 8);
    }

    /// Compares the crown with a list that follows the same rules without any packing.
    #[test]
    fn short_and_long_names_share_a_bucket_and_none_is_lost_or_mixed_up() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut crown = Crown::new(8);
        let mut known: Vec<(AnyName, Count)> = Vec::new();
        for _ in 0..20_000 {
            let n = rng.random_range(0..30u64);
            let (packets, bytes) = (rng.random_range(1..50), rng.random_range(0..100));
            // A long name whose words look like those of a short one.
            let (narrow, wide): (Narrow, Wide) = ([n], [n, n, 1, 0]);
            let mut evicted = Vec::new();
            let (name, here) = match rng.random_bool(0.5) {
                true => (wide.any(), crown.count(7, &wide, packets, bytes)),
                false => (narrow.any(), crown.count(7, &narrow, packets, bytes)),
            };
            let mine = known.iter_mut().find(|(known, _)| *known == name);
            assert_eq!(here, mine.is_some());
            match mine {
                Some((_, count)) => {
                    count.packets += packets;
                    count.bytes += bytes;
                }
                None => {
                    let limit = match name {
                        AnyName::Wide(_) => crown.lightest::<Wide>(7),
                        AnyName::Narrow(_) => crown.lightest::<Narrow>(7),
                    };
                    // Sometimes one that is heavier than some.
                    let count = Count::exact(limit + packets, bytes);
                    match name {
                        AnyName::Wide(wide) => crown.admit(7, &wide, count, &mut evicted),
                        AnyName::Narrow(narrow) => crown.admit(7, &narrow, count, &mut evicted),
                    }
                    for (_, count) in &evicted {
                        assert!(count.rank() <= limit);
                    }
                    known.retain(|entry| !evicted.contains(entry));
                    known.push((name, count));
                    let slots = |(name, _): &(AnyName, Count)| match name {
                        AnyName::Wide(_) => 2,
                        AnyName::Narrow(_) => 1,
                    };
                    assert!(known.iter().map(slots).sum::<usize>() <= WAYS);
                }
            }
            let mut entries: Vec<_> = crown.entries().collect();
            entries.sort_unstable_by_key(|(name, _)| *name);
            known.sort_unstable_by_key(|(name, _)| *name);
            assert_eq!(entries, known);
        }
        let words: Vec<u64> = crown.to_words().collect();
        let mut again = Crown::new(crown.slots());
        assert!(again.restore(&words, |_| 7));
        assert!(again.entries().eq(crown.entries()));
        assert!(!again.restore(&words[1..], |_| 7));
    }

    /// Nine heavy edges of one bucket, in whose group there are light ones only.
    #[test]
    fn the_group_takes_what_a_bucket_has_no_room_for() {
        let mut crown = Crown::new(GROUP * WAYS);
        let (home, last) = (1, u64::MAX);
        let spot = |bucket: u64| (bucket << 62) + 1;
        let mut evicted = Vec::new();
        for name in 0..8u64 {
            crown.admit(home, &[name], Count::exact(50, 1), &mut evicted);
            for bucket in 1..4 {
                // The last bucket is the lightest.
                let count = Count::exact(7 - bucket, 1);
                crown.admit(spot(bucket), &[100 * bucket + name], count, &mut evicted);
            }
        }
        assert_eq!(crown.lightest::<Narrow>(home), 8, "twice the rank of 4");
        assert!(!crown.admits::<Narrow>(home, 8) && crown.admits::<Narrow>(home, 9));
        assert_eq!(crown.floor(home), 8);
        assert!(!crown.count(home, &[8], 1, 1));
        crown.admit(home, &[8], Count::exact(9, 1), &mut evicted);
        assert_eq!(evicted, [(AnyName::Narrow([300]), Count::exact(4, 1))]);
        assert!(crown.count(home, &[8], 1, 1));
        assert_eq!(crown.get(home, &[8]), Some(Count::exact(10, 2)));
        // It is found in a state as well, and there is no other place for it.
        let words: Vec<u64> = crown.to_words().collect();
        let mut again = Crown::new(GROUP * WAYS);
        let spot_of = |name: &AnyName| match name {
            AnyName::Narrow([name]) if *name >= 100 => spot(name / 100),
            _ => home,
        };
        assert!(again.restore(&words, spot_of));
        assert_eq!(again.get(home, &[8]), Some(Count::exact(10, 2)));
        let mut larger = Crown::new(2 * GROUP * WAYS);
        let more = [words, vec![0; 3 * GROUP * WAYS]].concat();
        assert!(!larger.restore(&more, |_| last), "not its bucket");
        // It stays until what belongs there is heavier.
        assert_eq!(crown.lightest::<Narrow>(last), 4);
        for name in 0..8u64 {
            crown.admit(last, &[400 + name], Count::exact(20, 1), &mut evicted);
        }
        assert_eq!(crown.get(home, &[8]), None);
    }

    /// A wide name leaves an empty slot when a narrow one takes its place.
    #[test]
    fn a_floor_is_never_above_what_is_admitted() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut crown = Crown::new(6 * WAYS);
        let mut evicted = Vec::new();
        for n in 0..20_000u64 {
            let (spot, rank) = (rng.random::<u64>(), rng.random_range(1..n / 64 + 4));
            let (narrow, wide): (Narrow, Wide) = ([n], [n, n, 1, 0]);
            let count = Count::exact(rank, 1);
            if rng.random_bool(0.5) {
                let fits = rank > crown.lightest::<Narrow>(spot);
                assert_eq!(crown.admits::<Narrow>(spot, rank), fits);
                if fits {
                    crown.admit(spot, &narrow, count, &mut evicted);
                }
            } else {
                let fits = rank > crown.lightest::<Wide>(spot);
                assert_eq!(crown.admits::<Wide>(spot, rank), fits);
                if fits {
                    crown.admit(spot, &wide, count, &mut evicted);
                }
            }
            assert!(crown.floor(spot) <= crown.lightest::<Narrow>(spot));
        }
    }

    #[test]
    fn a_pair_of_ipv4_addresses_weighs_24_bytes_and_one_of_ipv6_48() {
        assert_eq!(SLOT_BYTES, 24);
        assert_eq!(Crown::new(80).memory_bytes(), 80 * 24);
        let (mut crown, mut evicted) = (Crown::new(8), Vec::new());
        for n in 0..4 {
            crown.admit(1, &[n, 0, 0, 0], Count::exact(1, 1), &mut evicted);
        }
        assert!(
            evicted.is_empty() && crown.lightest::<Narrow>(1) == 1,
            "four fill a bucket of eight"
        );
    }

    #[test]
    fn few_large_packets_weigh_as_much_as_many_small() {
        let large = Count::exact(10, 10 * 64_000);
        let small = Count::exact(1000, 40_000);
        assert!(large.rank() > small.rank());
    }

    #[test]
    fn what_an_entry_had_before_is_rounded_to_the_safe_side() {
        for before in [
            0,
            1,
            15,
            16,
            31,
            32,
            33,
            100,
            1000,
            123_456,
            1 << 33,
            1 << 37,
        ] {
            let (mut crown, mut evicted) = (Crown::new(8), Vec::new());
            let count = Count {
                packets: (1 << 38) + before,
                earlier: before,
                slack: before.min(1 << 33),
                bytes: MOST_BYTES,
                guessed_bytes: 3 * GUESS_UNIT,
            };
            crown.admit(1, &[5], count, &mut evicted);
            let kept = crown.get(1, &[5]).unwrap();
            let Count { earlier, slack, .. } = kept;
            assert_eq!(
                Count {
                    earlier,
                    slack,
                    ..count
                },
                kept,
                "all else as it was"
            );
            assert!(
                (before..=before + before / 512).contains(&earlier),
                "{before}"
            );
            assert!(slack >= count.slack && slack <= count.slack + count.slack / 8);
            assert!(kept.counted() <= count.counted() && kept.bound() >= count.bound());
            crown.count(1, &[5], u64::MAX, u64::MAX);
            let most = crown.get(1, &[5]).unwrap();
            assert_eq!((most.packets, most.bytes), (MOST_PACKETS, MOST_BYTES));
            assert_eq!(most.bound(), u64::MAX, "no wrap, and no claim");
        }
    }
}
