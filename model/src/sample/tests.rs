use super::*;
use crate::Secret;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Offers 100 edges with different counts and sizes in parts. Edges with even names belong
/// to the set that is asked for.
fn fill(sample: &mut Sample, seed: u64) -> (Total, Total) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut all, mut belongs) = (Total::default(), Total::default());
    for n in 0..20_000u64 {
        let name = rng.random_range(0..100u64);
        let packets = match n % 500 {
            0 => 500,
            _ => rng.random_range(1..4),
        };
        let bytes = packets * (60 + 14 * name);
        match name % 10 {
            3 | 4 => sample.offer(&[name, 7, 7, 7], packets, bytes),
            _ => sample.offer(&[name], packets, bytes),
        }
        let into = |total: &mut Total| {
            total.packets += packets;
            total.bytes += bytes;
        };
        into(&mut all);
        if is_asked(name) {
            into(&mut belongs);
        }
    }
    (all, belongs)
}

fn is_asked(name: u64) -> bool {
    name.is_multiple_of(5)
}

fn belongs(name: AnyName) -> bool {
    match name {
        AnyName::Narrow([name]) | AnyName::Wide([name, ..]) => is_asked(name),
    }
}

#[test]
fn sums_are_unbiased_and_within_their_interval_nine_times_in_ten() {
    let (mut packets, mut bytes, mut hits) = (0.0, 0.0, [0; 2]);
    const RUNS: u64 = 300;
    for run in 0..RUNS {
        let mut sample = Sample::new(24 * 400, Secret::from_seed(run).id(&[1]));
        let (all, truth) = fill(&mut sample, 9);
        assert!(sample.used() <= sample.memory_bytes());
        assert!(sample.used() + 48 > sample.memory_bytes(), "it is full");
        let (got_packets, got_bytes) = sample.estimate(&belongs, all);
        packets += got_packets[1] as f64 / truth.packets as f64;
        bytes += got_bytes[1] as f64 / truth.bytes as f64;
        let hit = |[low, _, high]: [u64; 3], truth| usize::from(low <= truth && truth <= high);
        hits[0] += hit(got_packets, truth.packets);
        hits[1] += hit(got_bytes, truth.bytes);
        let (rest_packets, rest_bytes) = sample.estimate(&|name| !belongs(name), all);
        assert!(rest_packets[1].abs_diff(all.packets - got_packets[1]) <= 1);
        assert!(rest_bytes[1].abs_diff(all.bytes - got_bytes[1]) <= 1);
    }
    let mean = |sum: f64| sum / RUNS as f64;
    assert!((mean(packets) - 1.0).abs() < 0.015, "{}", mean(packets));
    assert!((mean(bytes) - 1.0).abs() < 0.015, "{}", mean(bytes));
    for hits in hits {
        assert!((265..300).contains(&hits), "{hits} of {RUNS}");
    }
}

#[test]
fn a_sample_of_everything_is_exact() {
    let mut sample = Sample::new(1 << 20, 7);
    let (all, truth) = fill(&mut sample, 3);
    let (packets, bytes) = sample.estimate(&belongs, all);
    assert_eq!((packets, bytes), ([truth.packets; 3], [truth.bytes; 3]));
}

#[test]
fn a_loaded_sample_continues_as_the_saved_one() {
    let mut sample = Sample::new(24 * 100, 5);
    let (all, _) = fill(&mut sample, 1);
    let words = sample.to_words();
    assert!(8 * words.len() <= sample.memory_bytes() + 24);
    let mut again = Sample::new(24 * 100, 6);
    assert!(again.restore(&words));
    fill(&mut sample, 2);
    fill(&mut again, 2);
    assert_eq!(
        sample.estimate(&belongs, all),
        again.estimate(&belongs, all)
    );
    let mut small = Sample::new(24 * 50, 6);
    assert!(!small.restore(&words), "there is no budget");
    assert!(!again.restore(&words[..words.len() - 1]));
    assert!(!again.restore(&words[..2]));
    let mut wrong = words.clone();
    wrong[1] = f32::INFINITY.to_bits().into();
    assert!(!again.restore(&wrong), "nothing would have been kept");
}

#[test]
fn an_item_takes_24_or_48_bytes_and_holds_large_numbers() {
    assert_eq!((Item::<Narrow>::SIZE, Item::<Wide>::SIZE), (24, 48));
    for packets in [1, u64::from(u32::MAX), MOST_PACKETS] {
        let total = Total {
            packets,
            bytes: MOST_BYTES - 1,
        };
        let item = Item::new([3], 1.5, total);
        assert_eq!((item.total(), item.priority()), (total, 1.5));
    }
}

#[test]
fn a_sample_leaves_the_least_memory_to_the_other_parts() {
    assert_eq!(Sample::budget_in(1 << 20, 4096), 1 << 16);
    assert_eq!(Sample::budget_in(10_000, 4096), 64 * 24);
    assert_eq!(Sample::budget_in(5000, 4096), 904);
    let mut none = Sample::new(0, 1);
    let (all, _) = fill(&mut none, 1);
    let (packets, _) = none.estimate(&belongs, all);
    assert_eq!(packets, [0, all.packets / 2, all.packets]);
}
