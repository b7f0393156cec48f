//! Queries about networks after the traffic was stored: by prefix, by name, of any
//! address; in a replay, by the client and by the API.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{AGENT, agent, frame, get, json, serving, stderr, write_pcap};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

const NAMES: &str = r#"
[[names]]
prefix = "10.0.0.0/8"
name = "office"
[[names]]
prefix = "10.1.0.0/16"
name = "lab"
[[names]]
prefix = "2001:db8::/32"
name = "office"
"#;

fn v6_frame(src: Ipv6Addr, dst: Ipv6Addr, payload: usize) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload as u16 + 8).to_be_bytes());
    packet.extend([common::frame::UDP, 64]);
    packet.extend(src.octets());
    packet.extend(dst.octets());
    packet.extend([0; 4]);
    packet.extend((payload as u16 + 8).to_be_bytes());
    packet.extend(vec![0; payload + 2]);
    common::frame::ethernet(common::frame::IPV6, &packet)
}

/// Source, destination, and number of packets.
const SENT: [(&str, &str, usize); 6] = [
    ("10.0.0.1", "192.0.2.1", 20),
    ("10.1.0.1", "192.0.2.2", 30),
    ("192.0.2.2", "10.1.0.1", 5),
    ("10.200.0.1", "198.51.100.1", 40),
    ("2001:db8::1", "2001:db9::1", 7),
    ("::ffff:10.0.0.1", "::ffff:192.0.2.1", 3),
];

fn capture(folder: &Path) {
    let mut frames = Vec::new();
    for (src, dst, count) in SENT {
        let frame = match (src.parse().unwrap(), dst.parse().unwrap()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => frame(src, dst, 100),
            (IpAddr::V6(src), IpAddr::V6(dst)) => v6_frame(src, dst, 100),
            _ => unreachable!(),
        };
        frames.extend(vec![frame; count]);
    }
    write_pcap(&folder.join("small.pcap"), &frames);
    std::fs::write(folder.join("agent.toml"), NAMES).unwrap();
}

fn run_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(AGENT);
    let command = command.args(args).stdin(Stdio::null());
    command.current_dir(folder).output().unwrap()
}

/// Queries, with the packets in both directions.
const ASKED: [(&str, &str, [u64; 2]); 16] = [
    ("*", "*", [105, 105]),
    ("10.0.0.0/8", "192.0.2.0/24", [50, 5]),
    ("10.0.0.0/8", "*", [90, 5]),
    ("*", "192.0.2.0/24", [50, 5]),
    ("10.1.0.0/16", "192.0.2.2", [30, 5]),
    ("10.1.0.1", "*", [30, 5]),
    ("10.1.0.1", "192.0.2.2", [30, 5]),
    ("10.1.0.1/32", "192.0.2.2/32", [30, 5]),
    ("0.0.0.0/0", "0.0.0.0/0", [95, 95]),
    ("::/0", "*", [10, 10]),
    ("2001:db8::/32", "2001:db9::/32", [7, 0]),
    // IPv4-mapped IPv6 addresses are not IPv4 addresses.
    ("::ffff:10.0.0.0/104", "*", [3, 0]),
    ("office", "*", [67, 0]),
    ("lab", "other", [30, 5]),
    ("other", "10.0.0.0/8", [5, 90]),
    ("office", "192.0.2.0/24", [20, 0]),
];

