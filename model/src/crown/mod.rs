//! The crown: a small keyed table of the heaviest edges, counted by name.
//!
//! Buckets of eight places; a name lives in the bucket its id leads to, and
//! only the lightest entry of that bucket ever has to make room. Finding,
//! counting and admitting look at one bucket: O(8), no heap, no second index. A
//! place is 24 bytes, which hold a pair of IPv4 addresses with its counts; a
//! pair of IPv6 addresses takes two places.

mod bucket;
mod count;

use bucket::{Bucket, Place, WIDE, begins, entry, find, lightest, packed, words};

use crate::name::{AnyName, Name};

pub use bucket::{MOST_BYTES, PLACE, WAYS};
pub use count::{BYTES_PER_PACKET, Count};

/// The table. See the head of this module.
pub struct Crown {
    buckets: Vec<Bucket>,
    /// The rank that everyone has to exceed, whatever is there.
    threshold: u64,
}

impl Crown {
    /// A crown of `places` places, rounded up to whole buckets.
    pub fn new(places: usize) -> Self {
        Self {
            buckets: vec![Bucket::default(); places.max(1).div_ceil(WAYS)],
            threshold: 0,
        }
    }

    /// One that its floor keeps everyone out of: what is a crown worth?
    pub fn closed(self) -> Self {
        Self {
            threshold: u64::MAX,
            ..self
        }
    }

    fn at(&self, spot: u64) -> usize {
        ((u128::from(spot) * self.buckets.len() as u128) >> 64) as usize
    }

    fn bucket(&self, spot: u64) -> &Bucket {
        &self.buckets[self.at(spot)]
    }

    fn bucket_mut(&mut self, spot: u64) -> &mut Bucket {
        let at = self.at(spot);
        &mut self.buckets[at]
    }

    /// Reads a little of the names in a bucket, so that they are near when they are
    /// wanted: many such reads are under way at the same time.
    #[inline]
    pub fn touch(&self, spot: u64) -> u64 {
        self.bucket(spot).touch()
    }

    /// Counts an arrival if the edge is here, and says whether it is. `spot`
    /// is what [`crate::codes::Codes::spot`] makes of its id.
    #[inline]
    pub fn count<N: Name>(&mut self, spot: u64, name: &N, packets: u64, bytes: u64) -> bool {
        let bucket = self.bucket_mut(spot);
        let found = find(bucket, name);
        if let Some(at) = found {
            let mut place = bucket.place(at);
            place.add(packets, bytes);
            bucket.set(at, place);
        }
        found.is_some()
    }

    /// No entry ranks below this, 0 while there is room. Most edges are far
    /// below it.
    pub fn floor(&self) -> u64 {
        let ranks = self.buckets.iter();
        let ranks = ranks.map(|bucket| lightest::<crate::name::Narrow>(bucket).1);
        ranks.min().unwrap_or(0).max(self.threshold)
    }

    /// The rank that a name of this kind has to exceed to be admitted, 0 while
    /// there is room.
    #[inline(always)]
    pub fn lightest<N: Name>(&self, spot: u64) -> u64 {
        lightest::<N>(self.bucket(spot)).1
    }

    /// Admits an edge; `gone` gets who had to go.
    pub fn admit<N: Name>(
        &mut self,
        spot: u64,
        name: &N,
        count: Count,
        gone: &mut Vec<(AnyName, Count)>,
    ) {
        let bucket = self.bucket_mut(spot);
        let (at, _) = lightest::<N>(bucket);
        let [count, bytes] = packed(&count);
        match name.any() {
            AnyName::Narrow([name]) => {
                gone.extend(entry(bucket, at));
                if bucket.place(at).is_wide() {
                    bucket.set(at + 1, Place::default());
                }
                bucket.set(at, Place { name, count, bytes });
            }
            AnyName::Wide([first, b, c, d]) => {
                gone.extend(entry(bucket, at));
                gone.extend(entry(bucket, at + 1));
                let count = count | WIDE;
                let (name, rest) = (first, [b, c, d]);
                bucket.set(at, Place { name, count, bytes });
                bucket.set(at + 1, Place::of_words(rest));
            }
        }
    }

