//! Lists of fan-out and fan-in of streams with and without a scan: intervals hold for listed
//! addresses, the upper bound for all others holds, and answers to questions agree with both.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crane_model::{Scratch, Secret};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::config::size::Size;
use crate::sketches::fan_lists::{FanList, Notable, NotableKind};
use crate::sketches::fans::Direction;
use crate::traffic::batch::Batch;
use crate::traffic::edge::Edge;
use crate::traffic::slot::Slot;

const TOP: usize = 10;

/// Error of the number of peers with one pair per bit, see `crane_model::fan`.
const NOISE: u64 = 18;

/// Source and destination of each packet, in order.
type Stream = Vec<(u32, u32)>;

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// `count` packets, 60 % of them of new pairs, the others of 1,000 pairs.
fn forged(count: usize, seed: u64) -> Stream {
    let mut rng = rng(seed);
    let known: Stream = (0..1000).map(|_| rng.random()).collect();
    let packet = |_| match rng.random_bool(0.6) {
        true => rng.random(),
        false => known[rng.random_range(0..known.len())],
    };
    (0..count).map(packet).collect()
}

/// Each of `sources` addresses sends to four destinations.
fn four_each(sources: u32, seed: u64) -> Stream {
    let mut rng = rng(seed);
    let mut stream: Stream = (0..4 * sources)
        .map(|n| {
            (
                0x0a00_0000 + n / 4,
                0xc0a8_0000 + rng.random_range(0..4096) * 4 + n % 4,
            )
        })
        .collect();
    shuffle(&mut stream, &mut rng);
    stream
}

fn shuffle(stream: &mut Stream, rng: &mut Xoshiro256PlusPlus) {
    for at in (1..stream.len()).rev() {
        stream.swap(at, rng.random_range(0..=at));
    }
}

/// Ordinary traffic of `pairs` pairs: sources with a few to some tens of
/// destinations, several packets each.
fn ordinary(pairs: usize, seed: u64) -> Stream {
    let mut rng = rng(seed);
    let sources = (pairs / 10).max(20) as f64;
    let mut stream = Stream::new();
    for _ in 0..pairs {
        let source = (sources * rng.random::<f64>().powf(1.3)) as u32;
        let pair = (
            0x0a00_0000 + source,
            0xc633_0000 + rng.random_range(0..20_000),
        );
        let packets = 1 + (1.0 / rng.random::<f64>().max(0.01)) as usize / 4;
        stream.extend(std::iter::repeat_n(pair, packets));
    }
    shuffle(&mut stream, &mut rng);
    stream
}

/// A stream with a scan of `many` destinations among its packets.
fn with_scan(stream: Stream, many: u32) -> Stream {
    let step = (stream.len() / many as usize).max(1);
    let mut scan = (0..many).map(|n| (0x0a42_0001, n.wrapping_mul(2_654_435_761)));
    let mut both = Stream::new();
    for packets in stream.chunks(step) {
        both.extend(packets);
        both.extend(scan.next());
    }
    both.extend(scan);
    both
}

fn store(stream: &Stream, memory: u64, seed: u64) -> Sketches {
    let config = config::Sketch {
        memory: Size(memory),
        ..Default::default()
    };
    let blueprint = Blueprint::new(&config, Secret::from_seed(seed)).unwrap();
    let budget = Budget::new(&config, 1, 1, blueprint.least()).unwrap();
    let mut sketches = blueprint
        .build(&budget, 0, Sampling::new(1, Arc::default(), 0))
        .unwrap();
    let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
    for packets in stream.chunks(4096) {
        let mut slots = Vec::new();
        for (src, dst) in packets {
            let edge = Edge {
                name: Pair::V4((*src).into(), (*dst).into()).name(),
                service: Service::FRAGMENT,
                bytes: 100,
                time: 0,
            };
            Slot::write(&edge, &mut slots);
        }
        batch.fold(blueprint.secret(), &slots, 1);
        sketches.store(&mut batch, &mut scratch).unwrap();
    }
    sketches
}

/// The true number of peers of each address, in each direction.
fn truth(stream: &Stream) -> [BTreeMap<IpAddr, u64>; 2] {
    let pairs: BTreeSet<(u32, u32)> = stream.iter().copied().collect();
    let mut truth = [BTreeMap::new(), BTreeMap::new()];
    for (src, dst) in pairs {
        for (end, node) in [src, dst].into_iter().enumerate() {
            let ip = IpAddr::from(Ipv4Addr::from(node));
            *truth[end].entry(ip).or_default() += 1;
        }
    }
    truth
}