#[test]
fn networks_are_queried_by_prefix_by_name_and_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    let asks: Vec<String> = ASKED
        .iter()
        .map(|(src, dst, _)| format!("--ask={src},{dst}"))
        .collect();
    let replay = |args: &[&str]| {
        let mut all = vec!["replay", "-q", "small.pcap", "-c", "agent.toml", "--exact"];
        all.extend(args);
        all.extend(asks.iter().map(String::as_str));
        run_in(folder.path(), &all)
    };
    let window = ["--window", "1h", "--format", "json"];
    let there = json(&replay(&window));
    let both = json(&replay(&[&window[..], &["--both"]].concat()));
    for (at, (src, dst, [packets, back])) in ASKED.into_iter().enumerate() {
        let row = &there["captures"][0]["asked"][at];
        for end in ["packets", "low", "high", "at_least", "at_most"] {
            assert_eq!(row[end], packets, "{src},{dst}: {row}");
        }
        let bytes = &row["bytes"];
        let ends = ["bytes_low", "bytes_high", "bytes_at_least", "bytes_at_most"];
        assert!(ends.iter().all(|end| row[end] == *bytes), "{row}");
        assert!(row.get("back").is_none(), "{row}");
        let whole = &both["captures"][0];
        for row in [&whole["asked"][at], &whole["windows"][0]["asked"][at]] {
            assert_eq!(row["packets"], packets, "{src},{dst}: {row}");
            assert_eq!(row["back"]["packets"], back, "{src},{dst}: {row}");
        }
    }
    let row = &there["captures"][0]["asked"];
    assert_eq!(
        (&row[1]["src"], &row[12]["src"]),
        (&"10.0.0.0/8".into(), &"office".into())
    );
    assert_eq!(row[4]["dst_name"], "other");
    assert!(
        row[4].get("src_name").is_none(),
        "a prefix may have several names"
    );
    let table = String::from_utf8(replay(&["--both"]).stdout).unwrap();
    for shown in [
        "10.0.0.0/8 → 192.0.2.0/24",
        "192.0.2.0/24 → 10.0.0.0/8",
        "office → *",
        "10.1.0.1 (lab) → 192.0.2.2 (other)",
    ] {
        assert!(table.contains(shown), "{shown}: {table}");
    }
}

#[test]
fn a_running_agent_answers_the_same() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    // A window that is over is answered at once.
    let args = ["-c", "agent.toml", "--window", "1h"];
    let (_running, port) = serving(folder.path(), "small.pcap", &args);
    let at = format!("127.0.0.1:{port}");
    for (src, dst, [packets, back]) in ASKED {
        let path = format!("/api/v1/flow?src={src}&dst={dst}&both=true&services=true");
        let answer: Value = serde_json::from_str(&get(port, &path).unwrap().1).unwrap();
        let interface = &answer["interfaces"][0];
        assert_eq!(
            interface["estimate"]["packets"], packets,
            "{path}: {answer}"
        );
        assert_eq!(interface["back"]["packets"], back, "{path}: {answer}");
        let query = [
            "query", "--src", src, "--dst", dst, "--both", "--agent", &at,
        ];
        let shown = json(&agent(&[&query[..], &["--format", "json"]].concat()));
        assert_eq!(shown, answer);
        let table = String::from_utf8(agent(&query).stdout).unwrap();
        assert!(
            table.contains("src → dst") && table.contains("dst → src"),
            "{table}"
        );
    }
    let query = ["query", "--src", "office", "--dst", "*", "--agent", &at];
    let table = String::from_utf8(agent(&query).stdout).unwrap();
    assert!(
        table.contains("office → *") && table.contains("67"),
        "{table}"
    );

    for (query, says) in [
        ("src=10.0.0.1/8&dst=*", "the network is 10.0.0.0/8"),
        ("src=offices&dst=*", "a name (office, lab, other)"),
        ("src=10.0.0.0/8&dst=::/0", "the same kind as src"),
        ("src=*&dst=*&both=yes", "true or false"),
        ("src=*", "dst is missing"),
    ] {
        let (status, body) = get(port, &format!("/api/v1/flow?{query}")).unwrap();
        assert!(
            status.contains("400") && body.contains(says),
            "{query}: {body}"
        );
    }
    let unknown = agent(&["query", "--src", "me", "--dst", "*", "--agent", &at]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("office, lab, other"));
}

#[test]
fn an_invalid_query_is_an_error_with_an_example() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    for (ask, says) in [
        ("10.0.0.1/8,*", "the network is 10.0.0.0/8"),
        ("*,2001:db8::1/32", "the network is 2001:db8::/32"),
        ("10.0.0.0/40,*", "like 10.1.0.0/16"),
        ("offices,*", "no network is called \"offices\""),
        ("offices,*", "(office, lab, other)"),
        ("10.0.0.0/8,::/0", "no packet goes from an IPv4"),
        ("10.0.0.0/8", "networks like '10.0.0.0/8,*'"),
        (",*", "nothing is written"),
    ] {
        let args = [
            "replay",
            "-q",
            "small.pcap",
            "-c",
            "agent.toml",
            "--ask",
            ask,
        ];
        let output = run_in(folder.path(), &args);
        assert_eq!(output.status.code(), Some(2), "{ask}");
        assert!(stderr(&output).contains(says), "{ask}: {}", stderr(&output));
    }
    let output = agent(&["query", "--src", "10.0.0.1/8"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("10.0.0.0/8"),
        "{}",
        stderr(&output)
    );
}

