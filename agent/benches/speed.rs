//! Speed of replaying captures, compared with other readers of capture files:
//! tcpdump (which only copies), nfpcapd and softflowd (which count flows).
//!
//! `make bench` generates the captures, runs the programs in turn and prints the
//! best of three rounds, as a ratio to tcpdump. The page cache is warm.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, dead_code)]

#[path = "../src/lookup/testing.rs"]
mod testing;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use testing::{Layout, geolite_asn};

const AGENT: &str = env!("CARGO_BIN_EXE_crane-agent");
const ROUNDS: usize = 3;
const PRODUCT: &str = "crane-agent";

/// Kinds of traffic, packets of each, and the least ratio to tcpdump.
const KINDS: [(&str, u64, f64); 3] = [
    ("skewed", 4_000_000, 1.7),
    ("hostile", 2_000_000, 0.75),
    ("forged", 2_000_000, 0.55),
];

/// A program and the number of cores that it may use.
struct Reader {
    name: &'static str,
    command: Vec<String>,
    cores: usize,
}

/// A database of AS numbers: one for each of 65,536 networks of 16 bits.
fn database(path: &Path) {
    let layout = Layout {
        kind: "GeoLite2-ASN",
        record_size: 28,
        ip_version: 4,
    };
    let networks: Vec<String> = (0..=u16::MAX)
        .map(|n| format!("{}.{}.0.0/16", n >> 8, n & 255))
        .collect();
    let networks: Vec<_> = networks
        .iter()
        .map(|network| (network.as_str(), geolite_asn(64496, "Example")))
        .collect();
    std::fs::write(path, testing::database(layout, &networks)).unwrap();
}

fn readers(capture: &str, scratch: &str, lookup: &str) -> Vec<Reader> {
    let reader = |name, cores, words: &[&str]| Reader {
        name,
        cores,
        command: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    let agent = [AGENT, "replay", "-q", "--format", "json", capture];
    let with_lookup = [&agent[..], &["-c", lookup]].concat();
    let without = [&agent[..], &["--no-sketch"]].concat();
    let softflowd = ["softflowd", "-d", "-p", "", "-c", "none", "-r", capture];
    let mut softflowd = softflowd.map(str::to_owned);
    softflowd[3] = format!("{scratch}/softflowd.pid");
    let softflowd: Vec<&str> = softflowd.iter().map(String::as_str).collect();
    vec![
        reader(
            "tcpdump -w /dev/null",
            2,
            &["tcpdump", "-r", capture, "-w", "/dev/null"],
        ),
        reader("cat > /dev/null", 2, &["cat", capture]),
        reader("nfpcapd", 2, &["nfpcapd", "-r", capture, "-w", scratch]),
        reader("softflowd", 2, &softflowd),
        reader("softflowd, one core", 1, &softflowd),
        reader(PRODUCT, 2, &agent),
        reader("crane-agent, AS numbers", 2, &with_lookup),
        reader("crane-agent --no-sketch", 2, &without),
        reader("crane-agent, one core", 1, &agent),
    ]
}

/// Runs a program and returns the seconds it took. `None` if it cannot run or fails.
fn run(reader: &Reader) -> Option<f64> {
    let mut command = if reader.cores == 1 {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(&reader.command[0]);
        command
    } else {
        Command::new(&reader.command[0])
    };
    command
        .args(&reader.command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let ended = command.status().ok()?;
    ended.success().then(|| start.elapsed().as_secs_f64())
}

/// Generates a capture and measures all readers. Returns the ratio of the agent to tcpdump.
fn measure(kind: &str, packets: u64, folder: &Path) -> f64 {
    let capture = folder.join(format!("{kind}.pcap"));
    let capture = capture.to_str().unwrap();
    let packets_text = packets.to_string();
    let made = Command::new(AGENT)
        .args([
            "sample",
            capture,
            "--kind",
            kind,
            "--packets",
            &packets_text,
        ])
        .stdout(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let scratch = folder.join("flows");
    std::fs::create_dir_all(&scratch).unwrap();
    let config = folder.join("lookup.toml");
    let asns = folder.join("asn.mmdb");
    database(&asns);
    std::fs::write(&config, format!("[lookup]\nasn = {asns:?}\n")).unwrap();
    let (scratch, config) = (scratch.to_str().unwrap(), config.to_str().unwrap());
    let readers = readers(capture, scratch, config);
    let mut best = vec![f64::INFINITY; readers.len()];
    for _ in 0..ROUNDS {
        for (reader, best) in readers.iter().zip(&mut best) {
            *best = best.min(run(reader).unwrap_or(f64::INFINITY));
        }
    }
    println!("\n{kind}: {packets} packets, the best of {ROUNDS} rounds");
    println!("{:<26} {:>10} {:>14}", "", "x tcpdump", "M packets/s");
    for (reader, seconds) in readers.iter().zip(&best) {
        if seconds.is_infinite() {
            println!("{:<26} did not run", reader.name);
            continue;
        }
        let (ratio, rate) = (best[0] / seconds, packets as f64 / seconds / 1e6);
        println!("{:<26} {ratio:>10.2} {rate:>14.2}", reader.name);
    }
    std::fs::remove_file(capture).unwrap();
    let agent = readers.iter().position(|reader| reader.name == PRODUCT);
    best[0] / best[agent.unwrap()]
}

fn main() {
    // `cargo test --benches` only checks that the program starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ratios = KINDS.map(|(kind, packets, _)| measure(kind, packets, folder.path()));
    println!();
    let mut is_below = false;
    for ((kind, _, floor), ratio) in KINDS.into_iter().zip(ratios) {
        let verdict = if ratio < floor { "BELOW" } else { "ok" };
        println!("floor: {kind} {ratio:.2} x tcpdump, at least {floor:.2}: {verdict}");
        is_below |= ratio < floor;
    }
    if is_below {
        std::process::exit(1);
    }
}
