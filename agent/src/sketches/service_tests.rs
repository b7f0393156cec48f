//! Guaranteed bounds of services hold for any stream: with any number of services per pair, in any
//! order, after growth, evictions and loading, and with sampling. Lists and answers agree.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::config::size::Size;
use crate::sketches::fans::Direction;
use crate::traffic::batch::Batch;
use crate::traffic::edge::Edge;
use crate::traffic::endpoint::{Between, Endpoint, KnownNetworks};
use crate::traffic::protocol::Protocol;
use crate::traffic::question::By;
use crate::traffic::service::filter::ServiceFilter;
use crate::traffic::slot::Slot;
use crate::traffic::tally::{Ignored, Tally};
use crane_model::{Amount, Scratch};

/// Packets of a stream, in their order.
type Packets = Vec<(Pair, Service, u32)>;

/// True packets and bytes of each pair and service.
type Truth = HashMap<(Pair, Service), (u64, u64)>;

fn service(n: u32) -> Service {
    match n {
        0 => Service::FRAGMENT,
        1 => Service::of(Protocol::Icmp),
        n if n.is_multiple_of(5) => Service::between(Protocol::Udp, n as u16, n as u16),
        n => Service::between(Protocol::Tcp, n as u16, n as u16),
    }
}

fn pair(n: u32) -> Pair {
    match n % 4 {
        3 => Pair::V6(u128::from(n % 50).into(), (u128::from(n) << 64).into()),
        _ => Pair::V4((0x0a00_0000 + n % 40).into(), (0xc000_0200 + n).into()),
    }
}

/// A stream with random counts, numbers of services, packet sizes and order.
fn random_packets(rng: &mut Xoshiro256PlusPlus, most_services: u32) -> Packets {
    let pairs = rng.random_range(50..3000);
    let skew = rng.random_range(0.3..1.5);
    let mut packets = Vec::new();
    for n in 0..pairs {
        let count = 1 + (f64::from(rng.random_range(1..3000)) / f64::from(1 + n).powf(skew)) as u32;
        let services = rng.random_range(1..=most_services);
        let first = rng.random_range(0..30);
        let heavy = rng.random_range(0.0..1.0);
        for at in 0..count {
            // One service with a random part of the packets, the others in turns.
            let one = if rng.random_bool(heavy) {
                0
            } else {
                at % services
            };
            packets.push((pair(n), service(first + one), rng.random_range(60..1500)));
        }
    }
    match rng.random_range(0..4) {
        0 => {}
        1 => packets.reverse(),
        // Sorted by service, so that some services of a pair come late.
        2 => packets.sort_by_key(|(_, service, bytes)| (*service, *bytes)),
        _ => packets.shuffle(rng),
    }
    packets
}

struct Made {
    blueprint: Blueprint,
    budget: Budget,
    scale: u64,
    tally: Arc<Tally>,
}

impl Made {
    fn new(memory: u64, secret: Secret, scale: u64) -> Self {
        let config = config::Sketch {
            memory: Size(memory),
            ..Default::default()
        };
        let blueprint = Blueprint::new(&config, secret).unwrap();
        Self {
            budget: Budget::new(&config, 1, 1, blueprint.least()).unwrap(),
            blueprint,
            scale,
            tally: Arc::default(),
        }
    }

    fn empty(&self) -> Sketches {
        let sampling = Sampling::new(self.scale, Arc::clone(&self.tally), 0);
        self.blueprint.build(&self.budget, 0, sampling).unwrap()
    }

    fn store(&self, sketches: &mut Sketches, packets: &[(Pair, Service, u32)], batch: &mut Batch) {
        let mut slots = Vec::new();
        for (pair, service, bytes) in packets {
            let edge = Edge {
                name: pair.name(),
                service: *service,
                bytes: *bytes,
                time: 0,
            };
            Slot::write(&edge, &mut slots);
        }
        batch.fold(self.blueprint.secret(), &slots, self.scale);
        sketches.store(batch, &mut Scratch::default()).unwrap();
    }
}