/// Counts over all lists of a kind of stream.
#[derive(Debug, Default)]
struct Seen {
    lists: usize,
    rows: usize,
    held: usize,
    too_high: usize,
    promises_held: usize,
    promises_near: usize,
    large: usize,
    large_listed: usize,
    /// The largest upper bound for others, and the true number in that list.
    promise: (u64, u64),
}

impl Seen {
    fn add(&mut self, list: &FanList, truth: &BTreeMap<IpAddr, u64>) {
        self.lists += 1;
        for node in &list.nodes {
            let peers = truth[&node.ip];
            self.rows += 1;
            self.held += usize::from((node.peers.low..=node.peers.high).contains(&peers));
            self.too_high += usize::from(node.peers.peers > 3 * peers);
        }
        let listed: BTreeSet<IpAddr> = list.nodes.iter().map(|node| node.ip).collect();
        let others = truth.iter().filter(|(ip, _)| !listed.contains(ip));
        let most = others.map(|(_, peers)| *peers).max().unwrap_or(0);
        let promise = list.others_at_most.unwrap();
        self.promises_held += usize::from(most <= promise);
        self.promises_near += usize::from(promise <= 2 * most + NOISE);
        self.promise = self.promise.max((promise, most));
        if list.nodes.len() < TOP {
            let large = truth.iter().filter(|(_, peers)| **peers > 2 * promise);
            for (ip, _) in large {
                self.large += 1;
                self.large_listed += usize::from(listed.contains(ip));
            }
        }
    }
}

