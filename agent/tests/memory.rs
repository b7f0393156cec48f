//! Memory is given to interfaces with traffic.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::Ipv4Addr;
use std::path::Path;

use common::net::Cable;
use common::{eventually, frame, series, values, write_pcap};

/// Interfaces without packets.
const IDLE: usize = 100;
/// What an idle interface has for a window: four sketches of 4 KiB. Fan-out,
/// fan-in and main services take nothing before the first packet.
const LEAST: f64 = 16.0 * 1024.0;

/// A capture in which every packet is of a new pair.
fn flood(folder: &Path, packets: u32) -> std::path::PathBuf {
    let pair = |n: u32| (n.wrapping_mul(2_654_435_761), n.wrapping_mul(40_503));
    let frames: Vec<Vec<u8>> = (0..packets)
        .map(pair)
        .map(|(src, dst)| frame(Ipv4Addr::from(src), Ipv4Addr::from(dst), 0))
        .collect();
    let path = folder.join("flood.pcap");
    write_pcap(&path, &frames);
    path
}

#[test]
fn a_busy_interface_gets_the_largest_memory_and_idle_ones_keep_the_smallest() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_idle(IDLE);
    let folder = tempfile::tempdir().unwrap();
    let path = flood(folder.path(), 30_000);
    let config = folder.path().join("agent.toml");
    // 58 KiB are reserved for each of 101 interfaces and 4 MiB for storing batches, so
    // about 1.3 MiB remain.
    let text = "[sketch]\nmemory = \"1MiB\"\nmemory_total = \"11MiB\"\n";
    std::fs::write(&config, text).unwrap();
    let _agent = cable.capture(&["--window", "3s", "-c", config.to_str().unwrap()]);
    let memory = |name: &str, text: &str| {
        series(text, "crane_sketch_memory_bytes", &[("interface", name)]).unwrap()
    };
    let text = cable.metrics();
    assert_eq!(values(&text, "crane_sketch_memory_bytes").count(), IDLE + 1);
    // One window or two, because the first ends at a multiple of its length.
    assert!(
        memory("cable", &text) <= 2.0 * LEAST,
        "no memory is taken in advance"
    );

    // Within one window, from nothing to half of what an interface may have.
    let mut sender = cable.send("cable", &path, 30_000, 6);
    let text = eventually("the busy interface to have all it may have", || {
        let text = cable.metrics();
        (memory("cable", &text) > 0.95 * f64::from(1 << 20)).then_some(text)
    });
    assert!(memory("cable", &text) <= f64::from(1 << 20));
    let idle: Vec<f64> = values(&text, "crane_sketch_memory_bytes").collect();
    let idle = idle.iter().filter(|bytes| **bytes <= 2.0 * LEAST);
    assert_eq!(idle.count(), IDLE, "idle ones hold the least");
    assert!(sender.succeeds());

    // After two windows without packets it has returned all of it.
    eventually("the memory to be given back", || {
        (memory("cable", &cable.metrics()) <= 2.0 * LEAST).then_some(())
    });
    let text = cable.metrics();
    let expansions = series(
        &text,
        "crane_sketch_expansions_total",
        &[("interface", "cable")],
    );
    assert!(expansions.unwrap() >= 5.0, "it grew step by step");
    assert_eq!(
        values(&text, "crane_capture_dropped_packets_total").sum::<f64>(),
        0.0
    );
}