fn check(amount: &Amount, truth: u64, of: &str) {
    let least = amount.at_least.unwrap_or(0);
    let most = amount.at_most.unwrap_or(u64::MAX);
    let ends = [least, amount.low, amount.estimate, amount.high, most];
    assert!(ends.is_sorted(), "{of}: {amount:?}");
    let holds = (least..=most).contains(&truth);
    assert!(holds, "{of}: {truth} is outside of {amount:?}");
}

fn check_flow<K>(flow: &Flow<K>, (packets, bytes): (u64, u64), of: &str) {
    check(&flow.packets, packets, of);
    check(&flow.bytes, bytes, of);
    assert!(flow.packets.at_most != Some(0) || flow.bytes.at_most == Some(0));
}

/// Numbers of services do not add up to more than those of all services together.
fn check_parts<K, L>(parts: &[Flow<K>], all: &Flow<L>) {
    for (number, of) in [
        ((|flow| flow.packets) as fn(&Flow<K>) -> Amount, all.packets),
        (|flow| flow.bytes, all.bytes),
    ] {
        let sum =
            |what: fn(Amount) -> u64| parts.iter().map(|part| what(number(part))).sum::<u64>();
        assert!(sum(|a| a.estimate) <= of.estimate, "{of:?}");
        assert!(
            sum(|a| a.at_least.unwrap_or(0)) <= of.at_least.unwrap_or(0),
            "{of:?}"
        );
        let most = of.at_most.unwrap_or(u64::MAX);
        assert!(
            parts
                .iter()
                .all(|part| number(part).at_most.unwrap_or(0) <= most)
        );
    }
}

fn sum_of(truth: &Truth, matches: impl Fn(&Pair, Service) -> bool) -> (u64, u64) {
    let matching = truth
        .iter()
        .filter(|((pair, service), _)| matches(pair, *service));
    matching.fold((0, 0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1))
}

