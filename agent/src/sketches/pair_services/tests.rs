//! The table without a sketch: which services have an entry, and the counts of entries.

use std::collections::HashMap;

use crane_model::Arrival;

use super::*;
use crate::traffic::batch::Batch;
use crate::traffic::edge::{Edge, Pair};
use crate::traffic::protocol::Protocol;
use crate::traffic::service::Service;
use crate::traffic::slot::Slot;

fn secret() -> Secret {
    Secret::from_seed(1)
}

fn services(memory: usize) -> PairServices {
    PairServices::new(secret(), Allowance::alone(LEAST, memory))
}

fn service(port: u16) -> Service {
    Service::between(Protocol::Tcp, port, port)
}

fn count<N: Kind>(services: &mut PairServices, name: N, port: u16, packets: u64) {
    let part = Part {
        service: service(port),
        packets,
        bytes: 100 * packets,
    };
    let arrival = Arrival::new(&secret(), name, packets, 0);
    services.count(name, arrival.id, part);
}

/// Service, certain packets, possible packets and bytes; heaviest first.
fn found(services: &PairServices, name: &AnyName) -> Vec<(u16, u64, u64, u64)> {
    let record = services.of(name);
    let row = |known: &Known| {
        let port = known.service.port().unwrap();
        (port, known.counted(), known.packets, known.bytes)
    };
    let mut rows: Vec<_> = record.services().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.2));
    rows
}

#[test]
fn three_services_are_exact_and_a_fourth_replaces_the_lightest() {
    let mut table = services(64 << 10);
    let pair: Wide = [1, 2, 3, 4];
    for (port, packets) in [(22, 100), (80, 10), (443, 50), (80, 5)] {
        count(&mut table, pair, port, packets);
    }
    let three = [
        (22, 100, 100, 10_000),
        (443, 50, 50, 5000),
        (80, 15, 15, 1500),
    ];
    assert_eq!(found(&table, &pair.any()), three);
    assert_eq!(table.of(&pair.any()).unlisted(), 0);
    // The fourth service comes last, with nine tenths of all packets.
    for _ in 0..1485 {
        count(&mut table, pair, 53, 1);
    }
    let four = [
        (53, 1485, 1500, 148_500),
        (22, 100, 100, 10_000),
        (443, 50, 50, 5000),
    ];
    assert_eq!(found(&table, &pair.any()), four);
    let record = table.of(&pair.any());
    assert_eq!((record.packets(), record.unlisted()), (1650, 15));
    // The replaced service comes back: it may have had the packets that it inherits, and no more.
    count(&mut table, pair, 80, 1);
    assert_eq!(found(&table, &pair.any())[2], (80, 1, 51, 100));
    assert_eq!(table.of(&pair.any()).packets(), 1651);
    table.forget(&pair.any());
    assert_eq!(table.of(&pair.any()).packets(), 0);
}

#[test]
fn a_scan_of_all_ports_takes_three_entries() {
    let mut table = services(16 << 10);
    for pair in 0..400u64 {
        count(&mut table, [pair], 443, 1);
    }
    for port in 0..=u16::MAX {
        count(&mut table, [1000], port, 1);
    }
    assert_eq!(table.entries().count(), 403);
    assert!((0..400).all(|pair| found(&table, &[pair].any()) == [(443, 1, 1, 100)]));
    let record = table.of(&[1000].any());
    assert_eq!(record.packets(), 1 << 16);
    assert!(record.counted() < 10 && record.unlisted() <= 65_536 / 3 + 65);
}

#[test]
fn heavy_pairs_that_come_late_get_entries_in_a_full_table() {
    let memory = 16 << 10;
    let mut table = services(memory);
    for pair in 0..100_000u64 {
        count(&mut table, [pair], 80, 1 + pair % 3);
    }
    assert!(table.memory_bytes() <= memory && table.memory_bytes() > memory * 9 / 10);
    assert!(table.entries().count() > table.memory_bytes() / 24 * 95 / 100);
    let heavy = 1_000_000..1_000_050u64;
    for round in 0..1000u64 {
        for pair in heavy.clone() {
            count(&mut table, [pair], pair as u16, 1);
            count(&mut table, [2_000_000 + 50 * round + pair], 80, 1);
        }
    }
    for pair in heavy {
        let (port, counted, packets, _) = found(&table, &[pair].any())[0];
        assert_eq!((port, packets), (pair as u16, counted));
        assert!((900..=1000).contains(&counted), "{counted} of pair {pair}");
    }
    let state = table.save();
    assert!(state.len() <= table.memory_bytes() + 64);
    let mut again = services(memory);
    assert!(again.load(&state) && again.save() == state);
    for pair in 0..1000u64 {
        // The sequence of random numbers continues as well.
        count(&mut table, [pair], 8080, 1);
        count(&mut again, [pair], 8080, 1);
    }
    assert!(again.save() == table.save() && table.save() != state);
    assert!(!again.load(&state[..state.len() - 1]) && !again.load(&[]));
    assert!(!again.load(&[&state[..], &[0]].concat()));
    assert!(!services(LEAST).load(&state));
    let mut impossible = state;
    impossible[16..24].fill(0xff);
    assert!(!services(memory).load(&impossible));
}

#[test]
fn a_batch_counts_every_packet_for_its_service() {
    let mut batch = Batch::default();
    let mut truth: HashMap<(Pair, Service), (u64, u64)> = HashMap::new();
    let mut slots = Vec::new();
    for n in 0..9000u32 {
        let pair = match n % 4 {
            // A scan, a pair with a few services in turns, and others.
            0 => Pair::V4(1.into(), 2.into()),
            1 => Pair::V6(1.into(), 2.into()),
            _ => Pair::V4(1.into(), (n % 500).into()),
        };
        let service = match n % 4 {
            0 => service(n as u16),
            1 => service((n / 4 % 7) as u16),
            _ if n % 9 == 0 => Service::FRAGMENT,
            _ => service(443),
        };
        let edge = Edge {
            name: pair.name(),
            service,
            bytes: n,
            time: 0,
        };
        Slot::write(&edge, &mut slots);
        let (packets, bytes) = truth.entry((pair, service)).or_default();
        (*packets, *bytes) = (*packets + 3, *bytes + 3 * u64::from(n));
    }
    batch.fold(&secret(), &slots, 3);
    let mut folded: HashMap<(Pair, Service), (u64, u64)> = HashMap::new();
    let mut add = |name: AnyName, part: Part| {
        let sum = folded
            .entry((Pair::of_name(name), part.service))
            .or_default();
        *sum = (sum.0 + part.packets, sum.1 + part.bytes);
    };
    for (at, pair) in batch.pairs.narrow.arrivals().iter().enumerate() {
        batch
            .pairs
            .narrow
            .services(at)
            .for_each(|part| add(pair.name.any(), part));
    }
    for (at, pair) in batch.pairs.wide.arrivals().iter().enumerate() {
        batch
            .pairs
            .wide
            .services(at)
            .for_each(|part| add(pair.name.any(), part));
    }
    assert_eq!(folded, truth);
    let mut table = services(1 << 20);
    table.store(&batch.pairs.narrow);
    table.store(&batch.pairs.wide);
    let mut sum = 0;
    for (name, known) in table.entries() {
        sum += known.packets;
        let true_packets = truth.get(&(Pair::of_name(name), known.service)).unwrap().0;
        assert!((known.counted()..=known.packets).contains(&true_packets));
    }
    assert_eq!(sum, 27_000, "no packet is missing");
}
