//! Addresses with unusually many peers: a scan and a flood.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use common::{Running, agent, frame, get, json, series, serving, values, write_pcap};
use serde_json::Value;

const SCANNER: &str = "10.66.0.1";
const SCANNED: u32 = 50_000;
const VICTIM: &str = "192.0.2.9";
const FORGED: u32 = 500_000;

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// A scan and a flood among hosts with much traffic and few peers each.
fn attacked(folder: &Path) -> PathBuf {
    let scattered = |n: u32| n.wrapping_mul(2_654_435_761);
    let mut frames = Vec::new();
    for n in 0..FORGED {
        frames.push(frame(scattered(n).into(), ip(VICTIM), 0));
        if n < SCANNED {
            frames.push(frame(ip(SCANNER), scattered(n ^ 1 << 20).into(), 0));
        }
        if n >= 2 * SCANNED {
            continue;
        }
        // 2,000 hosts and 300 servers, some of which are far more frequent than others.
        let number = u64::from(scattered(n)) >> 8;
        let host = ((number * number) >> 37) as u32 % 2000;
        let server = (u64::from(scattered(n + 7) >> 16).pow(2) >> 24) as u32 % 300;
        let (host, server) = (0x0a01_0000 | host, 0xc633_6400 | server);
        frames.push(frame(host.into(), server.into(), 1000));
    }
    let path = folder.join("attacked.pcap");
    write_pcap(&path, &frames);
    path
}

/// The number of peers, if it is within 10 % and in its interval.
fn near(fan: &Value, truth: u32) -> u64 {
    let [peers, low, high] = ["peers", "low", "high"].map(|key| fan[key].as_u64().unwrap());
    let off = peers.abs_diff(truth.into()) as f64 / f64::from(truth);
    assert!(off <= 0.1, "{fan} instead of {truth}");
    assert!(low <= peers && peers <= high, "{fan}");
    assert!(high < 2 * low, "{fan} has a narrow interval");
    peers
}

#[test]
fn a_scan_and_a_flood_are_listed_first_among_heavy_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let path = attacked(folder.path());
    let path = path.to_str().unwrap();
    let args = ["replay", "-q", "--format", "json", path, "--ask", SCANNER];
    let capture = json(&agent(&args))["captures"][0].clone();
    assert_eq!(capture["fan_out"][0]["ip"], SCANNER);
    let scan = near(&capture["fan_out"][0], SCANNED);
    assert_eq!(capture["fan_in"][0]["ip"], VICTIM);
    near(&capture["fan_in"][0], FORGED);
    // All others are far behind, whether they are listed or not.
    for list in ["fan_out", "fan_in"] {
        let second = capture[list][1]["peers"].as_u64().unwrap_or(0);
        let others = &capture[format!("{list}_others_at_most")];
        let most = second.max(others.as_u64().unwrap());
        assert!(most < 10_000, "{list}: {}, others {most}", capture[list]);
    }
    let notable = capture["notable"].as_array().unwrap();
    let notable = |kind: &str, ip: &str| {
        let mut all = notable.iter();
        all.any(|one| one["kind"] == kind && one["ip"] == ip)
    };
    assert!(notable("scan", SCANNER) && notable("flood", VICTIM));
    assert_eq!(capture["asked"][0]["fan_out"]["peers"], scan);
    assert!(capture["memory_bytes"].as_u64().unwrap() <= 8 << 20);

    let table = agent(&["replay", "-q", path, "--exact", "--ask", SCANNER]);
    let table = String::from_utf8(table.stdout).unwrap();
    let lines = |title: &str| {
        let mut lines = table.lines().skip_while(|line| !line.contains(title));
        lines.next();
        lines.next().unwrap().to_owned()
    };
    assert!(lines("fan-out").contains(SCANNER), "{table}");
    assert!(lines("fan-in").contains(VICTIM), "{table}");
    let (_, asked) = table.split_once("asked").unwrap();
    let said = format!("to {scan} addresses");
    assert!(asked.contains(&said), "{table}");
}

/// An agent that has replayed a file and serves it.
fn serve(path: &Path, args: &[&str]) -> (Running, u16) {
    serving(path.parent().unwrap(), path.to_str().unwrap(), args)
}