    /// The count of an edge, if it is here.
    pub fn get<N: Name>(&self, spot: u64, name: &N) -> Option<Count> {
        let bucket = self.bucket(spot);
        find(bucket, name).map(|at| bucket.place(at).count())
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (AnyName, Count)> {
        let buckets = self.buckets.iter();
        buckets.flat_map(|bucket| (0..WAYS).filter_map(|at| entry(bucket, at)))
    }

    /// Places, taken or not.
    pub fn places(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// What it weighs.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * WAYS * PLACE
    }

    /// All places as numbers, as they are.
    pub(crate) fn to_words(&self) -> impl Iterator<Item = u64> {
        let places = self.buckets.iter().flat_map(Bucket::places);
        places.flat_map(words)
    }

    /// Continues from saved places; says whether they can be its own.
    pub(crate) fn restore(&mut self, all: &[u64]) -> bool {
        let (places, rest) = all.as_chunks::<3>();
        let places: Vec<Place> = places.iter().copied().map(Place::of_words).collect();
        let (buckets, left) = places.as_chunks::<WAYS>();
        let buckets: Vec<Bucket> = buckets.iter().map(Bucket::new).collect();
        let whole = rest.is_empty() && left.is_empty() && buckets.len() == self.buckets.len();
        // A name that goes on in the next place begins at an even one, which
        // is also what is known of it.
        let possible = |bucket: &Bucket| {
            (0..WAYS).filter(|at| begins(bucket, *at)).all(|at| {
                let place = bucket.place(at);
                (at.is_multiple_of(2) || !place.is_wide())
                    && (place.count == 0 || place.packets() > 0)
            })
        };
        let fits = whole && buckets.iter().all(possible);
        if fits {
            self.buckets = buckets;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::bucket::{GUESS_UNIT, MOST_PACKETS};
    use super::*;
    use crate::name::{Narrow, Wide};
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn the_lightest_goes_and_the_rest_is_exact() {
        let mut crown = Crown::new(8);
        let mut gone = Vec::new();
        for name in 0..8u64 {
            let count = Count::exact(10 + name, 100);
            assert!(!crown.count(1, &[name], 1, 1), "it is not here yet");
            crown.admit(1, &[name], count, &mut gone);
            assert!(gone.is_empty());
        }
        assert_eq!(crown.floor(), 10);
        assert!(crown.count(1, &[3], 1, 1));
        assert!(!crown.count(1, &[99], 1, 1));
        assert_eq!(crown.lightest::<Narrow>(1), 10);
        crown.admit(1, &[99], Count::exact(50, 60), &mut gone);
        assert_eq!(gone, [(AnyName::Narrow([0]), Count::exact(10, 100))]);
        assert_eq!(crown.get(1, &[3]), Some(Count::exact(14, 101)));
        assert_eq!(crown.get(1, &[0]), None);
        assert_eq!(crown.entries().count(), 8);
    }

    /// Against a list that does the same the slow way.
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
            let mut gone = Vec::new();
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
                        AnyName::Wide(wide) => crown.admit(7, &wide, count, &mut gone),
                        AnyName::Narrow(narrow) => crown.admit(7, &narrow, count, &mut gone),
                    }
                    for (_, count) in &gone {
                        assert!(count.rank() <= limit);
                    }
                    known.retain(|entry| !gone.contains(entry));
                    known.push((name, count));
                    let places = |(name, _): &(AnyName, Count)| match name {
                        AnyName::Wide(_) => 2,
                        AnyName::Narrow(_) => 1,
                    };
                    assert!(known.iter().map(places).sum::<usize>() <= WAYS);
                }
            }
            let mut entries: Vec<_> = crown.entries().collect();
            entries.sort_unstable_by_key(|(name, _)| *name);
            known.sort_unstable_by_key(|(name, _)| *name);
            assert_eq!(entries, known);
        }
        let words: Vec<u64> = crown.to_words().collect();
        let mut again = Crown::new(crown.places());
        assert!(again.restore(&words));
        assert!(again.entries().eq(crown.entries()));
        assert!(!again.restore(&words[1..]));
    }

    #[test]
    fn a_pair_of_ipv4_addresses_weighs_24_bytes_and_one_of_ipv6_48() {
        assert_eq!(PLACE, 24);
        assert_eq!(Crown::new(80).memory_bytes(), 80 * 24);
        let (mut crown, mut gone) = (Crown::new(8), Vec::new());
        for n in 0..4 {
            crown.admit(1, &[n, 0, 0, 0], Count::exact(1, 1), &mut gone);
        }
        assert!(
            gone.is_empty() && crown.floor() == 1,
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
            let (mut crown, mut gone) = (Crown::new(8), Vec::new());
            let count = Count {
                packets: (1 << 38) + before,
                earlier: before,
                slack: before.min(1 << 33),
                bytes: MOST_BYTES,
                guessed_bytes: 3 * GUESS_UNIT,
            };
            crown.admit(1, &[5], count, &mut gone);
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
