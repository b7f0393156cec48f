//! Packets lost under load: in a flood in which every packet is another pair, with large and
//! small memory; and with questions in process and by HTTP. CPU time and memory of 100 busy
//! interfaces without questions. The last two capture on interfaces and need root.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::net::{Cable, LEFT};
use common::{AGENT, Running, values};
use crane_agent::config::Config;
use crane_agent::config::length::WindowLength;
use crane_agent::config::size::Size;
use crane_agent::ring::pipeline::{InterfaceWriter, Mode, Pipeline};
use crane_agent::sketches::key::Key;
use crane_agent::traffic::edge::{Edge, Pair};
use crane_agent::traffic::endpoint::{Between, Endpoint};
use crane_agent::traffic::service::Service;
use crane_agent::traffic::slot::Slot;

const SECONDS: f64 = 12.0;
/// Packets that are written to the ring at a time.
const CHUNK: usize = 256;
const PAIRS: u32 = 1000;

/// A pseudorandom number for each `n`.
fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

/// The pair of a flood: another one for each `n`.
fn forged(n: u64) -> Pair {
    let bits = mixed(n);
    Pair::V4(((bits >> 32) as u32).into(), (bits as u32).into())
}

fn known(n: u64) -> Pair {
    Pair::V4((n as u32 % PAIRS).into(), 1.into())
}

/// Writes `rate` packets a second for [`SECONDS`]. Returns the number of packets, and the number
/// of those that did not fit into the ring.
fn send(writer: &mut InterfaceWriter, rate: f64, pair: impl Fn(u64) -> Pair) -> (u64, usize) {
    let (begun, mut sent, mut lost) = (Instant::now(), 0u64, 0);
    let mut slots = Vec::new();
    while begun.elapsed().as_secs_f64() < SECONDS {
        while (sent as f64) < begun.elapsed().as_secs_f64() * rate {
            for n in sent..sent + CHUNK as u64 {
                let edge = Edge {
                    name: pair(n).name(),
                    service: Service::of_code(mixed(n) as u32 % 65_536),
                    bytes: 60,
                    time: 0,
                };
                Slot::write(&edge, &mut slots);
            }
            sent += CHUNK as u64;
            writer.ring.push(&mut slots);
            lost += slots.len();
            slots.clear();
        }
        thread::sleep(Duration::from_micros(200));
    }
    (sent, lost)
}

fn pipeline(memory: Size, window: u64) -> Pipeline {
    let mut config = Config::default();
    config.sketch.memory = memory;
    config.sketch.memory_total = Size(1 << 30);
    let mode = Mode::Live(1, WindowLength::seconds(window));
    Pipeline::start(&config, mode, &Key::of_seed(1)).unwrap()
}

fn flood() {
    println!("\nin process: forged packets at 400 k/s for {SECONDS} s, one core for the sketch");
    println!("{:>14} {:>10} {:>8}", "sketch.memory", "packets", "lost");
    for mebibytes in [2, 64, 128, 256] {
        let mut pipeline = pipeline(Size(mebibytes << 20), 3600);
        let mut writer = pipeline.add("flood").unwrap();
        let (sent, lost) = send(&mut writer, 4e5, forged);
        drop(writer);
        pipeline.finish(None).unwrap();
        println!("{:>14} {sent:>10} {lost:>8}", format!("{mebibytes} MiB"));
    }
}