#[test]
fn metrics_lists_and_queries_agree() {
    let folder = tempfile::tempdir().unwrap();
    let path = attacked(folder.path());
    let (_running, port) = serve(&path, &["--top", "5"]);
    let text = get(port, "/metrics").unwrap().1;
    for (name, ip, truth) in [
        ("crane_fan_out_peers", SCANNER, SCANNED),
        ("crane_fan_in_peers", VICTIM, FORGED),
    ] {
        assert!(values(&text, name).count() <= 5, "{name}");
        let peers = series(&text, name, &[("ip", ip)]).unwrap();
        assert!(
            (peers / f64::from(truth) - 1.0).abs() <= 0.1,
            "{name} {peers}"
        );
    }
    for (kind, ip) in [("scan", SCANNER), ("flood", VICTIM)] {
        let notable = series(&text, "crane_notable", &[("kind", kind), ("ip", ip)]);
        assert!(notable.is_some(), "{kind}: {text}");
    }
    let at = format!("127.0.0.1:{port}");
    let ask = |args: &[&str]| agent(&[args, &["--agent", &at]].concat());
    let answer = json(&ask(&["query", "--node", SCANNER, "--format", "json"]));
    let node = &answer["interfaces"][0];
    near(&node["fan_out"], SCANNED);
    let top = json(&ask(&["top", "--format", "json"]));
    let top = &top["interfaces"][0];
    assert_eq!(top["fan_out"][0]["ip"], SCANNER);
    assert_eq!(top["fan_out"][0]["peers"], node["fan_out"]["peers"]);
    assert_eq!(top["fan_in"][0]["ip"], VICTIM);
    for (args, words) in [
        (
            &["query", "--node", SCANNER][..],
            &["(90 %)", " addresses, "][..],
        ),
        (&["top"], &["fan-out", SCANNER, "fan-in", VICTIM]),
    ] {
        let table = String::from_utf8(ask(args).stdout).unwrap();
        assert!(words.iter().all(|word| table.contains(word)), "{table}");
    }
}

/// An address that has many peers in one window and none in the next is not in the lists
/// of the next.
#[test]
fn lists_are_those_of_one_window_and_exact_while_all_pairs_fit() {
    let folder = tempfile::tempdir().unwrap();
    // A millisecond apart.
    let frames: Vec<Vec<u8>> = (0..300u32)
        .map(|n| match n {
            0..100 => frame(ip("10.0.0.1"), (0xc000_0200 | n).into(), 0),
            _ => frame(ip("10.0.0.2"), (0xc000_0200 | (n % 30)).into(), 0),
        })
        .collect();
    let path = folder.path().join("turned.pcap");
    write_pcap(&path, &frames);
    let (_running, port) = serve(&path, &["--window", "100ms"]);
    let text = get(port, "/metrics").unwrap().1;
    assert!(!text.contains("ip=\"10.0.0.1\""), "{text}");
    let peers = series(&text, "crane_fan_out_peers", &[("ip", "10.0.0.2")]);
    assert_eq!(peers, Some(30.0));
    let args = ["replay", "-q", "--format", "json", "--window", "100ms"];
    let report = json(&agent(&[&args[..], &[path.to_str().unwrap()]].concat()));
    let fans = &report["captures"][0]["fan_out"];
    let first = serde_json::json!(
        {"ip": "10.0.0.1", "peers": 100, "low": 100, "high": 100, "exact": true}
    );
    assert_eq!(fans[0], first, "of the whole file");
}

/// If no address stands out the list is empty, and no address has more peers than packets.
#[test]
fn no_address_has_more_peers_than_packets() {
    let folder = tempfile::tempdir().unwrap();
    let frames: Vec<Vec<u8>> = (0..30_000u32)
        .map(|n| {
            frame(
                (0x0a00_0000 | (n % 5000)).into(),
                (0x0b00_0000 | n).into(),
                0,
            )
        })
        .collect();
    let path = folder.path().join("even.pcap");
    write_pcap(&path, &frames);
    // More pairs than fit.
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"4MiB\"\n").unwrap();
    let (path, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let args = ["replay", "-q", "--format", "json", path, "-c", config];
    let asked = ["--ask", "10.0.0.77"];
    let capture = json(&agent(&[&args[..], &asked].concat()))["captures"][0].clone();
    assert_eq!(capture["fan_out"], serde_json::json!([]));
    assert_eq!(capture["fan_out_others_at_most"], 6);
    assert_eq!(capture["notable"], serde_json::json!([]));
    let fan = &capture["asked"][0]["fan_out"];
    assert!(fan["high"].as_u64().unwrap() <= 6, "{fan}");
    let table = agent(&["replay", "-q", path, "-c", config]);
    let table = String::from_utf8(table.stdout).unwrap();
    let words = "fan-out: no address stands out; none has more than 6 destinations";
    assert!(table.contains(words), "{table}");
}

