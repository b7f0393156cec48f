//! Sums over networks that are chosen after the stream was stored: nine in ten are within
//! their interval, none is outside its guaranteed bounds, they have no bias, and the sum
//! over all edges is exact after admissions and evictions.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crane_model::name::AnyName;
use crane_model::{
    Allowance, Amount, Arrival, Crane, DeviceChoice, Flow, PackedWeights, PaperWeights, Profile,
    Secret, Writes,
};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashMap;

/// Source and destination; those with an odd source have long names.
type Pair = (u32, u32);
type Truth = FxHashMap<Pair, (u64, u64)>;

/// A network for each side, given by the first bits of the address.
#[derive(Debug, Clone, Copy)]
struct Networks {
    pair: Pair,
    bits: [u32; 2],
}

impl Networks {
    fn hold(&self, (src, dst): Pair) -> bool {
        let same = |a: u32, b: u32, bits: u32| (a ^ b).leading_zeros() >= bits;
        same(self.pair.0, src, self.bits[0]) && same(self.pair.1, dst, self.bits[1])
    }
}

fn pair_of(name: AnyName) -> Pair {
    match name {
        AnyName::Narrow([name]) => ((name >> 32) as u32, name as u32),
        AnyName::Wide([_, src, _, dst]) => (src as u32, dst as u32),
    }
}

fn packed() -> Arc<Profile> {
    let weights = Arc::new(PackedWeights::built_in().unwrap());
    let device = DeviceChoice::Cpu.open().unwrap();
    Arc::new(Profile::packed(weights, &device))
}

fn paper() -> Arc<Profile> {
    let weights = Arc::new(PaperWeights::random(1, 4, Writes::Every));
    let device = DeviceChoice::Cpu.open().unwrap();
    Arc::new(Profile::paper(weights, &device).unwrap())
}

/// An address in a skewed address space: few different first bytes, more of the others.
fn address(rng: &mut Xoshiro256PlusPlus) -> u32 {
    let near =
        |rng: &mut Xoshiro256PlusPlus, most: f64| (rng.random::<f64>().powi(3) * most) as u32;
    let bytes = [
        near(rng, 256.0),
        near(rng, 64.0),
        near(rng, 64.0),
        near(rng, 256.0),
    ];
    bytes.iter().fold(0, |address, byte| address << 8 | byte)
}

/// A stream in which a few pairs are heavy and most are not, of small and large
/// packets, in bursts: batches of packets, and all counts.
fn stream(seed: u64, pairs: usize) -> (Vec<Vec<(Pair, u64)>>, Truth) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bursts: Vec<(Pair, u64)> = Vec::new();
    for rank in 1..=pairs {
        let pair = (address(&mut rng), address(&mut rng));
        let size = [60, 60, 200, 1400][rng.random_range(0..4)];
        let packets = 1 + (20_000.0 / (rank as f64).powf(0.9)) as usize;
        bursts.extend((0..packets.div_ceil(3)).map(|_| (pair, size)));
    }
    bursts.shuffle(&mut rng);
    let mut truth = Truth::default();
    let mut batches = Vec::new();
    for bursts in bursts.chunks(500) {
        let mut batch = Vec::new();
        for (pair, size) in bursts {
            for _ in 0..rng.random_range(1..6) {
                let size = size + rng.random_range(0..40);
                batch.push((*pair, size));
                let (packets, bytes) = truth.entry(*pair).or_default();
                (*packets, *bytes) = (*packets + 1, *bytes + size);
            }
        }
        batches.push(batch);
    }
    (batches, truth)
}

fn store(sketch: &mut Crane, secret: &Secret, batch: &[(Pair, u64)]) {
    let mut folded = Truth::default();
    for (pair, size) in batch {
        let (packets, bytes) = folded.entry(*pair).or_default();
        (*packets, *bytes) = (*packets + 1, *bytes + size);
    }
    let mut folded: Vec<_> = folded.into_iter().collect();
    folded.sort_unstable();
    let (long, short): (Vec<_>, Vec<_>) =
        folded.into_iter().partition(|((src, _), _)| src % 2 == 1);
    let short = short.into_iter().map(|((src, dst), (packets, bytes))| {
        let name = [u64::from(src) << 32 | u64::from(dst)];
        Arrival::new(secret, name, packets, bytes)
    });
    sketch.store(&short.collect::<Vec<_>>()).unwrap();
    let long = long.into_iter().map(|((src, dst), (packets, bytes))| {
        let name = [7, src.into(), 7, dst.into()];
        Arrival::new(secret, name, packets, bytes)
    });
    sketch.store(&long.collect::<Vec<_>>()).unwrap();
}