/// Asks about services of pairs, addresses, networks and all traffic. Returns the share of exact
/// answers about pairs.
fn ask(sketches: &Sketches, truth: &Truth, rng: &mut Xoshiro256PlusPlus) -> f64 {
    let pairs: BTreeSet<Pair> = truth.keys().map(|(pair, _)| *pair).collect();
    let mut pairs: Vec<Pair> = pairs.into_iter().collect();
    pairs.shuffle(rng);
    let (mut asked, mut exact) = (0, 0);
    let filters = [
        "7", "tcp/7", "udp", "fragment", "icmp", "10", "tcp", "https", "9999", "dns",
    ];
    let filters = filters.map(|text| text.parse::<ServiceFilter>().unwrap());
    for pair in pairs.iter().take(150) {
        let ends =
            Between::new(Endpoint::Address(pair.src()), Endpoint::Address(pair.dst())).unwrap();
        let services = truth.keys().filter(|(one, _)| one == pair).map(|(_, s)| *s);
        let whole = sketches.pair(*pair).unwrap();
        let mut parts = Vec::new();
        for one in services {
            let filter = ServiceFilter::one(one);
            let flow = sketches
                .between_for(&ends, &filter, &KnownNetworks::default())
                .unwrap();
            check_flow(&flow, truth[&(*pair, one)], &format!("{pair} {one}"));
            asked += 1;
            exact += u32::from(flow.packets.is_exact() && flow.bytes.is_exact());
            parts.push(flow);
        }
        check_parts(&parts, &whole);
        for filter in &filters {
            let flow = sketches
                .between_for(&ends, filter, &KnownNetworks::default())
                .unwrap();
            let truth = sum_of(truth, |one, service| one == pair && filter.matches(service));
            check_flow(&flow, truth, &format!("{pair} {filter}"));
        }
        // A row of the list has the same numbers as the answer.
        let listed = sketches
            .services_between(&ends, &KnownNetworks::default(), 10, By::Packets)
            .unwrap();
        assert!(listed.len() <= pair_services::MOST);
        for row in &listed {
            let asked = sketches
                .between_for(
                    &ends,
                    &ServiceFilter::one(row.key),
                    &KnownNetworks::default(),
                )
                .unwrap();
            assert_eq!((row.packets, row.bytes), (asked.packets, asked.bytes));
        }
        check_parts(&listed, &whole);
    }
    for (src, dst) in [
        ("*", "*"),
        ("10.0.0.0/27", "*"),
        ("*", "192.0.2.0/24"),
        ("10.0.0.3", "*"),
        ("*", "192.0.2.5"),
        ("::/0", "*"),
        ("10.0.0.3", "192.0.2.0/25"),
        ("172.16.0.0/12", "*"),
    ] {
        let ends = Between::new(src.parse().unwrap(), dst.parse().unwrap()).unwrap();
        let networks = KnownNetworks::default();
        let matches = ends.pairs(&networks);
        for filter in &filters {
            let flow = sketches
                .between_for(&ends, filter, &KnownNetworks::default())
                .unwrap();
            let truth = sum_of(truth, |pair, service| {
                matches(*pair) && filter.matches(service)
            });
            check_flow(&flow, truth, &format!("{src} {dst} {filter}"));
        }
        let listed = sketches
            .services_between(&ends, &KnownNetworks::default(), 10, By::Packets)
            .unwrap();
        for row in &listed {
            let filter = ServiceFilter::one(row.key);
            let asked = sketches
                .between_for(&ends, &filter, &KnownNetworks::default())
                .unwrap();
            assert_eq!((row.packets, row.bytes), (asked.packets, asked.bytes));
        }
        if (src, dst) != ("*", "*") {
            check_parts(
                &listed,
                &sketches.between(&ends, &KnownNetworks::default()).unwrap(),
            );
        }
    }
    for direction in [Direction::Out, Direction::Into] {
        let ip = match direction {
            Direction::Out => "10.0.0.3",
            Direction::Into => "192.0.2.3",
        };
        let ip: std::net::IpAddr = ip.parse().unwrap();
        let (one, any) = (Endpoint::Address(ip), Endpoint::Any);
        let (src, dst) = match direction {
            Direction::Out => (one, any),
            Direction::Into => (any, one),
        };
        let ends = Between { src, dst };
        let listed = sketches
            .services_between(&ends, &KnownNetworks::default(), 20, By::Bytes)
            .unwrap();
        check_parts(&listed, &sketches.address(ip, direction).unwrap());
        for row in &listed {
            let of_ip = |pair: &Pair| match direction {
                Direction::Out => pair.src() == ip,
                Direction::Into => pair.dst() == ip,
            };
            let truth = sum_of(truth, |pair, service| of_ip(pair) && service == row.key);
            check_flow(row, truth, "an address");
        }
    }
    // Rows of the list of services have the same numbers as answers.
    for row in &sketches.heaviest_services(30).by_packets.flows {
        check_flow(
            row,
            sum_of(truth, |_, service| service == row.key),
            "a service",
        );
        let all = Between::new("*".parse().unwrap(), "*".parse().unwrap()).unwrap();
        let asked = sketches
            .between_for(
                &all,
                &ServiceFilter::one(row.key),
                &KnownNetworks::default(),
            )
            .unwrap();
        assert_eq!((row.packets, row.bytes), (asked.packets, asked.bytes));
    }
    for filter in &filters {
        let list = sketches.heaviest_pairs_for(filter, 20).unwrap();
        let listed: BTreeMap<Pair, Flow<Pair>> = list.union().map(|row| (row.key, *row)).collect();
        for (pair, row) in &listed {
            let truth = sum_of(truth, |one, service| one == pair && filter.matches(service));
            check_flow(row, truth, "a pair of a service");
            let ends =
                Between::new(Endpoint::Address(pair.src()), Endpoint::Address(pair.dst())).unwrap();
            let asked = sketches
                .between_for(&ends, filter, &KnownNetworks::default())
                .unwrap();
            assert_eq!((row.packets, row.bytes), (asked.packets, asked.bytes));
        }
        let others = pairs
            .iter()
            .filter(|pair| !list.by_packets.flows.iter().any(|row| row.key == **pair));
        for pair in others.take(200) {
            let truth = sum_of(truth, |one, service| one == pair && filter.matches(service));
            let promised = list.by_packets.others_at_most;
            assert!(
                sketches.sampling().is_sampled() || truth.0 <= promised,
                "{truth:?} {promised}"
            );
        }
    }
    f64::from(exact) / f64::from(asked)
}

