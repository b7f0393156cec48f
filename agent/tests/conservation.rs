//! Every packet that is sent is in exactly one counter. Packets are sent over a veth pair
//! and metrics are scraped by a real Prometheus.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::net::{AGENT_PORT, Cable, PROMETHEUS_PORT, Prometheus, fetch};
use common::{AGENT, Running, address, agent, arp, eventually, frame, json, series, write_pcap};
use serde_json::Value;

const RATE: u32 = 100_000;
const TIMES: u32 = 10;

/// Ten heavy pairs, three hundred light ones and some ARP, shuffled.
fn busy(folder: &Path) -> (PathBuf, u64, u64) {
    let mut frames = Vec::new();
    for n in 0..10 {
        frames.extend(vec![
            frame(address(n), address(1000 + n), 30);
            500 + 50 * n as usize
        ]);
    }
    for n in 0..300 {
        frames.extend(vec![frame(address(2000 + n), address(7), 10); 10]);
    }
    frames.extend(vec![arp(); 100]);
    let mut state = 1u64;
    for at in (1..frames.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        frames.swap(at, (state >> 33) as usize % (at + 1));
    }
    let path = folder.join("busy.pcap");
    write_pcap(&path, &frames);
    (path, frames.len() as u64, 100)
}

/// Packets of as many different pairs.
fn scattered(path: &Path, packets: u32) {
    let pair = |n: u32| {
        (
            n.wrapping_mul(2_654_435_761) >> 8,
            n.wrapping_mul(40_503) & 0xff_ffff,
        )
    };
    let frames: Vec<Vec<u8>> = (0..packets)
        .map(pair)
        .map(|(src, dst)| frame(address(src), address(dst), 0))
        .collect();
    write_pcap(path, &frames);
}

/// The counters of an interface: packets, edges, ignored, dropped by the ring and
/// by the kernel.
fn counters(text: &str, interface: &str) -> [u64; 5] {
    let sum = |name: &str, reason: Option<&str>| {
        let lines = text.lines().filter(|line| {
            line.starts_with(&format!("{name}{{"))
                && line.contains(&format!("interface=\"{interface}\""))
                && reason.is_none_or(|reason| line.contains(&format!("reason=\"{reason}\"")))
        });
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    let dropped = "crane_capture_dropped_packets_total";
    [
        sum("crane_capture_packets_total", None),
        sum("crane_sketch_edges_total", None),
        sum("crane_capture_ignored_packets_total", None),
        sum(dropped, Some("ring_full")),
        sum(dropped, Some("kernel")),
    ]
}

/// Waits until all that was sent is counted, and the counters agree.
fn settled(cable: &Cable, interface: &str, sent: u64) -> [u64; 5] {
    eventually("all packets counted", || {
        let counts = counters(&cable.metrics(), interface);
        let [packets, edges, ignored, ring_full, kernel] = counts;
        assert!(edges + ignored + ring_full <= packets, "{counts:?}");
        assert!(packets + kernel <= sent, "{counts:?}");
        (packets + kernel == sent && packets == edges + ignored + ring_full).then_some(counts)
    })
}

#[test]
fn a_hundred_thousand_packets_a_second_are_all_accounted_for() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (path, packets, arps) = busy(folder.path());
    let sent = packets * u64::from(TIMES);
    let mut running = cable.capture(&["-i", "cable"]);
    let prometheus = Prometheus::start(AGENT_PORT, PROMETHEUS_PORT, Some(&cable.left));
    assert!(cable.send("cable", &path, RATE, TIMES).succeeds());

    let [received, edges, ignored, ring_full, kernel] = settled(&cable, "cable", sent);
    prometheus.wait_for("crane_capture_packets_total", |seen| {
        seen == received as f64
    });
    prometheus.wait_for("crane_sketch_edges_total", |seen| seen == edges as f64);
    let sum = "sum(crane_capture_ignored_packets_total)";
    prometheus.wait_for(sum, |seen| seen == ignored as f64);
    let top: BTreeSet<String> = eventually("ten heavy hitters", || {
        let top = prometheus.query("topk(10, crane_heavy_hitter_packets)")?;
        Some(top).filter(|top| top.len() == 10)
    })
    .iter()
    .map(|hitter| format!("{} {}", hitter["metric"]["src"], hitter["metric"]["dst"]))
    .collect();
    let right = (0..10).map(|n| format!("\"{}\" \"{}\"", address(n), address(1000 + n)));
    assert_eq!(top, right.collect());

    // The same packets from the file: the same counters and top pairs.
    if ring_full + kernel == 0 {
        assert_eq!(ignored, arps * u64::from(TIMES));
        let copies = vec![path.to_str().unwrap(); 1];
        let replay = agent(&[&["replay", "-q", "--format", "json"][..], &copies].concat());
        let replayed = &json(&replay)["captures"][0];
        assert_eq!(
            edges,
            replayed["edges"].as_u64().unwrap() * u64::from(TIMES)
        );
        let answer = fetch(Some(&cable.left), AGENT_PORT, "/api/v1/heavy-hitters").unwrap();
        let live: Value = serde_json::from_str(&answer).unwrap();
        let pairs = live["interfaces"][0]["pairs"].as_array().unwrap();
        let replayed = replayed["top"].as_array().unwrap();
        assert_eq!(pairs.len(), replayed.len());
        for (live, replayed) in pairs.iter().zip(replayed) {
            assert_eq!(
                (&live["src"], &live["dst"]),
                (&replayed["src"], &replayed["dst"])
            );
            for unit in ["packets", "bytes"] {
                let once = replayed[unit].as_u64().unwrap();
                assert_eq!(live[unit].as_u64().unwrap(), once * u64::from(TIMES));
            }
        }
    }
    let (code, took) = running.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn two_interfaces_are_counted_separately() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let folder = tempfile::tempdir().unwrap();
    let (path, packets, _) = busy(folder.path());
    let _agent = cable.capture(&["-i", "cable", "-i", "sec*"]);
    let mut first = cable.send("cable", &path, RATE / 2, 4);
    let mut second = cable.send("second", &path, RATE / 2, 3);
    assert!(first.succeeds() && second.succeeds());
    settled(&cable, "cable", packets * 4);
    settled(&cable, "second", packets * 3);
    for (interface, times) in [("cable", 4.0), ("second", 3.0)] {
        let heaviest = address(9).to_string();
        let labels = [("interface", interface), ("src", &heaviest)];
        eventually("the heaviest pair", || {
            let text = cable.metrics();
            let seen = series(&text, "crane_heavy_hitter_packets", &labels)?;
            let [.., ring_full, kernel] = counters(&text, interface);
            (ring_full + kernel > 0 || seen == 950.0 * times).then_some(())
        });
    }
}

