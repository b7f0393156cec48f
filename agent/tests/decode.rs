//! Decoding of files: the agent finds in captures of every kind what another decoder,
//! tshark, finds in the same files.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::packets::{self, TestPacket};
use common::{agent, json, write_capture};
use serde_json::{Value, json};

/// Source and destination as text, with packets and bytes.
type Traffic = BTreeMap<(String, String), (u64, u64)>;

/// What tshark finds: the number of packets, and the outermost and the innermost pairs.
struct Found {
    packets: u64,
    outer: Traffic,
    inner: Traffic,
}

/// `hidden`: bytes of each packet that tshark does not count.
fn tshark(capture: &Path, hidden: u64) -> Found {
    let fields = "frame.len frame.protocols ip.src ip.dst ipv6.src ipv6.dst";
    let output = Command::new("tshark")
        .args(["-n", "-T", "fields", "-E", "aggregator=,", "-r"])
        .arg(capture)
        // Every packet is decoded by itself, as in the agent.
        .args(["-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"])
        .args(["-d", "udp.port==8472,vxlan"])
        .args(fields.split(' ').flat_map(|field| ["-e", field]))
        .output()
        .unwrap_or_else(|error| {
            panic!("tshark does not start, `make setup-test` installs it: {error}")
        });
    assert!(output.status.success(), "{}", common::stderr(&output));
    let mut found = Found {
        packets: 0,
        outer: Traffic::new(),
        inner: Traffic::new(),
    };
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let bytes = hidden + fields[0].parse::<u64>().unwrap();
        let pairs = pairs(&fields);
        for (traffic, pair) in [
            (&mut found.outer, pairs.first()),
            (&mut found.inner, pairs.last()),
        ] {
            if let Some(pair) = pair {
                let (packets, sum) = traffic.entry(pair.clone()).or_default();
                *packets += 1;
                *sum += bytes;
            }
        }
        found.packets += 1;
    }
    found
}

/// The addresses of all IP headers of a packet, in the order of its protocols.
/// If the packet ends before the second address, tshark has only the first.
fn pairs(fields: &[&str]) -> Vec<(String, String)> {
    let addresses = |at: usize| fields[at].split(',').filter(|text| !text.is_empty());
    let mut v4 = addresses(2).zip(addresses(3));
    let mut v6 = addresses(4).zip(addresses(5));
    let pair = |protocol| match protocol {
        "ip" => v4.next(),
        "ipv6" => v6.next(),
        _ => None,
    };
    let pairs = fields[1].split(':').filter_map(pair);
    pairs.map(|(src, dst)| (src.into(), dst.into())).collect()
}

/// What the agent reports, with these lines under `[capture]`.
fn replay(capture: &Path, settings: &str) -> Value {
    let config = capture.with_extension("toml");
    std::fs::write(&config, format!("[capture]\n{settings}\n")).unwrap();
    let output = agent(&[
        "replay",
        "-q",
        capture.to_str().unwrap(),
        "-c",
        config.to_str().unwrap(),
        "--format",
        "json",
        "--top",
        "1000",
    ]);
    json(&output)["captures"][0].clone()
}

fn traffic(report: &Value) -> Traffic {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let flows = report["top"].as_array().unwrap().iter();
    flows
        .map(|flow| {
            let counts = (flow["packets"].as_u64(), flow["bytes"].as_u64());
            (
                (text(&flow["src"]), text(&flow["dst"])),
                (counts.0.unwrap(), counts.1.unwrap()),
            )
        })
        .collect()
}

/// Pairs for which the agent and tshark differ.
fn differences(agent: &Traffic, tshark: &Traffic) -> Vec<String> {
    let mut pairs: Vec<_> = agent.keys().chain(tshark.keys()).collect();
    pairs.sort();
    pairs.dedup();
    pairs.retain(|pair| agent.get(pair) != tshark.get(pair));
    let describe = |pair| {
        format!(
            "{pair:?}: {:?}, tshark {:?}",
            agent.get(pair),
            tshark.get(pair)
        )
    };
    pairs.into_iter().map(describe).collect()
}

fn ignored(report: &Value) -> BTreeMap<String, u64> {
    serde_json::from_value(report["ignored"].clone()).unwrap()
}

/// Writes the test packets as captures, one for each link type, each packet one to three
/// times.
fn captures(folder: &Path) -> Vec<(std::path::PathBuf, Vec<TestPacket>)> {
    let mut by_link: BTreeMap<u32, Vec<TestPacket>> = BTreeMap::new();
    for (n, packet) in packets::all().into_iter().enumerate() {
        let times = std::iter::repeat_n(packet.clone(), 1 + n % 3);
        by_link.entry(packet.link).or_default().extend(times);
    }
    let write = |(link, known): (u32, Vec<TestPacket>)| {
        let path = folder.join(format!("link-{link}.pcap"));
        let packets: Vec<Vec<u8>> = known.iter().map(|packet| packet.data.clone()).collect();
        write_capture(&path, link, &packets);
        (path, known)
    };
    by_link.into_iter().map(write).collect()
}

#[test]
fn pairs_packets_and_bytes_are_those_that_tshark_finds() {
    let folder = tempfile::tempdir().unwrap();
    for (path, known) in captures(folder.path()) {
        // For PPP with a direction, tshark does not count the byte of the direction.
        let hidden = u64::from(known[0].link == 204);
        let found = tshark(&path, hidden);
        assert_eq!(found.packets, known.len() as u64);
        for (decap, expected) in [("outer", &found.outer), ("inner", &found.inner)] {
            let report = replay(&path, &format!("decap = {decap:?}"));
            let name = format!("{}, {decap}", path.display());
            let differences = differences(&traffic(&report), expected);
            assert!(differences.is_empty(), "{name}: {differences:#?}");
            let edges: u64 = expected.values().map(|(packets, _)| packets).sum();
            assert_eq!(report["packets"], known.len(), "{name}");
            assert_eq!(report["edges"], edges, "{name}");
            let mut reasons = BTreeMap::new();
            for reason in known.iter().filter_map(|packet| packet.outer.err()) {
                *reasons.entry(reason.to_owned()).or_default() += 1;
            }
            assert_eq!(ignored(&report), reasons, "{name}");
            assert_eq!(
                edges + reasons.values().sum::<u64>(),
                found.packets,
                "{name}"
            );
        }
    }
}

#[test]
fn packets_that_settings_exclude_are_counted_as_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cooked.pcap");
    let packet = |n: u8, packet_type| {
        let ip = common::frame::ip(packets::v4(n), common::frame::UDP, &[]);
        common::frame::sll(packet_type, common::frame::IPV4, &ip)
    };
    let v6 = common::frame::ip(packets::v6(1), common::frame::UDP, &[]);
    let v6 = common::frame::sll(0, common::frame::IPV6, &v6);
    write_capture(&path, 113, &[packet(1, 0), packet(2, 4), packet(3, 4), v6]);
    let count = |settings| {
        let report = replay(&path, settings);
        (report["edges"].clone(), report["ignored"].clone())
    };
    assert_eq!(count(""), (json!(4), json!({})));
    assert_eq!(
        count("direction = \"in\""),
        (json!(2), json!({"direction": 2}))
    );
    assert_eq!(
        count("direction = \"out\""),
        (json!(2), json!({"direction": 2}))
    );
    assert_eq!(count("ipv6 = false"), (json!(3), json!({"ipv6_off": 1})));
}