/// Number of seeds to test: `few`, or that of the environment variable `FAN_SEEDS`.
fn seeds(few: u64) -> u64 {
    let given = std::env::var("FAN_SEEDS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(few)
}

fn judge(kind: &str, seeds: u64, memory: u64, stream: impl Fn(u64) -> Stream) -> Seen {
    let mut seen = Seen::default();
    for seed in 0..seeds {
        let stream = stream(seed);
        let sketches = store(&stream, memory, 1000 + seed);
        let (lists, truth) = (sketches.largest_fans(TOP), truth(&stream));
        seen.add(&lists.out, &truth[0]);
        seen.add(&lists.into, &truth[1]);
        agree(&sketches, &lists.out, &stream, &truth);
    }
    println!("{kind} in {memory}: {seen:?}");
    seen
}

/// Answers about listed addresses are those of the list; those about others are within its upper
/// bound.
fn agree(sketches: &Sketches, out: &FanList, stream: &Stream, truth: &[BTreeMap<IpAddr, u64>; 2]) {
    for node in &out.nodes {
        let asked = sketches.peers(node.ip, Direction::Out);
        assert_eq!(asked, node.peers);
    }
    let promise = out.others_at_most.unwrap();
    for (src, _) in stream.iter().step_by(stream.len() / 50) {
        let ip = IpAddr::from(Ipv4Addr::from(*src));
        let asked = sketches.peers(ip, Direction::Out);
        let packets = sketches.address(ip, Direction::Out).unwrap();
        assert!(asked.high <= packets.packets.at_most.unwrap(), "{asked:?}");
        assert!(asked.low <= asked.peers && asked.peers <= asked.high);
        assert!(asked.high > 0, "{ip} was seen");
        let had_any = packets.packets.at_least > Some(0);
        assert!(asked.peers > 0 || !had_any, "{ip}: {asked:?}, {packets:?}");
        let likely = packets.packets.estimate;
        let agrees = (likely.min(1)..=likely.max(asked.low)).contains(&asked.peers);
        assert!(agrees, "{ip}: {asked:?}, {packets:?}");
        if !out.nodes.iter().any(|node| node.ip == ip) {
            assert!(asked.high <= promise, "{asked:?} exceeds {promise}");
        }
        if asked.exact {
            assert_eq!(asked.peers, truth[0][&ip]);
        }
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn intervals_and_upper_bounds_of_fan_lists_hold_for_many_streams() {
    let all = [
        // A window has 3.5 MiB by default.
        judge("forged", seeds(2), 4 * MIB, |seed| forged(1_000_000, seed)),
        judge("four each", seeds(2), 4 * MIB, |seed| {
            four_each(30_000, seed)
        }),
        judge("four each", seeds(3), MIB / 2, |seed| {
            four_each(30_000, seed)
        }),
        judge("ordinary", seeds(2), 4 * MIB, |seed| {
            ordinary(200_000, seed)
        }),
        judge("ordinary", seeds(3), MIB / 2, |seed| ordinary(20_000, seed)),
        judge("permutation", seeds(2), 4 * MIB, |seed| {
            permutation(300_000, seed)
        }),
        judge("permutation", seeds(3), MIB / 2, |seed| {
            permutation(40_000, seed)
        }),
    ];
    for seen in all {
        assert!(10 * seen.held >= 9 * seen.rows, "{seen:?}");
        assert_eq!(seen.too_high, 0, "{seen:?}");
        assert!(20 * seen.promises_held >= 19 * seen.lists, "{seen:?}");
        assert!(10 * seen.promises_near >= 9 * seen.lists, "{seen:?}");
        assert!(20 * seen.large_listed >= 19 * seen.large, "{seen:?}");
    }
}

/// 3,000 pairs of 400 packets, 40,000 pairs of one packet, then ten pairs of 760.
fn late(seed: u64) -> Stream {
    let mut heavy: Stream = (0..3000)
        .flat_map(|n| std::iter::repeat_n((0x0a00_0000 + n, 0xc000_0000 + n), 400))
        .collect();
    shuffle(&mut heavy, &mut rng(seed));
    heavy.extend((0..40_000).map(|n| (0x0c00_0000 + n, 0xc200_0000 + n)));
    let again = (0..10).flat_map(|n| std::iter::repeat_n((0x0b00_0000 + n, 0xc100_0000 + n), 760));
    heavy.extend(again);
    heavy
}

/// Every source has one destination of its own.
fn permutation(count: u32, seed: u64) -> Stream {
    let mut stream: Stream = (0..count)
        .map(|n| (0x0a00_0000 + n, 0xc000_0000 + n))
        .collect();
    shuffle(&mut stream, &mut rng(seed));
    stream
}

/// Pairs and their ends are counted in different sketches.
#[test]
fn an_address_has_no_less_than_its_pairs_and_a_pair_no_more_than_its_ends() {
    let streams = [
        (late(1), MIB / 8),
        (late(2), MIB / 2),
        (permutation(300_000, 1), MIB),
        (ordinary(20_000, 1), MIB / 8),
    ];
    for (stream, memory) in streams {
        let sketches = store(&stream, memory, 1);
        let listed = sketches.heaviest_pairs(20);
        assert!(listed.union().count() >= 10);
        for flow in listed.union() {
            assert_eq!(*flow, sketches.pair(flow.key).unwrap());
            let (src, dst) = (flow.key.src(), flow.key.dst());
            for (ip, direction) in [(src, Direction::Out), (dst, Direction::Into)] {
                let end = sketches.address(ip, direction).unwrap();
                for (pair, end) in [(flow.packets, end.packets), (flow.bytes, end.bytes)] {
                    assert!(pair.at_most <= end.at_most, "{flow:?} {end:?}");
                    assert!(pair.at_least <= end.at_least, "{flow:?} {end:?}");
                    assert!(pair.estimate <= end.estimate, "{flow:?} {end:?}");
                }
            }
        }
        for direction in [Direction::Out, Direction::Into] {
            for flow in sketches.heaviest_addresses(20, direction).union() {
                assert_eq!(*flow, sketches.address(flow.key, direction).unwrap());
            }
        }
    }
}

#[test]
fn a_scan_is_first_in_fan_out_and_notable_beside_any_traffic() {
    type Make = fn(u64) -> Stream;
    let streams: [(&str, u32, Make); 3] = [
        ("office", 300, |seed| ordinary(3000, seed)),
        ("busy", 2000, |seed| ordinary(200_000, seed)),
        ("flood", 50_000, |seed| forged(1_000_000, seed)),
    ];
    for (kind, many, stream) in streams {
        for seed in 0..seeds(1) {
            let sketches = store(&with_scan(stream(seed), many), 2 * MIB, seed);
            let lists = sketches.largest_fans(TOP);
            let first = lists.out.nodes[0];
            assert_eq!(first.ip, IpAddr::from([10, 66, 0, 1]), "{kind}");
            let ratio = first.peers.peers as f64 / f64::from(many);
            assert!((0.75..1.25).contains(&ratio), "{kind}: {first:?} of {many}");
            assert!(
                first.peers.low <= many.into(),
                "{kind}: {first:?} of {many}"
            );
            assert_eq!(lists.notable[0].node, first, "{kind}");
            assert_eq!(lists.notable[0].kind, NotableKind::Scan, "{kind}");
        }
    }
}

/// A bulk flow of the scanner increases the mean number of packets of its pairs.
#[test]
fn a_scanner_with_a_bulk_flow_is_still_a_scan() {
    for pairs in [3000, 200_000] {
        let mut stream = with_scan(ordinary(pairs, 1), 2000);
        stream.extend(std::iter::repeat_n((0x0a42_0001, 0x0808_0808), 50_000));
        let lists = store(&stream, 2 * MIB, 1).largest_fans(TOP);
        assert_eq!(lists.notable.len(), 1);
        assert_eq!(lists.notable[0].kind, NotableKind::Scan, "{pairs} pairs");
    }
}

/// 2,000 random pairs, and packets of `sources` to `many` random destinations each.
fn beside_few(sources: u32, many: usize, packets: usize) -> Stream {
    let mut rng = rng(1);
    let mut stream: Stream = (0..2000).map(|_| rng.random()).collect();
    for n in 0..sources {
        let destinations: Vec<u32> = (0..many).map(|_| rng.random()).collect();
        let sent = destinations.repeat(packets);
        stream.extend(sent.into_iter().map(|to| (0x0a42_0000 + n, to)));
    }
    shuffle(&mut stream, &mut rng);
    stream
}

/// Scanners are not compared with each other.
#[test]
fn many_scanners_alike_are_notable() {
    for (sources, memory) in [
        (10, 32 * MIB),
        (12, 32 * MIB),
        (40, 32 * MIB),
        (12, 2 * MIB),
        (40, 2 * MIB),
        (150, 4 * MIB),
    ] {
        let sketches = store(&beside_few(sources, 2000, 1), memory, 1);
        let notable = sketches.largest_fans(TOP).notable;
        let of = format!("{sources} in {memory}, exact: {}", sketches.is_exact());
        assert_eq!(notable.len(), (sources as usize).min(2 * TOP), "{of}");
        let is_scan = |one: &Notable| {
            let IpAddr::V4(ip) = one.node.ip else {
                return false;
            };
            one.kind == NotableKind::Scan && ip.octets()[..2] == [10, 66]
        };
        assert!(notable.iter().all(is_scan), "{of}: {notable:?}");
        assert!(notable.is_sorted_by_key(|one| std::cmp::Reverse(one.node.peers.peers)));
    }
}

/// Many large senders are not called scanners, and traffic without large differences neither.
#[test]
fn ordinary_addresses_are_not_notable_although_many_are_alike() {
    let mut answered = beside_few(30, 500, 1);
    answered.extend(answered.clone().iter().map(|(src, dst)| (*dst, *src)));
    let streams = [
        ("five packets each", beside_few(30, 500, 5)),
        ("answered", answered),
        ("gradual", ordinary(200_000, 1)),
        ("scaled", ordinary(20_000, 1).repeat(2)),
        ("forged", forged(300_000, 1)),
    ];
    for (kind, stream) in streams {
        for memory in [2 * MIB, 32 * MIB] {
            let lists = store(&stream, memory, 1).largest_fans(TOP);
            assert_eq!(lists.notable, [], "{kind} in {memory}");
        }
    }
}

/// The number of rows does not decide what is notable.
#[test]
fn a_scan_is_notable_also_if_servers_take_all_rows() {
    let mut stream = with_scan(Stream::new(), 1000);
    for server in 0..5 {
        let address = 0x0a00_0000 + server;
        for n in 0..2000 {
            let client = 0xc633_0000 + n;
            stream.extend([(address, client), (client, address)]);
        }
    }
    let sketches = store(&stream, 32 * MIB, 1);
    assert!(sketches.is_exact());
    for top in [1, 3, TOP, 200] {
        let lists = sketches.largest_fans(top);
        assert_eq!(lists.notable.len(), 1, "{top}");
        assert_eq!(lists.notable[0].kind, NotableKind::Scan);
        assert_eq!(lists.notable[0].node.ip, IpAddr::from([10, 66, 0, 1]));
    }
}
