//! CPU time per packet and memory as the number of pairs grows from a thousand
//! to ten million.
//!
//! In the first table, a pair sends bursts of 16 packets on average and 64 pairs
//! send at a time, as in the skewed sample; in the second table, bursts have one
//! packet. Captures are generated while they are written to a pipe. CPU time
//! includes decoding and is the best of three rounds, or of one round if there
//! are more packets than [`LEAST`].
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{BufWriter, Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{AGENT, Running, frame};

/// Pairs that are sending at the same time.
const AT_ONCE: usize = 64;
/// Packets of a burst, on average.
const BURSTS: [u64; 2] = [16, 1];
/// Least number of packets of a measurement.
const LEAST: u64 = 8_000_000;
const ROUNDS: usize = 3;

/// Writes a capture in which `pairs` pairs send their bursts in turn.
fn write_capture(
    mut out: impl Write,
    (pairs, burst): (u64, u64),
    packets: u64,
) -> std::io::Result<()> {
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        out.write_all(&word.to_le_bytes())?;
    }
    let mut frame = frame([0, 0, 0, 0].into(), [0, 0, 0, 0].into(), 18);
    let length = frame.len() as u32;
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let mut active = [(0u64, 0u64); AT_ONCE];
    let mut turn = 0;
    for _ in 0..packets {
        let (pair, left) = &mut active[random() as usize % AT_ONCE];
        if *left == 0 {
            // The number of the pair is mixed to give two addresses.
            *pair = (turn % pairs + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *left = 1 + random() % (2 * burst - 1);
            turn += 1;
        }
        *left -= 1;
        frame[26..34].copy_from_slice(&pair.to_be_bytes());
        for word in [1_700_000_000, 0, length, length] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&frame)?;
    }
    out.flush()
}

/// Returns seconds of CPU time, bytes of sketches, and bytes resident near the end.
fn replay(traffic: (u64, u64), packets: u64) -> (f64, u64, u64) {
    let mut command = Command::new(AGENT);
    command
        .args(["replay", "-q", "--format", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut agent = Running(command.spawn().unwrap());
    let mut input = BufWriter::with_capacity(1 << 20, agent.0.stdin.take().unwrap());
    write_capture(&mut input, traffic, packets).unwrap();
    let resident = agent.resident_bytes();
    drop(input);
    let mut report = String::new();
    let mut output = agent.0.stdout.take().unwrap();
    output.read_to_string(&mut report).unwrap();
    // CPU time is complete when the last thread has ended.
    std::thread::sleep(Duration::from_millis(200));
    let seconds = agent.cpu_seconds();
    assert!(agent.succeeds());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let capture = &report["captures"][0];
    assert_eq!(capture["edges"], packets);
    (seconds, capture["memory_bytes"].as_u64().unwrap(), resident)
}

fn main() {
    // `cargo test --benches` only checks that the program starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    for burst in BURSTS {
        table(burst);
    }
}

fn table(burst: u64) {
    println!("\ngrowth in bursts of {burst}: the best of up to {ROUNDS} rounds");
    println!(
        "{:>10} {:>12} {:>9} {:>13} {:>13} {:>13}",
        "pairs", "packets", "x first", "ns a packet", "sketch KiB", "resident MiB"
    );
    let mut first = None;
    for pairs in [1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
        let packets = LEAST.max(pairs * burst);
        // With this many packets, one round is accurate enough.
        let rounds = if packets > LEAST { 1 } else { ROUNDS };
        let runs = (0..rounds).map(|_| replay((pairs, burst), packets));
        let (seconds, memory, resident) = runs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let each = seconds / packets as f64 * 1e9;
        let ratio = each / *first.get_or_insert(each);
        println!(
            "{pairs:>10} {packets:>12} {ratio:>9.2} {each:>13.0} {:>13} {:>13}",
            memory >> 10,
            resident >> 20
        );
    }
}
