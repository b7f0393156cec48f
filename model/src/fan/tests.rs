use super::*;
use crate::memory::Pool;
use crate::name::{Narrow, Wide};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashSet;

const SEED: u64 = 5;

fn fan(bytes: usize) -> Fan {
    Fan::new(bytes, &Secret::from_seed(SEED)).unwrap()
}

fn id(node: u32) -> u64 {
    Secret::from_seed(SEED).id(&[u64::from(node)])
}

fn record(fan: &mut Fan, pairs: &[(u32, u32)]) {
    let secret = Secret::from_seed(SEED);
    for (node, peer) in pairs {
        let pair: Narrow = [u64::from(*node) << 32 | u64::from(*peer)];
        fan.record(&[u64::from(*node)], id(*node), secret.id(&pair));
    }
}

fn name_of(node: u32) -> AnyName {
    AnyName::Narrow([u64::from(node)])
}

/// The largest nodes if no bounds are known.
fn largest(fan: &Fan, count: usize) -> Vec<(AnyName, Peers)> {
    fan.largest(count, Vec::new(), u64::MAX, |_| PeerBounds::UNBOUNDED)
        .nodes
}

/// Pairs of a few nodes with many peers and of many nodes with few.
fn ordinary(count: usize, seed: u64) -> Vec<(u32, u32)> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count)
        .map(|_| {
            let node = 20_000.0 * rng.random::<f64>().powi(3);
            (node as u32, rng.random_range(0..50_000))
        })
        .collect()
}

fn truth(pairs: &[(u32, u32)]) -> FxHashMap<u32, u64> {
    let distinct: FxHashSet<(u32, u32)> = pairs.iter().copied().collect();
    let mut truth = FxHashMap::default();
    for (node, _) in distinct {
        *truth.entry(node).or_default() += 1;
    }
    truth
}

#[test]
fn peers_are_counted_while_all_pairs_fit() {
    let pairs = ordinary(3000, 1);
    let mut fan = fan(64 << 10);
    record(&mut fan, &pairs);
    assert!(fan.keeps_pairs());
    let truth = truth(&pairs);
    for (node, peers) in &truth {
        assert_eq!(fan.answer(id(*node)), Peers::counted(*peers));
    }
    assert_eq!(fan.answer(id(999_999)), Peers::counted(0));
    let largest = largest(&fan, 10);
    let mut all: Vec<u64> = truth.into_values().collect();
    all.sort_unstable_by_key(|peers| Reverse(*peers));
    assert!(
        largest
            .iter()
            .map(|(_, peers)| peers.peers)
            .eq(all[..10].iter().copied())
    );
}

/// Few pairs in a small memory leave the upper levels without any bit.
#[test]
fn a_node_with_many_peers_stands_out_while_upper_levels_are_empty() {
    let mut missed = 0;
    for seed in 0..40 {
        let mut fan = fan(LEAST);
        record(&mut fan, &ordinary(12_000, seed));
        let node = 1_000_000 + seed as u32;
        let scan: Vec<_> = (0..2000).map(|peer| (node, peer)).collect();
        record(&mut fan, &scan);
        assert!(!fan.keeps_pairs());
        let found = fan.largest(10, Vec::new(), u64::MAX, |_| PeerBounds::UNBOUNDED);
        let is_first = found
            .nodes
            .first()
            .is_some_and(|(name, _)| *name == name_of(node));
        missed += u64::from(!is_first && found.others_at_most < 2000);
    }
    assert!(missed <= 2, "{missed} of 40");
}

#[test]
fn a_repeated_pair_changes_nothing() {
    for count in [2000, 100_000] {
        let pairs = ordinary(count, 2);
        let mut fan = fan(32 << 10);
        record(&mut fan, &pairs);
        assert_eq!(fan.keeps_pairs(), count == 2000);
        let before = fan.save_state();
        record(&mut fan, &pairs);
        assert!(fan.save_state() == before, "{count} pairs");
    }
}