#[test]
fn fan_lists_show_names_of_networks() {
    let folder = tempfile::tempdir().unwrap();
    let frames: Vec<Vec<u8>> = (0..100u32)
        .map(|n| frame(ip(SCANNER), (0x0b00_0000 | n).into(), 0))
        .collect();
    let path = folder.path().join("named.pcap");
    write_pcap(&path, &frames);
    let config = folder.path().join("names.toml");
    let text = "[[names]]\nprefix = \"10.66.0.0/16\"\nname = \"guests\"\n";
    std::fs::write(&config, text).unwrap();
    let (text, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let args = ["replay", "-q", "--format", "json", text, "-c", config];
    let capture = json(&agent(&args))["captures"][0].clone();
    assert_eq!(capture["fan_out"][0]["name"], "guests");
    assert_eq!(capture["fan_in"][0]["name"], "other");
    let table = agent(&["replay", "-q", text, "-c", config]);
    let table = String::from_utf8(table.stdout).unwrap();
    let (_, fans) = table.split_once("fan-out").unwrap();
    assert!(fans.contains("10.66.0.1 (guests)"), "{table}");
    let (_running, port) = serve(&path, &["-c", config]);
    let answer = get(port, "/api/v1/heavy-hitters").unwrap().1;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["interfaces"][0]["fan_out"][0]["name"], "guests");
}

/// A sample shows addresses with many peers, but counts only the peers that it contains.
#[test]
fn a_sample_counts_the_peers_that_it_contains() {
    let folder = tempfile::tempdir().unwrap();
    let frames: Vec<Vec<u8>> = (0..4000u32)
        .map(|n| frame(ip(SCANNER), (0x0b00_0000 | n).into(), 0))
        .collect();
    let path = folder.path().join("scan.pcap");
    write_pcap(&path, &frames);
    let config = folder.path().join("sampled.toml");
    std::fs::write(&config, "[capture]\nsample = 4\n").unwrap();
    let (path, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let args = ["replay", "-q", "--format", "json", path, "-c", config];
    let capture = json(&agent(&args))["captures"][0].clone();
    assert_eq!(capture["fan_out"][0]["peers"], capture["edges"]);
    assert!(capture["edges"].as_u64().unwrap() < 2000);
}

/// The first packets of a capture.
fn cut(path: &Path, packets: usize) {
    let bytes = std::fs::read(path).unwrap();
    let mut at = 24;
    for _ in 0..packets {
        let length: [u8; 4] = bytes[at + 8..at + 12].try_into().unwrap();
        at += 16 + u32::from_le_bytes(length) as usize;
    }
    std::fs::write(path, &bytes[..at]).unwrap();
}

/// What `make demo` shows, in its first seconds and after a minute.
#[test]
fn the_scan_and_the_flood_of_the_demo_are_listed_first_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.pcap");
    let text = path.to_str().unwrap();
    assert!(agent(&["sample", text]).status.success());
    for packets in [60_000, 5000] {
        if packets < 60_000 {
            cut(&path, packets);
        }
        let report = json(&agent(&["replay", "-q", "--format", "json", text]));
        let capture = &report["captures"][0];
        assert_eq!(capture["packets"], packets);
        assert_eq!(capture["fan_out"][0]["ip"], "10.0.1.67");
        assert_eq!(capture["fan_in"][0]["ip"], "192.0.2.4");
        for list in ["fan_out", "fan_in"] {
            let [first, second] = [0, 1].map(|at| capture[list][at]["low"].as_u64().unwrap());
            assert!(2 * first > 3 * second, "{packets}: {}", capture[list]);
        }
    }
}

/// The number of peers outside of a sample is unknown, so an answer is never called
/// exact, and its upper end is not below the true number.
#[test]
fn the_interval_of_a_sample_includes_peers_outside_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.pcap");
    let text = path.to_str().unwrap();
    assert!(agent(&["sample", text]).status.success());
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, "[capture]\nsample = 10\n").unwrap();
    let sampled = ["-c", config.to_str().unwrap(), "--ask", "10.0.1.67"];
    let replay = |args: &[&str]| agent(&[&["replay", "-q", text], args].concat());
    let truth = &json(&replay(&["--format", "json"]))["captures"][0]["fan_out"][0];
    assert_eq!(truth["ip"], "10.0.1.67");
    let report = json(&replay(&[&sampled[..], &["--format", "json"]].concat()));
    let asked = &report["captures"][0]["asked"][0]["fan_out"];
    let end = |end: &str| asked[end].as_u64();
    let peers = truth["peers"].as_u64();
    assert!(
        end("low") < peers && peers <= end("high"),
        "{asked} {truth}"
    );
    let table = String::from_utf8(replay(&sampled).stdout).unwrap();
    assert!(!table.contains("exact"), "{table}");
}