/// Asks about pairs of the last window while packets are stored.
fn questions_in_process() {
    let mut pipeline = pipeline(Config::default().sketch.memory, 1);
    let mut writer = pipeline.add("busy").unwrap();
    let snapshot = pipeline.snapshot();
    let stop = AtomicBool::new(false);
    let (asked, (sent, lost)) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut begun, mut asked) = (None, 0u32);
            while !stop.load(Relaxed) {
                let view = snapshot.load();
                let Some(last) = view.interfaces.first().and_then(|one| one.last.clone()) else {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let begun = *begun.get_or_insert_with(Instant::now);
                while f64::from(asked) < begun.elapsed().as_secs_f64() * 1e4 {
                    let address = |n: u32| Endpoint::Address(IpAddr::V4(Ipv4Addr::from(n)));
                    let ends = Between {
                        src: address(asked % PAIRS),
                        dst: address(1),
                    };
                    std::hint::black_box(last.flow(&ends, false, None).unwrap());
                    asked += 1;
                }
                thread::sleep(Duration::from_micros(500));
            }
            f64::from(asked) / begun.unwrap().elapsed().as_secs_f64()
        });
        let sent = send(&mut writer, 3e5, |n| match n % 2 {
            0 => known(n),
            _ => forged(n),
        });
        stop.store(true, Relaxed);
        (asking.join().unwrap(), sent)
    });
    drop(writer);
    pipeline.finish(None).unwrap();
    println!("\n{asked:.0} questions/s in process beside 300 k packets/s: {lost} of {sent} lost");
}

/// An agent on the left side with a unix socket, which can be reached from all network
/// namespaces.
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