#[test]
fn a_merged_fan_equals_one_that_recorded_both() {
    // Two sets of pairs that fit together, or do not; bits with pairs, and pairs with
    // bits; bits with bits.
    for (first, second) in [
        (2000, 2000),
        (6000, 6000),
        (100_000, 3000),
        (3000, 100_000),
        (100_000, 80_000),
    ] {
        let (mut first, second) = (ordinary(first, 3), ordinary(second, 4));
        // Some pairs are in both.
        first.extend(&second[..500]);
        let mut both = fan(64 << 10);
        record(&mut both, &first);
        record(&mut both, &second);
        let (mut merged, mut other) = (fan(64 << 10), fan(64 << 10));
        record(&mut merged, &first);
        record(&mut other, &second);
        merged.merge(&other).unwrap();
        assert_eq!(merged.keeps_pairs(), both.keeps_pairs());
        for node in truth(&first).keys().chain(truth(&second).keys()) {
            let (a, b) = (merged.answer(id(*node)), both.answer(id(*node)));
            assert_eq!(a, b);
        }
        assert_eq!(largest(&merged, 10), largest(&both, 10));
        let once = merged.save_state();
        merged.merge(&other).unwrap();
        assert!(merged.save_state() == once, "merging again changes nothing");
    }
    let mut one = fan(64 << 10);
    assert!(one.merge(&fan(32 << 10)).is_err());
    let foreign = Fan::new(64 << 10, &Secret::from_seed(6)).unwrap();
    assert!(one.merge(&foreign).is_err());
}

#[test]
fn a_loaded_state_answers_the_same_and_a_refused_one_changes_nothing() {
    for count in [2000, 100_000] {
        let pairs = ordinary(count, 6);
        let mut fan = fan(32 << 10);
        record(&mut fan, &pairs);
        let state = fan.save_state();
        assert!(state.len() <= fan.memory_bytes() + 100);
        let mut again = self::fan(32 << 10);
        again.load_state(&state).unwrap();
        assert_eq!(largest(&again, 50), largest(&fan, 50));
        for node in truth(&pairs).into_keys() {
            assert_eq!(again.answer(id(node)), fan.answer(id(node)));
        }
        let empty = self::fan(32 << 10).save_state();
        let refused = |fan: Fan, state: &[u8]| {
            let (mut fan, before) = (fan, empty.clone());
            let same_size = fan.memory_bytes() == again.memory_bytes();
            assert!(fan.load_state(state).is_err());
            assert!(!same_size || fan.check != again.check || fan.save_state() == before);
        };
        let whole = || self::fan(32 << 10);
        refused(whole(), &state[..state.len() - 8]);
        refused(whole(), &state[..40]);
        refused(whole(), &state[1..]);
        refused(whole(), &[&state[..], &[0; 8]].concat());
        refused(self::fan(64 << 10), &state);
        let foreign = Fan::new(32 << 10, &Secret::from_seed(7)).unwrap();
        refused(foreign, &state);
        let mut wrong = state.clone();
        wrong[16] = 9;
        refused(whole(), &wrong);
        // A set without a free word, in which a search would never end.
        let mut endless = state.clone();
        endless[16] = 0;
        endless[32..32 + 8 * fan.words.len()].fill(1);
        refused(whole(), &endless);
    }
}

#[test]
fn a_growing_fan_continues_from_a_saved_state() {
    let secret = Secret::from_seed(SEED);
    let growing = || Fan::growing(Allowance::alone(LEAST, 64 << 10), &secret).unwrap();
    for count in [0, 1, 2000, 100_000] {
        let pairs = ordinary(count, 6);
        let mut fan = growing();
        record(&mut fan, &pairs[..count.min(pairs.len())]);
        let state = fan.save_state();
        let mut again = growing();
        again.load_state(&state).unwrap();
        assert!(again.save_state() == state, "{count} pairs");
        assert_eq!(again.memory_bytes(), fan.memory_bytes());
        // Both behave the same afterwards.
        let more = ordinary(3000, 7);
        record(&mut fan, &more);
        record(&mut again, &more);
        assert!(again.save_state() == fan.save_state(), "{count} pairs");
        let mut small = Fan::growing(Allowance::alone(LEAST, LEAST), &secret).unwrap();
        assert_eq!(small.load_state(&state).is_ok(), count < 2);
    }
}

