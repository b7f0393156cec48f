//! Live capture on a veth pair between network namespaces: CPU time per packet
//! compared with softflowd, CPU time and memory of hundreds of interfaces, and
//! the effect of scrapes under load. Needs root.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::net::Cable;
use common::{AGENT, Running, eventually, values};

const ROUNDS: usize = 3;
/// Packets of the sample, and how many times it is sent.
const SAMPLE: u64 = 200_000;
const TIMES: u64 = 10;
/// Packets of the sample that trafgen repeats.
const SHORT: usize = 2000;
const SCRAPES: usize = 1000;
const IDLE_SECONDS: u64 = 10;

#[derive(Clone, Copy)]
enum Sender {
    Tcpreplay,
    Trafgen,
}

impl Sender {
    fn name(self) -> &'static str {
        match self {
            Self::Tcpreplay => "tcpreplay --topspeed",
            Self::Trafgen => "trafgen",
        }
    }

    /// Sends the sample `times` times as fast as possible.
    fn start(self, cable: &Cable, folder: &Path, times: u64) -> Running {
        let mut command = match self {
            Self::Tcpreplay => {
                let mut command = Cable::command(&cable.right, "tcpreplay");
                command
                    .args(["-q", "--preload-pcap", "--topspeed", "-i", "cable"])
                    .arg(format!("--loop={times}"))
                    .arg(folder.join("sample.pcap"));
                command
            }
            Self::Trafgen => {
                let mut command = Cable::command(&cable.right, "trafgen");
                command
                    .args(["--cpus", "1", "-o", "cable", "-n"])
                    .arg((times * SAMPLE).to_string())
                    .arg("-i")
                    .arg(folder.join("sample.cfg"));
                command
            }
        };
        Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }
}