fn metrics(folder: &Path) -> String {
    let mut stream = UnixStream::connect(folder.join("socket")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn sample(path: &Path, packets: u64, kind: &str) {
    let made = Command::new(AGENT)
        .args(["sample", "--kind", kind, "--packets", &packets.to_string()])
        .arg(path)
        .stdout(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

/// Asks one question after the other, each over a new connection.
fn questions_by_http(folder: &Path) {
    let Some(cable) = Cable::lay() else { return };
    let capture = folder.join("hostile.pcap");
    sample(&capture, 500_000, "hostile");
    let _agent = agent(&cable, folder, &["-i", "cable", "--window", "2s"]);
    let mut sender = Cable::command(&cable.right, "tcpreplay");
    sender
        .args([
            "-q",
            "--preload-pcap",
            "--pps=300000",
            "--loop=1000",
            "-i",
            "cable",
        ])
        .arg(&capture)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut sender = Running::start(&mut sender);
    thread::sleep(Duration::from_secs(6));
    let before: f64 = values(&metrics(folder), "crane_capture_packets_total").sum();
    let (begun, mut took) = (Instant::now(), Vec::new());
    while begun.elapsed().as_secs_f64() < SECONDS {
        while (took.len() as f64) < begun.elapsed().as_secs_f64() * 1e3 {
            let at = Instant::now();
            let mut stream = UnixStream::connect(folder.join("socket")).unwrap();
            let query = format!("src=10.0.{}.1&dst={LEFT}&window=last", took.len() % 256);
            let request = format!("GET /api/v1/flow?{query} HTTP/1.1\r\nHost: agent\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            took.push(at.elapsed().as_secs_f64() * 1e3);
        }
        thread::sleep(Duration::from_micros(300));
    }
    let seconds = begun.elapsed().as_secs_f64();
    let text = metrics(folder);
    assert!(
        sender.0.try_wait().unwrap().is_none(),
        "the sender has ended before the measurement"
    );
    let packets = values(&text, "crane_capture_packets_total").sum::<f64>() - before;
    let lost: f64 = values(&text, "crane_capture_dropped_packets_total").sum();
    took.sort_by(f64::total_cmp);
    println!(
        "{:.0} questions/s by HTTP beside {:.0} k packets/s: {lost} lost; median {:.2} ms, 99 % {:.2} ms",
        took.len() as f64 / seconds,
        packets / seconds / 1e3,
        took[took.len() / 2],
        took[took.len() * 99 / 100],
    );
}

/// The share of a core that the agent takes, without questions, with lists and with rates of the
/// last seconds, each asked for once a second.
fn questions_about_rates(folder: &Path) {
    const MEASURED: Duration = Duration::from_secs(8);
    let Some(cable) = Cable::lay() else { return };
    let capture = folder.join("skewed.pcap");
    sample(&capture, 500_000, "skewed");
    let agent = agent(&cable, folder, &["-i", "cable", "--window", "10s"]);
    let mut sender = Cable::command(&cable.right, "tcpreplay");
    sender
        .args(["-q", "--preload-pcap", "--pps=100000", "--loop=1000", "-i"])
        .arg("cable")
        .arg(&capture)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _sender = Running::start(&mut sender);
    thread::sleep(Duration::from_secs(5));
    println!("\nquestions about the current window once a second, beside 100 k packets/s");
    let lists = "interface=cable&window=current";
    for (what, query) in [
        ("none", None),
        ("lists", Some(lists.to_owned())),
        (
            "lists with rates",
            Some(format!("{lists}&by=rate_2s&rates=true")),
        ),
    ] {
        let (begun, before) = (Instant::now(), agent.cpu_seconds());
        while begun.elapsed() < MEASURED {
            if let Some(query) = &query {
                let mut stream = UnixStream::connect(folder.join("socket")).unwrap();
                let path = format!("/api/v1/heavy-hitters?{query}");
                let request = format!("GET {path} HTTP/1.0\r\nHost: agent\r\n\r\n");
                stream.write_all(request.as_bytes()).unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                assert!(answer.contains(" 200 "), "{answer}");
            }
            thread::sleep(Duration::from_secs(1));
        }
        let share = (agent.cpu_seconds() - before) / begun.elapsed().as_secs_f64();
        println!("{what:<18} {:>6.1} % of a core", share * 100.0);
    }
}

/// Seconds of CPU that the thread with this name has used.
fn thread_seconds(agent: &Running, name: &str) -> f64 {
    let tasks = format!("/proc/{}/task", agent.0.id());
    let stats = std::fs::read_dir(tasks)
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let of = |stat: String| {
        let (head, tail) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = tail.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?;
        head.ends_with(&format!("({name}")).then_some(ticks / 100.0)
    };
    stats.filter_map(of).sum()
}

fn busy_interfaces(folder: &Path) {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_idle(100);
    let pairs = folder.join("pairs.pcap");
    let frames: Vec<Vec<u8>> = (0..PAIRS)
        .map(|n| common::frame(common::address(n), common::address(PAIRS), 40))
        .collect();
    common::write_pcap(&pairs, &frames);
    let agent = agent(&cable, folder, &["-i", "idle*", "--window", "10s"]);
    thread::sleep(Duration::from_secs(3));
    let idle = agent.resident_bytes();
    let before = thread_seconds(&agent, "sketch");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(25) {
        for n in 0..50 {
            // Both ends of the pair of interfaces are captured.
            let mut send = Cable::command(&cable.left, "tcpreplay");
            send.args(["-q", "--topspeed", "-i"])
                .arg(format!("idle{n}"))
                .arg(&pairs)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            assert!(send.status().unwrap().success());
        }
    }
    thread::sleep(Duration::from_secs(1));
    let seconds = begun.elapsed().as_secs_f64();
    let share = (thread_seconds(&agent, "sketch") - before) / seconds;
    let grown = agent.resident_bytes().saturating_sub(idle);
    let text = metrics(folder);
    let packets: f64 = values(&text, "crane_capture_packets_total").sum();
    let lost: f64 = values(&text, "crane_capture_dropped_packets_total").sum();
    println!(
        "\n{} busy interfaces with {PAIRS} pairs each, without questions: {packets} packets, {lost} lost",
        values(&text, "crane_interface_up").count()
    );
    println!(
        "worker, including storing and ending windows: {:.2} % of a core",
        share * 100.0
    );
    println!(
        "resident beyond the idle agent: {:.1} MiB",
        grown as f64 / 1_048_576.0
    );
}

fn main() {
    // `cargo test --benches` only checks that the program starts.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    flood();
    questions_in_process();
    questions_by_http(folder.path());
    questions_about_rates(folder.path());
    busy_interfaces(folder.path());
}