/// A damaged state causes no panic and takes no more memory than allowed.
#[test]
fn a_damaged_state_is_refused_or_can_be_queried() {
    let secret = Secret::from_seed(SEED);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for count in [1, 2000, 100_000] {
        let mut fan = Fan::growing(Allowance::alone(LEAST, 64 << 10), &secret).unwrap();
        record(&mut fan, &ordinary(count, 6)[..]);
        let state = fan.save_state();
        for _ in 0..300 {
            let mut damaged = state.clone();
            // Half of the changes are in the header.
            let most = [48, state.len()][random.random_range(0..2)];
            damaged[random.random_range(0..most)] ^= 1 << random.random_range(0..8);
            let mut again = Fan::growing(Allowance::alone(LEAST, 64 << 10), &secret).unwrap();
            if again.load_state(&damaged).is_ok() {
                largest(&again, 10);
                again.answer(id(1));
                record(&mut again, &ordinary(500, 8));
            }
            assert!(again.memory_bytes() <= 64 << 10);
        }
    }
}

#[test]
fn memory_does_not_depend_on_the_traffic() {
    for bytes in [LEAST, 10_000, 32 << 10, 100_000, 1 << 20] {
        let mut fan = fan(bytes);
        let before = fan.memory_bytes();
        record(&mut fan, &ordinary(150_000, 8));
        assert_eq!(fan.memory_bytes(), before);
        assert!(before <= bytes && before + 8 > bytes, "{before} of {bytes}");
        assert!(fan.save_state().len() <= bytes + 4096);
    }
    assert!(Fan::new(LEAST - 1, &Secret::from_seed(1)).is_err());
}

/// A scan among ordinary traffic, and a flood from many sources to one node.
#[test]
fn a_scan_and_a_flood_are_listed_first_with_accurate_numbers() {
    for (many, bytes) in [
        (50_000, 64 << 10),
        (500_000, 64 << 10),
        (500_000, 256 << 10),
    ] {
        let mut fan = fan(bytes);
        let others = ordinary(200_000, 9);
        let (early, late) = others.split_at(100_000);
        record(&mut fan, early);
        // As many nodes with one peer each as the flood has sources.
        let single: Vec<(u32, u32)> = (0..many).map(|n| (1_000_000 + n, 7)).collect();
        record(&mut fan, &single);
        let scan: Vec<(u32, u32)> = (0..many).map(|n| (30_000, n)).collect();
        record(&mut fan, &scan);
        record(&mut fan, late);
        let largest = largest(&fan, 10);
        let (name, peers) = largest[0];
        assert_eq!(name, AnyName::Narrow([30_000]));
        let ratio = peers.peers as f64 / f64::from(many);
        assert!(
            (0.9..1.1).contains(&ratio),
            "{peers:?} of {many} in {bytes}"
        );
        assert!(peers.low < peers.peers && peers.peers < peers.high);
        assert_eq!(fan.answer(id(30_000)), peers);
    }
}

#[test]
fn short_and_long_names_are_listed_together() {
    let secret = Secret::from_seed(SEED);
    let mut fan = fan(64 << 10);
    record(&mut fan, &ordinary(100_000, 10));
    // Two nodes whose names differ only in their length.
    let (wide, narrow): (Wide, Narrow) = ([70_000, 5, 0, 0], [70_000]);
    for peer in 0..60_000u64 {
        let pair: Wide = [70_000, 5, peer, 1];
        fan.record(&wide, secret.id(&wide), secret.id(&pair));
        if peer < 40_000 {
            fan.record(
                &narrow,
                secret.id(&narrow),
                secret.id(&[70_000 << 32 | peer]),
            );
        }
    }
    let names: Vec<AnyName> = largest(&fan, 2).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [wide.any(), narrow.any()]);
}

#[test]
fn nine_in_ten_intervals_hold_for_every_order_of_magnitude() {
    let pairs = ordinary(150_000, 11);
    for bytes in [32 << 10, 128 << 10] {
        let mut fan = fan(bytes);
        record(&mut fan, &pairs);
        assert!(!fan.keeps_pairs());
        let truth = truth(&pairs);
        for band in [1..=1, 2..=9, 10..=99, 100..=u64::MAX] {
            let nodes = truth.iter().filter(|(_, peers)| band.contains(peers));
            let held: Vec<bool> = nodes
                .map(|(node, peers)| {
                    let answer = fan.answer(id(*node));
                    assert!(answer.low <= answer.peers && answer.peers <= answer.high);
                    (answer.low..=answer.high).contains(peers)
                })
                .collect();
            let share = held.iter().filter(|held| **held).count() as f64 / held.len() as f64;
            assert!(held.len() > 50, "{band:?} has {}", held.len());
            // Allows for random variation.
            let chance = 2.0 * (0.09 / held.len() as f64).sqrt();
            assert!(share >= 0.9 - chance, "{share} of {band:?} in {bytes}");
        }
    }
}

