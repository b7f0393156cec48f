use super::bucket::{GUESS_UNIT, MOST_PACKETS};
use super::*;
use crate::name::Wide;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[test]
fn the_lightest_entry_is_evicted_and_the_others_are_exact() {
    let mut crown = Crown::new(8);
    let mut evicted = Vec::new();
    for name in 0..8u64 {
        let count = Count::exact(10 + name, 100);
        assert!(!crown.count(1, &[name], 1, 1), "it has no entry yet");
        crown.admit(1, &[name], count, &mut evicted);
        assert!(evicted.is_empty());
    }
    assert_eq!(crown.floor(1), 0, "no edge was refused");
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
fn short_and_long_names_share_a_bucket_and_keep_their_counts() {
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
                // Heavier than the entries that it replaces.
                let count = Count::exact(limit + packets, bytes);
                let _ = match name {
                    AnyName::Wide(wide) => crown.admit(7, &wide, count, &mut evicted),
                    AnyName::Narrow(narrow) => crown.admit(7, &narrow, count, &mut evicted),
                };
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

/// Nine heavy edges belong to one bucket; all other edges of its group are light.
#[test]
fn an_edge_without_room_in_its_bucket_is_admitted_to_another_of_its_group() {
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
    // It is also found after loading a state. A state with an entry outside of its
    // group is refused.
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
    assert!(
        !larger.restore(&more, |_| last),
        "not a bucket of its group"
    );
    // It is evicted when the edges of that bucket are heavier.
    assert_eq!(crown.lightest::<Narrow>(last), 4);
    for name in 0..8u64 {
        crown.admit(last, &[400 + name], Count::exact(20, 1), &mut evicted);
    }
    assert_eq!(crown.get(home, &[8]), None);
}

/// A wide name leaves an empty slot when a narrow one takes its place.
#[test]
fn a_floor_is_never_above_the_rank_needed_for_admission() {
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
fn a_pair_of_ipv4_addresses_takes_24_bytes_and_one_of_ipv6_48() {
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
fn few_large_packets_rank_as_high_as_many_small_ones() {
    let large = Count::exact(10, 10 * 64_000);
    let small = Count::exact(1000, 40_000);
    assert!(large.rank() > small.rank());
}

#[test]
fn rounding_keeps_the_bounds_of_packets_before_the_admission() {
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
            "all other fields are unchanged"
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
        assert_eq!(
            most.bound(),
            u64::MAX,
            "the count does not wrap and has no upper bound"
        );
    }
}