/// Writes the sample as a capture and, shortened, as a configuration of trafgen.
fn make_sample(folder: &Path) {
    let capture = folder.join("sample.pcap");
    let made = Command::new(AGENT)
        .args(["sample", "--kind", "skewed", "--packets"])
        .arg(SAMPLE.to_string())
        .arg(&capture)
        .stdout(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let bytes = std::fs::read(capture).unwrap();
    let (mut rest, mut text) = (&bytes[24..], String::new());
    for _ in 0..SHORT {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (packet, after) = rest[16..].split_at(length);
        let hex: Vec<String> = packet.iter().map(|byte| format!("0x{byte:02x}")).collect();
        writeln!(text, "{{ {} }}", hex.join(", ")).unwrap();
        rest = after;
    }
    std::fs::write(folder.join("sample.cfg"), text).unwrap();
}

/// An agent on the left side with a unix socket, which can be reached from
/// all network namespaces.
fn agent(cable: &Cable, folder: &Path, args: &[&str]) -> Running {
    let mut command = Cable::command(&cable.left, AGENT);
    command
        .env("CRANE_EXPORT_SOCKET", folder.join("socket"))
        .arg("run")
        .args(args)
        .stderr(Stdio::piped());
    let mut agent = Running::start(&mut command);
    agent.wait_for_line("metrics are at");
    agent
}

fn scrape(folder: &Path) -> String {
    let mut stream = UnixStream::connect(folder.join("socket")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Packets that the ring and the kernel dropped.
fn lost(text: &str) -> f64 {
    values(text, "crane_capture_dropped_packets_total").sum()
}

struct Cost {
    seconds_per_million: f64,
    packets_per_second: f64,
    lost: Option<f64>,
}

/// Sends the traffic while `watcher` captures on the left side, and measures its CPU time.
fn pass(cable: &Cable, folder: &Path, sender: Sender, watcher: &Running) -> Cost {
    let (before, start) = (watcher.cpu_seconds(), Instant::now());
    assert!(sender.start(cable, folder, TIMES).succeeds());
    let seconds = start.elapsed().as_secs_f64();
    // Packets that are still in buffers are processed, too.
    std::thread::sleep(Duration::from_secs(1));
    let packets = (TIMES * SAMPLE) as f64;
    Cost {
        seconds_per_million: (watcher.cpu_seconds() - before) / packets * 1e6,
        packets_per_second: packets / seconds,
        lost: None,
    }
}

fn pass_softflowd(cable: &Cable, folder: &Path, sender: Sender) -> Cost {
    let mut command = Cable::command(&cable.left, "softflowd");
    command
        .args(["-d", "-i", "cable", "-c", "none", "-p"])
        .arg(folder.join("pid"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let watcher = Running::start(&mut command);
    std::thread::sleep(Duration::from_secs(1));
    pass(cable, folder, sender, &watcher)
}

fn pass_agent(cable: &Cable, folder: &Path, sender: Sender) -> Cost {
    let watcher = agent(cable, folder, &["-i", "cable"]);
    let cost = pass(cable, folder, sender, &watcher);
    let text = scrape(folder);
    let edges: f64 = values(&text, "crane_sketch_edges_total").sum();
    let lost = lost(&text);
    assert_eq!(
        edges + lost,
        (TIMES * SAMPLE) as f64,
        "every packet is stored or counted as lost"
    );
    Cost {
        lost: Some(lost),
        ..cost
    }
}

/// Compares CPU time with softflowd, in alternate rounds.
fn beside_softflowd(folder: &Path) {
    println!(
        "\nlive on a veth pair, {} packets, the best of {ROUNDS} rounds",
        TIMES * SAMPLE
    );
    println!(
        "{:<22} {:<12} {:>11} {:>22} {:>14} {:>8}",
        "", "", "x softflowd", "CPU s a million packets", "k packets/s", "lost"
    );
    for sender in [Sender::Tcpreplay, Sender::Trafgen] {
        let (mut softflowd, mut crane): (Vec<Cost>, Vec<Cost>) = Default::default();
        for _ in 0..ROUNDS {
            let Some(cable) = Cable::lay() else { return };
            softflowd.push(pass_softflowd(&cable, folder, sender));
            crane.push(pass_agent(&cable, folder, sender));
        }
        let least = |costs: &[Cost]| {
            let each = costs.iter().map(|cost| cost.seconds_per_million);
            each.fold(f64::INFINITY, f64::min)
        };
        let base = least(&softflowd);
        for (name, costs) in [("softflowd", softflowd), ("crane-agent", crane)] {
            let cost = least(&costs);
            let rates = costs.iter().map(|cost| cost.packets_per_second / 1e3);
            let rate = rates.fold(0.0, f64::max);
            let lost: Option<f64> = costs.iter().map(|cost| cost.lost).sum();
            let lost = lost.map_or("?".into(), |lost| lost.to_string());
            println!(
                "{:<22} {name:<12} {:>11.2} {cost:>22.3} {rate:>14.0} {lost:>8}",
                sender.name(),
                cost / base
            );
        }
    }
}

/// Duration of scrapes of 100 interfaces while one of them is fully loaded.
fn scrapes_under_load(folder: &Path) {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_idle(100);
    let agent = agent(&cable, folder, &[]);
    // Traffic on every interface, so that each exports heavy hitters.
    for n in 0..50 {
        let mut send = Cable::command(&cable.left, "tcpreplay");
        send.args(["-q", "--pps=20000", "--limit=1000", "-i"])
            .arg(format!("idle{n}"))
            .arg(folder.join("sample.pcap"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        assert!(send.status().unwrap().success());
    }
    std::thread::sleep(Duration::from_secs(1));
    let measure = |count: usize| {
        let mut took: Vec<f64> = (0..count)
            .map(|_| {
                let start = Instant::now();
                scrape(folder);
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        took.sort_by(f64::total_cmp);
        (took[count / 2], took[count * 99 / 100], took[count - 1])
    };
    let idle = measure(100);
    let mut sender = Sender::Tcpreplay.start(&cable, folder, 1000);
    std::thread::sleep(Duration::from_secs(1));
    let start = Instant::now();
    let loaded = measure(SCRAPES);
    let seconds = start.elapsed().as_secs_f64();
    assert!(
        sender.0.try_wait().unwrap().is_none(),
        "the sender has ended before the measurement"
    );
    sender.stop("-INT");
    std::thread::sleep(Duration::from_secs(1));
    let text = scrape(folder);
    let packets: f64 = values(&text, "crane_capture_packets_total").sum();
    let interfaces = values(&text, "crane_interface_up").count();
    println!(
        "\n/metrics with {interfaces} interfaces, {} KiB",
        text.len() >> 10
    );
    println!(
        "{:<22} {:>10} {:>10} {:>10}",
        "milliseconds", "median", "99 %", "most"
    );
    for (what, (median, most, max)) in [("idle", idle), ("under load", loaded)] {
        println!("{what:<22} {median:>10.2} {most:>10.2} {max:>10.2}");
    }
    println!(
        "{SCRAPES} scrapes in {seconds:.1} s under load: {packets} packets, {} lost",
        lost(&text)
    );
    drop(agent);
}

/// Memory and CPU time of 500 interfaces without traffic.
fn many_interfaces(folder: &Path) {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_idle(500);
    let agent = agent(&cable, folder, &["--window", "10s"]);
    std::thread::sleep(Duration::from_secs(2));
    let before = agent.cpu_seconds();
    std::thread::sleep(Duration::from_secs(IDLE_SECONDS));
    let share = (agent.cpu_seconds() - before) / IDLE_SECONDS as f64;
    // Every interface has two windows, which is the largest memory.
    let text = eventually("two windows", || {
        let text = scrape(folder);
        let complete = values(&text, "crane_window_complete").sum::<f64>();
        (complete as usize == values(&text, "crane_window_complete").count()).then_some(text)
    });
    let sketches: f64 = values(&text, "crane_sketch_memory_bytes").sum();
    println!(
        "\n{} interfaces, idle",
        values(&text, "crane_interface_up").count()
    );
    println!("sketches, MiB   {:>8.1}", sketches / 1048576.0);
    println!("resident, MiB   {:>8}", agent.resident_bytes() >> 20);
    println!("CPU, %          {:>8.2}", share * 100.0);
}

fn main() {
    // `cargo test --benches` only checks that the program starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make_sample(folder.path());
    beside_softflowd(folder.path());
    scrapes_under_load(folder.path());
    many_interfaces(folder.path());
}
