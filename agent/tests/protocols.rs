//! Exact counters of protocols: every packet with addresses is counted in exactly one of
//! them, live and in a file.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use common::frame::{FRAGMENT, GRE, IPV4, UDP, ethernet, fragment, gre, ip};
use common::packets::{self, TestPacket, v4, v6};
use common::{AGENT, arp, get, json, series, serving, write_capture, write_pcap};
use serde_json::Value;

const NAMES: [&str; 8] = [
    "tcp", "udp", "icmp", "icmpv6", "sctp", "gre", "esp", "other",
];

/// Captures with packets of every link type, with nested headers, and with malformed
/// packets.
#[test]
fn every_packet_with_addresses_is_in_one_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let mut by_link: BTreeMap<u32, Vec<TestPacket>> = BTreeMap::new();
    for packet in packets::all() {
        by_link.entry(packet.link).or_default().push(packet);
    }
    for (link, packets) in by_link {
        let frames: Vec<Vec<u8>> = packets.into_iter().map(|packet| packet.data).collect();
        let path = folder.path().join(format!("{link}.pcap"));
        write_capture(&path, link, &frames);
    }
    for config in ["", "[capture]\ndecap = \"inner\"\n"] {
        let settings = folder.path().join("agent.toml");
        std::fs::write(&settings, config).unwrap();
        let mut command = Command::new(AGENT);
        command
            .args(["replay", "-q", "--format", "json", "-c"])
            .arg(&settings);
        let report = json(&command.arg(folder.path()).output().unwrap());
        let captures = report["captures"].as_array().unwrap();
        let mut edges = 0;
        for capture in captures.iter().filter(|capture| capture["edges"] != 0) {
            let counts = capture["protocols"].as_object().unwrap().values();
            let sum: u64 = counts.map(|count| count["packets"].as_u64().unwrap()).sum();
            assert_eq!(sum, capture["edges"], "{}", capture["path"]);
            edges += sum;
        }
        assert!(edges > 100, "{edges}");
    }
}

#[test]
fn every_protocol_has_its_counters_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let frames: Vec<Vec<u8>> = vec![
        ethernet(IPV4, &ip(v4(1), 6, &[0; 20])),
        ethernet(IPV4, &ip(v4(1), 6, &[0; 30])),
        ethernet(IPV4, &ip(v4(1), UDP, &[0; 20])),
        ethernet(IPV4, &fragment(v4(2), 100, true, UDP, &[0; 16])),
        ethernet(
            common::frame::IPV6,
            &fragment(v6(2), 100, true, UDP, &[0; 16]),
        ),
        ethernet(common::frame::IPV6, &ip(v6(2), 58, &[0; 16])),
        ethernet(
            IPV4,
            &ip(v4(3), GRE, &gre(0, IPV4, &ip(v4(4), 6, &[0; 20]))),
        ),
        ethernet(common::frame::IPV6, &ip(v6(2), FRAGMENT, &[])),
        arp(),
    ];
    let path = folder.path().join("small.pcap");
    write_pcap(&path, &frames);
    let (_running, port) = serving(folder.path(), "small.pcap", &["--format", "json"]);
    let metrics = get(port, "/metrics").unwrap().1;
    let interfaces = get(port, "/api/v1/interfaces").unwrap().1;
    let interfaces: Value = serde_json::from_str(&interfaces).unwrap();
    let mut command = Command::new(AGENT);
    command
        .args(["replay", "-q", "--format", "json"])
        .arg(&path);
    let report = json(&command.output().unwrap());
    let length = |n: usize| frames[n].len() as f64;
    for name in NAMES {
        let expected = match name {
            "tcp" => (2.0, length(0) + length(1)),
            "udp" => (3.0, length(2) + length(3) + length(4)),
            "icmpv6" => (1.0, length(5)),
            "gre" => (1.0, length(6)),
            "other" => (1.0, length(7)),
            _ => (0.0, 0.0),
        };
        let value = |family| series(&metrics, family, &[("protocol", name)]).unwrap();
        let (packets, bytes) = (
            value("crane_protocol_packets_total"),
            value("crane_protocol_bytes_total"),
        );
        assert_eq!((packets, bytes), expected, "{name}");
        for lists in [&interfaces["interfaces"][0], &report["captures"][0]] {
            let count = &lists["protocols"][name];
            let count = (count["packets"].as_f64(), count["bytes"].as_f64());
            assert_eq!(count, (Some(packets), Some(bytes)), "{name}");
        }
    }
    let table = Command::new(AGENT)
        .args(["replay", "-q"])
        .arg(&path)
        .output();
    let table = String::from_utf8(table.unwrap().stdout).unwrap();
    let line = table.lines().find(|line| line.starts_with("  udp "));
    let cells: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(cells[..2], ["udp", "3"], "{table}");
    assert!(!table.contains("sctp"), "{table}");
}