fn run(seed: u64, memory: u64, most_services: u32, scale: u64) -> (bool, f64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let secret = match seed % 2 {
        0 => Secret::from_seed(seed),
        _ => Secret::new([seed as u8; 16]),
    };
    let made = Made::new(memory, secret, scale);
    let mut sketches = made.empty();
    let packets = random_packets(&mut rng, most_services);
    let (mut truth, mut batch) = (Truth::new(), Batch::default());
    let size = [1, 17, 500, 4096][rng.random_range(0..4)];
    let saved_at = rng.random_range(0..packets.len());
    let mut stored = Vec::new();
    for (at, packet) in packets.iter().enumerate() {
        let (pair, service, bytes) = *packet;
        let (packets, sum) = truth.entry((pair, service)).or_default();
        (*packets, *sum) = (*packets + 1, *sum + u64::from(bytes));
        if scale > 1 && !rng.random_ratio(1, scale as u32) {
            made.tally.ignore(Ignored::Sampled, 1);
        } else {
            stored.push(*packet);
        }
        if stored.len() == size {
            made.store(&mut sketches, &stored, &mut batch);
            stored.clear();
        }
        if at == saved_at {
            let state = sketches.save().unwrap();
            sketches = made.empty();
            sketches.load(&state).unwrap();
            assert!(sketches.save().unwrap() == state);
        }
    }
    made.store(&mut sketches, &stored, &mut batch);
    assert!(sketches.memory_bytes() as u64 <= memory);
    let exact = ask(&sketches, &truth, &mut rng);
    (sketches.is_exact(), exact)
}

#[test]
fn bounds_hold_and_answers_agree_for_any_stream() {
    let mut layered = 0;
    for seed in 0..12 {
        for (memory, services) in [(4 << 20, 3), (4 << 20, 40), (128 << 10, 3), (80 << 10, 40)] {
            let (is_exact, exact) = run(seed, memory, services, 1);
            assert!(is_exact || memory < 4 << 20);
            layered += u32::from(!is_exact);
            if memory == 4 << 20 && services == 3 {
                assert_eq!(exact, 1.0, "up to three services of a pair are exact");
            }
        }
    }
    assert!(layered >= 10, "only {layered} of 48 streams need layers");
}

#[test]
fn bounds_hold_with_sampling() {
    for seed in 0..6 {
        run(seed, 4 << 20, 5, 8);
        run(seed, 100 << 10, 5, 8);
    }
}

#[test]
fn services_of_networks_are_those_with_most_bytes_if_asked_for() {
    let made = Made::new(4 << 20, Secret::from_seed(1), 1);
    let (mut sketches, mut batch) = (made.empty(), Batch::default());
    let [many, large] = [service(7), service(8)];
    let packets = [vec![(pair(1), many, 60); 9], vec![(pair(2), large, 1500)]];
    made.store(&mut sketches, &packets.concat(), &mut batch);
    let ends = Between::new("10.0.0.0/8".parse().unwrap(), "*".parse().unwrap()).unwrap();
    for (by, expected) in [(By::Packets, many), (By::Bytes, large)] {
        for top in [1, 2] {
            let rows = sketches.services_between(&ends, &KnownNetworks::default(), top, by);
            assert_eq!(rows.unwrap()[0].key, expected, "{by:?}, {top}");
        }
    }
}
