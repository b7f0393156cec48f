//! `at_least` and `at_most` are never wrong: whatever the stream, in whatever
//! order, after growth and evictions, and in another process.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;

use crane_model::name::{Narrow, Wide};
use crane_model::table::Kept;
use crane_model::{
    Allowance, Amount, Arrival, Crane, DeviceChoice, Flow, PackedWeights, Profile, Secret,
};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Packets and bytes of each edge: those with an even number have short names.
type Truth = HashMap<u64, (u64, u64)>;

/// All packets of a stream: an edge and its size.
type Packets = Vec<(u64, u64)>;

fn wide(n: u64) -> Wide {
    [n, !n, 7, n << 9]
}

/// A stream with any counts, sizes and order.
fn draw(rng: &mut Xoshiro256PlusPlus) -> Packets {
    let edges: u64 = rng.random_range(200..6000);
    let skew = rng.random_range(0.3..1.5);
    let mut packets = Vec::new();
    for edge in 0..edges {
        let count =
            1 + (f64::from(rng.random_range(1..4000)) / (1.0 + edge as f64).powf(skew)) as u64;
        let size = 60 + rng.random_range(0..1440);
        let varies = rng.random_range(1..=size);
        packets.extend((0..count).map(|_| (edge, size + rng.random_range(0..varies))));
    }
    match rng.random_range(0..4) {
        // As they are: each edge at a stretch, heaviest first.
        0 => {}
        // Lightest first, so that all that are heavy evict others.
        1 => packets.reverse(),
        // Round and round.
        2 => packets.sort_by_key(|(edge, size)| (size % 10, *edge)),
        _ => packets.shuffle(rng),
    }
    packets
}

fn fold<N: Kept + Eq + std::hash::Hash>(
    secret: &Secret,
    packets: impl Iterator<Item = (N, u64)>,
) -> Vec<Arrival<N>> {
    let mut folded: HashMap<N, (u64, u64)> = HashMap::new();
    for (name, size) in packets {
        let (count, bytes) = folded.entry(name).or_default();
        (*count, *bytes) = (*count + 1, *bytes + size);
    }
    let arrival = |(name, (count, bytes))| Arrival::new(secret, name, count, bytes);
    folded.into_iter().map(arrival).collect()
}

fn store(sketch: &mut Crane, secret: &Secret, batch: &[(u64, u64)]) {
    let (short, long): (Packets, Packets) = batch.iter().partition(|(edge, _)| edge % 2 == 0);
    let short = short.into_iter().map(|(edge, size)| ([edge], size));
    sketch.store(&fold::<Narrow>(secret, short)).unwrap();
    let long = long.into_iter().map(|(edge, size)| (wide(edge), size));
    sketch.store(&fold::<Wide>(secret, long)).unwrap();
}

fn ask(sketch: &Crane, edge: u64) -> Flow<()> {
    match edge % 2 {
        0 => sketch.flow([edge]).unwrap().rename(|_| ()),
        _ => sketch.flow(wide(edge)).unwrap().rename(|_| ()),
    }
}

fn check(amount: &Amount, truth: u64, of: &str) {
    let (least, most) = (amount.at_least.unwrap(), amount.at_most.unwrap());
    let ends = [least, amount.low, amount.estimate, amount.high, most];
    assert!(ends.is_sorted(), "{of}: {amount:?}");
    assert!(
        (least..=most).contains(&truth),
        "{of}: {truth} is outside of {amount:?}"
    );
}

fn check_all(sketch: &Crane, truth: &Truth) {
    for (edge, (packets, bytes)) in truth {
        let flow = ask(sketch, *edge);
        check(&flow.packets, *packets, "packets");
        check(&flow.bytes, *bytes, "bytes");
    }
    for absent in 1_000_000..1_000_300 {
        let flow = ask(sketch, absent);
        check(&flow.packets, 0, "packets");
        check(&flow.bytes, 0, "bytes");
        assert!(
            flow.packets.high > 0 || flow.bytes.high == 0,
            "no packets, no bytes"
        );
    }
    for flow in sketch.named::<Narrow>() {
        let (packets, bytes) = truth[&flow.key[0]];
        check(&flow.packets, packets, "packets of a heavy one");
        check(&flow.bytes, bytes, "bytes of a heavy one");
    }
}

#[test]
fn no_answer_is_ever_outside_of_what_was_guaranteed() {
    let weights = Arc::new(PackedWeights::built_in().unwrap());
    let device = DeviceChoice::Cpu.open().unwrap();
    let profile = Arc::new(Profile::packed(weights, &device));
    let (mut exact, mut layered) = (0, 0);
    for seed in 0..60 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let secret = Secret::from_seed(rng.random());
        let most = [4096, 8192, 20_000, 65_536, 1 << 19][rng.random_range(0..5)];
        let make = |start: usize| {
            let allowance = Allowance::alone(start.min(most), most);
            match start {
                0 => Crane::layered(&profile, secret, 1, Allowance::alone(most, most)).unwrap(),
                _ => Crane::new(&profile, secret, 1, allowance).unwrap(),
            }
        };
        let start = [0, 4096, 16_384][rng.random_range(0..3)];
        let mut sketch = make(start);
        let mut truth = Truth::new();
        let batch = [1, 40, 1000][rng.random_range(0..3)];
        let packets = draw(&mut rng);
        let half = packets.len() / 2;
        for (at, batch) in packets.chunks(batch).enumerate() {
            store(&mut sketch, &secret, batch);
            for (edge, size) in batch {
                let (count, bytes) = truth.entry(*edge).or_default();
                (*count, *bytes) = (*count + 1, *bytes + size);
            }
            if at == half / batch.len() {
                check_all(&sketch, &truth);
            }
        }
        check_all(&sketch, &truth);
        let mut other = make(start);
        other.load_state(&sketch.save_state().unwrap()).unwrap();
        check_all(&other, &truth);
        exact += u32::from(sketch.is_exact());
        layered += u32::from(!sketch.is_exact());
    }
    assert!(
        exact > 3 && layered > 20,
        "{exact} {layered}: both kinds were met"
    );
}