#[test]
fn packets_that_a_slow_sketch_cannot_store_are_counted_as_dropped() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scattered.pcap");
    scattered(&path, 40_000);
    // Tensors on a CPU are slow, and this ring is small.
    let config = folder.path().join("slow.toml");
    let slow = "[capture]\nring_slots = 1024\n[sketch]\nbatch = 64\nprofile = \"paper\"\ndevice = \"cpu-tensor\"\n";
    std::fs::write(&config, slow).unwrap();
    let mut running = cable.capture(&["-i", "cable", "-c", config.to_str().unwrap()]);
    assert!(cable.send("cable", &path, RATE, 1).succeeds());
    let [.., ring_full, _] = settled(&cable, "cable", 40_000);
    assert!(ring_full > 0, "the sketch was not slow at all");
    let (code, took) = running.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scattered.pcap");
    scattered(&path, 40_000);
    // A batch of this size keeps tensors on a CPU busy for many seconds.
    let config = folder.path().join("slow.toml");
    std::fs::write(
        &config,
        "[sketch]\nbatch = 20000\nprofile = \"paper\"\ndevice = \"cpu-tensor\"\n",
    )
    .unwrap();
    let mut running = cable.capture(&["-i", "cable", "-c", config.to_str().unwrap()]);
    assert!(cable.send("cable", &path, RATE, 1).succeeds());
    std::thread::sleep(Duration::from_millis(500));
    running.signal("-TERM");
    std::thread::sleep(Duration::from_millis(500));
    let (code, took) = running.stop("-INT");
    assert_eq!(code, Some(130), "it was still busy");
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_flood_of_pairs_does_not_increase_the_number_of_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flood.pcap");
    scattered(&path, 1_000_000);
    let port = common::free_port();
    let mut command = std::process::Command::new(AGENT);
    command
        .args(["replay", path.to_str().unwrap(), "--serve", "--listen"])
        .arg(format!("127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.wait_for_line("metrics are at");
    running.wait_for_line("all packets replayed");
    let text = fetch(None, port, "/metrics").unwrap();
    let of_interface = text.lines().filter(|line| line.contains("interface=\""));
    let hitters = of_interface
        .clone()
        .filter(|line| line.starts_with("crane_heavy_hitter") || line.starts_with("crane_top_"));
    let (k, constant) = (10, 60);
    assert!((4 * k..=12 * k).contains(&hitters.count()));
    assert!(of_interface.count() <= constant + 12 * k);
    let name = path.to_str().unwrap();
    assert_eq!(counters(&text, name)[1], 1_000_000);
    let of_file = |family: &str| series(&text, family, &[("interface", name)]).unwrap();
    assert!(of_file("crane_sketch_expansions_total") >= 1.0);
    assert!(
        of_file("crane_sketch_memory_bytes") <= 4.0 * 1024.0 * 1024.0,
        "the default budget"
    );
}