/// Some addresses near each other.
fn address(rng: &mut Xoshiro256PlusPlus) -> Ipv4Addr {
    let mut near = |most: f64| (rng.random::<f64>().powi(3) * most) as u8;
    Ipv4Addr::from([near(224.0), near(64.0), near(64.0), near(255.0)])
}

/// More pairs than fit, in a sketch as small as can be.
#[test]
fn nine_answers_in_ten_are_inside_their_interval_and_all_inside_the_guaranteed_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut packets = Vec::new();
    for rank in 1..=6000 {
        let pair = (address(&mut rng), address(&mut rng));
        let size = [10, 10, 100, 1300][rng.random_range(0..4)];
        packets.extend(vec![(pair, size); 1 + 8000 / rank]);
    }
    packets.shuffle(&mut rng);
    let mut truth: HashMap<(Ipv4Addr, Ipv4Addr), [u64; 2]> = HashMap::new();
    let frames: Vec<Vec<u8>> = packets
        .iter()
        .map(|((src, dst), size)| {
            let frame = frame(*src, *dst, *size);
            let [count, bytes] = truth.entry((*src, *dst)).or_default();
            (*count, *bytes) = (*count + 1, *bytes + frame.len() as u64);
            frame
        })
        .collect();
    write_pcap(&folder.path().join("many.pcap"), &frames);

    let net = |address: Ipv4Addr, length: u32| {
        Ipv4Addr::from(u32::from(address) >> (32 - length) << (32 - length))
    };
    let mut asked = Vec::new();
    for _ in 0..200 {
        let (src, dst) = packets[rng.random_range(0..packets.len())].0;
        let lengths = [rng.random_range(4..=24), rng.random_range(4..=24)];
        asked.push(([net(src, lengths[0]), net(dst, lengths[1])], lengths));
    }
    let asks = asked
        .iter()
        .map(|([src, dst], [from, to])| format!("--ask={src}/{from},{dst}/{to}"));
    let mut command = Command::new(AGENT);
    command.args(["replay", "-q", "many.pcap", "--format", "json", "--ask=*,*"]);
    command.args(asks).env("CRANE_SKETCH_MEMORY", "128KiB");
    let report = json(&command.current_dir(folder.path()).output().unwrap());
    let capture = &report["captures"][0];
    assert_eq!(capture["exact"], false);
    assert!(capture["memory_bytes"].as_u64().unwrap() <= 128 << 10);
    let rows = capture["asked"].as_array().unwrap();
    for end in ["packets", "low", "high", "at_least", "at_most"] {
        assert_eq!(rows[0][end], packets.len(), "all packets are known");
    }
    let (mut hits, mut sure) = ([0; 2], 0);
    for (([src, dst], [from, to]), row) in asked.iter().zip(&rows[1..]) {
        let inside = truth
            .iter()
            .filter(|((a, b), _)| net(*a, *from) == *src && net(*b, *to) == *dst);
        let sums = inside.fold([0; 2], |[p, b], (_, [packets, bytes])| {
            [p + packets, b + bytes]
        });
        for (at, (sum, kind)) in sums.into_iter().zip(["", "bytes_"]).enumerate() {
            let number = |end: &str| row[format!("{kind}{end}")].as_u64().unwrap();
            let certain = number("at_least")..=number("at_most");
            assert!(certain.contains(&sum), "{row}, {sum}");
            hits[at] += usize::from((number("low")..=number("high")).contains(&sum));
        }
        sure += usize::from(row["low"] == row["high"]);
    }
    assert!(hits.iter().all(|hits| *hits >= 180), "{hits:?} of 200");
    assert!(sure < 20, "the sample does not hold everything: {sure}");
}