/// Networks of all sizes: half of them around a pair chosen by packets, half around a pair
/// chosen uniformly.
fn questions(seed: u64, truth: &Truth, batches: &[Vec<(Pair, u64)>]) -> Vec<Networks> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut pairs: Vec<Pair> = truth.keys().copied().collect();
    pairs.sort_unstable();
    (0..200)
        .map(|n| {
            let batch = &batches[rng.random_range(0..batches.len())];
            let pair = match n % 2 {
                0 => batch[rng.random_range(0..batch.len())].0,
                _ => pairs[rng.random_range(0..pairs.len())],
            };
            let bits = [rng.random_range(4..=24), rng.random_range(4..=24)];
            Networks { pair, bits }
        })
        .collect()
}

fn ask(sketch: &Crane, networks: &Networks) -> Flow<()> {
    sketch.sum(&|name| networks.hold(pair_of(name)))
}

fn is_within_interval(amount: &Amount, truth: u64, of: &Networks) -> bool {
    let (least, most) = (amount.at_least.unwrap(), amount.at_most.unwrap());
    assert!(
        least <= truth && truth <= most,
        "{of:?}: {amount:?}, {truth}"
    );
    assert!(
        least <= amount.low && amount.high <= most,
        "{of:?}: {amount:?}"
    );
    amount.low <= truth && truth <= amount.high
}

fn sum(truth: &Truth, networks: &Networks) -> (u64, u64) {
    let inside = truth.iter().filter(|(pair, _)| networks.hold(**pair));
    inside.fold((0, 0), |(packets, bytes), (_, (p, b))| {
        (packets + p, bytes + b)
    })
}

/// A sketch that has stored the whole stream and outgrown its table.
fn filled(
    profile: &Arc<Profile>,
    memory: usize,
    secret: Secret,
    batches: &[Vec<(Pair, u64)>],
) -> Crane {
    let allowance = Allowance::alone(profile.least(), memory);
    let mut sketch = Crane::new(profile, secret, 3, allowance)
        .unwrap()
        .with_sample();
    for batch in batches {
        store(&mut sketch, &secret, batch);
        assert!(sketch.memory_bytes() <= memory, "{}", sketch.memory_bytes());
    }
    assert!(!sketch.is_exact());
    sketch
}

#[test]
fn nine_sums_in_ten_are_inside_their_interval_and_all_inside_the_guaranteed_bounds() {
    for (profile, memory, pairs) in [
        (packed(), 32 << 10, 4000),
        (packed(), 128 << 10, 20_000),
        (paper(), 64 << 10, 8000),
    ] {
        let (mut hits, mut wrong, mut asked) = ([0; 2], 0.0, 0);
        for seed in 0..3 {
            let (batches, truth) = stream(seed, pairs);
            let sketch = filled(&profile, memory, Secret::from_seed(seed), &batches);
            let all = sketch.total().packets.estimate as f64;
            for networks in questions(seed, &truth, &batches) {
                let (packets, bytes) = sum(&truth, &networks);
                let flow = ask(&sketch, &networks);
                hits[0] += usize::from(is_within_interval(&flow.packets, packets, &networks));
                hits[1] += usize::from(is_within_interval(&flow.bytes, bytes, &networks));
                wrong += (flow.packets.estimate as f64 - packets as f64) / all;
                asked += 1;
            }
        }
        let shares = hits.map(|hits| hits as f64 / f64::from(asked));
        assert!(
            shares.iter().all(|share| *share >= 0.9),
            "{memory}: {shares:?}"
        );
        assert!(wrong.abs() / f64::from(asked) < 0.002, "{memory}: {wrong}");
    }
}

#[test]
fn a_large_share_is_accurate_and_a_part_and_its_complement_add_up() {
    let (batches, truth) = stream(5, 20_000);
    let sketch = filled(&packed(), 1 << 18, Secret::from_seed(1), &batches);
    let all: (u64, u64) = sum(
        &truth,
        &Networks {
            pair: (0, 0),
            bits: [0, 0],
        },
    );
    let total = sketch.total();
    assert_eq!(total.packets, Amount::exact(all.0));
    assert_eq!(total.bytes, Amount::exact(all.1));
    for bits in 1..8 {
        let networks = Networks {
            pair: (0, 0),
            bits: [bits, 0],
        };
        let (packets, _) = sum(&truth, &networks);
        let flow = ask(&sketch, &networks);
        let share = packets as f64 / all.0 as f64;
        let error = flow.packets.estimate as f64 / packets as f64 - 1.0;
        assert!(
            error.abs() < 0.15 * (0.01 / share).sqrt().max(0.1) * 3.0,
            "{share} {error}"
        );
        let rest = sketch.sum(&|name| !networks.hold(pair_of(name)));
        assert!((flow.packets.estimate + rest.packets.estimate).abs_diff(all.0) <= 1);
        assert!((flow.bytes.estimate + rest.bytes.estimate).abs_diff(all.1) <= 1);
    }
}