/// The bits of a node itself do not count as noise. In the upper levels, where a node is
/// nearly alone, every answer would be too low otherwise.
#[test]
fn a_node_that_fills_its_levels_is_estimated_without_bias() {
    let many = 200_000u64;
    let ratio = |seed: u64| {
        let secret = Secret::from_seed(seed);
        let mut fan = Fan::new(64 << 10, &secret).unwrap();
        let id = secret.id(&[9]);
        (0..many).for_each(|peer| fan.record(&[9], id, secret.id(&[9 << 32 | peer])));
        fan.answer(id).peers as f64 / many as f64
    };
    // The standard error is 2 %, so 0.7 % for the mean of ten.
    let mean = (0..10).map(ratio).sum::<f64>() / 10.0;
    assert!((0.98..1.02).contains(&mean), "{mean}");
}

/// Memory is taken as pairs arrive, and a fan that has grown is as accurate as one that
/// was large from the start.
#[test]
fn a_growing_fan_takes_memory_on_demand_and_answers_the_same() {
    let secret = Secret::from_seed(SEED);
    for (count, most) in [(2000, 64 << 10), (100_000, 64 << 10)] {
        let mut grown = Fan::growing(Allowance::alone(LEAST, most), &secret).unwrap();
        assert_eq!(grown.memory_bytes(), 0, "nothing before it is needed");
        assert_eq!(grown.answer(id(1)), Peers::default());
        assert!(largest(&grown, 10).is_empty());
        let pairs = ordinary(count, 12);
        record(&mut grown, &pairs[..1]);
        assert!(grown.memory_bytes() <= 2 << 10);
        record(&mut grown, &pairs);
        let mut large = fan(most);
        record(&mut large, &pairs);
        assert_eq!(grown.keeps_pairs(), large.keeps_pairs());
        match grown.keeps_pairs() {
            true => assert!(grown.memory_bytes() <= most / 2),
            false => assert_eq!(grown.memory_bytes(), large.memory_bytes()),
        }
        for node in truth(&pairs).into_keys() {
            let (a, b) = (grown.answer(id(node)), large.answer(id(node)));
            assert_eq!(a, b);
        }
        assert_eq!(largest(&grown, 10), largest(&large, 10));
    }
}

#[test]
fn the_smallest_memory_is_enough_when_the_pool_is_empty() {
    let secret = Secret::from_seed(SEED);
    let pool = Pool::new(20 << 10);
    let mut first = Fan::growing(Allowance::new(LEAST, 1 << 20, &pool), &secret).unwrap();
    let mut second = Fan::growing(Allowance::new(LEAST, 1 << 20, &pool), &secret).unwrap();
    let scan: Vec<(u32, u32)> = (0..20_000).map(|n| (30_000, n)).collect();
    for fan in [&mut first, &mut second] {
        record(fan, &scan);
        let (name, peers) = largest(fan, 1)[0];
        assert_eq!(name, AnyName::Narrow([30_000]));
        assert!((16_000..24_000).contains(&peers.peers), "{peers:?}");
    }
    assert_eq!(pool.free(), 0);
    assert!(first.memory_bytes() <= LEAST + (20 << 10));
    assert!(second.memory_bytes() <= LEAST);
    drop(first);
    assert_eq!(pool.free(), 20 << 10);
    assert!(Fan::growing(Allowance::new(LEAST - 1, 1 << 20, &pool), &secret).is_err());
}

#[test]
fn an_interval_below_the_guaranteed_bounds_keeps_its_width() {
    let estimate = Peers {
        peers: 12,
        low: 0,
        high: 40,
        exact: false,
    };
    let within = |at_least, at_most| {
        let peers = estimate.within(PeerBounds { at_least, at_most });
        (peers.low, peers.peers, peers.high)
    };
    assert_eq!(within(100, 1000), (100, 100, 140));
    assert_eq!(within(100, 120), (100, 100, 120));
    assert_eq!(within(100, 100), (100, 100, 100));
    assert_eq!(within(30, 1000), (30, 30, 40), "a part is possible");
    assert_eq!(within(0, 10), (0, 10, 10));
}