#[test]
fn while_all_pairs_fit_sums_are_exact() {
    let (batches, truth) = stream(2, 500);
    let secret = Secret::from_seed(1);
    let allowance = Allowance::alone(1 << 20, 1 << 20);
    let mut sketch = Crane::new(&packed(), secret, 3, allowance)
        .unwrap()
        .with_sample();
    batches
        .iter()
        .for_each(|batch| store(&mut sketch, &secret, batch));
    for networks in questions(1, &truth, &batches) {
        let (packets, bytes) = sum(&truth, &networks);
        let flow = ask(&sketch, &networks);
        assert_eq!(flow.packets, Amount::exact(packets));
        assert_eq!(flow.bytes, Amount::exact(bytes));
    }
}

#[test]
fn sums_are_reproducible_also_from_a_saved_state() {
    let (batches, truth) = stream(4, 4000);
    let (profile, secret) = (packed(), Secret::from_seed(9));
    let sketch = filled(&profile, 32 << 10, secret, &batches);
    let state = sketch.save_state().unwrap();
    assert!(state.len() <= sketch.memory_bytes() + 4096);
    let allowance = Allowance::alone(profile.least(), 32 << 10);
    let mut other = Crane::new(&profile, secret, 3, allowance).unwrap();
    assert!(other.load_state(&state).is_err(), "it has no sample");
    let mut other = other.with_sample();
    other.load_state(&state).unwrap();
    let again = filled(&profile, 32 << 10, secret, &batches);
    for networks in questions(1, &truth, &batches) {
        let flow = ask(&sketch, &networks);
        assert_eq!(flow, ask(&other, &networks));
        assert_eq!(flow, ask(&again, &networks));
    }
}

/// Pairs that were heavy at first and were evicted by heavier ones.
#[test]
fn packets_of_evicted_edges_are_included_in_sums() {
    const RUNS: u64 = 20;
    let morning = |n: u32| (10 << 24 | n << 1, n);
    let noon = |n: u32| (20 << 24 | n << 1, n);
    let light = |n: u32| (30 << 24 | n << 1, n);
    let mut batches = vec![(0..4000).map(|n| (light(n), 60)).collect::<Vec<_>>()];
    for (pair, rounds) in [(morning as fn(u32) -> Pair, 50), (noon, 200)] {
        let packets = (0..400).map(|n| (pair(n), 100));
        batches.extend((0..rounds).map(|_| packets.clone().collect::<Vec<_>>()));
    }
    let asked = [
        (morning(0), 400 * 50),
        (noon(0), 400 * 200),
        (light(0), 4000),
    ];
    let (mut sums, mut hits) = ([0; 3], 0);
    for seed in 0..RUNS {
        let sketch = filled(&packed(), 32 << 10, Secret::from_seed(seed), &batches);
        for ((pair, packets), sum) in asked.into_iter().zip(&mut sums) {
            let networks = Networks { pair, bits: [8, 0] };
            let amount = ask(&sketch, &networks).packets;
            hits += u64::from(is_within_interval(&amount, packets, &networks));
            *sum += amount.estimate;
        }
    }
    assert!(hits >= 3 * RUNS * 8 / 10, "{hits}");
    for ((_, packets), sum) in asked.into_iter().zip(sums) {
        let mean = sum as f64 / RUNS as f64;
        let error = mean / packets as f64 - 1.0;
        assert!(error.abs() < 0.15, "{mean}, {packets}");
    }
}

/// Each edge is in the groups of both its ends, once if they are the same.
#[test]
fn sums_of_groups_are_the_sums_of_each() {
    let secret = Secret::from_seed(1);
    let group = |address: u32| Some(address >> 26).filter(|group| *group != 3);
    for (pairs, memory) in [(500, 1 << 20), (6000, 64 << 10)] {
        let (batches, truth) = stream(2, pairs);
        let allowance = Allowance::alone(memory / 8, memory);
        let mut sketch = Crane::new(&packed(), secret, 3, allowance)
            .unwrap()
            .with_sample();
        batches
            .iter()
            .for_each(|batch| store(&mut sketch, &secret, batch));
        assert_eq!(sketch.is_exact(), pairs == 500);
        let (flows, rest) = sketch.sums(&|name| {
            let (src, dst) = pair_of(name);
            [group(src), group(dst)]
        });
        assert!(flows.len() > 5, "{}", flows.len());
        assert_eq!((rest.packets, rest.bytes) == (0, 0), sketch.is_exact());
        for one in 0..64 {
            let holds = |(src, dst): Pair| group(src) == Some(one) || group(dst) == Some(one);
            let sum = sketch.sum(&|name| holds(pair_of(name)));
            let of_one = truth.iter().filter(|(pair, _)| holds(**pair));
            let packets: u64 = of_one.map(|(_, (packets, _))| packets).sum();
            match flows.iter().find(|flow| flow.key == one) {
                Some(flow) => {
                    assert_eq!((flow.packets, flow.bytes), (sum.packets, sum.bytes));
                    assert!(flow.packets.at_least.unwrap() <= packets, "{one}");
                    assert!(flow.packets.at_most.unwrap() >= packets, "{one}");
                }
                None => assert!(packets <= rest.packets, "{one}"),
            }
        }
    }
}
