//! Helpers shared by the tests of the whole program.
#![allow(dead_code, clippy::unwrap_used, clippy::print_stderr)]

pub mod dashboards;
pub mod disk;
#[path = "../../src/decode/testing/frame.rs"]
pub mod frame;
pub mod lines;
pub mod lookup;
#[path = "../../src/lookup/testing.rs"]
pub mod mmdb;
pub mod net;
#[path = "../../src/decode/testing/packets.rs"]
pub mod packets;
pub mod state;
pub mod tls;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde_json::Value;

pub const AGENT: &str = env!("CARGO_BIN_EXE_crane-agent");

/// Limit for anything that normally takes a moment, generous for a machine that is busy
/// with other things.
pub const MOMENT: Duration = Duration::from_secs(30);
/// Limit for every wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// All commands.
pub const COMMANDS: [&str; 10] = [
    "run",
    "replay",
    "query",
    "top",
    "export",
    "interfaces",
    "check-config",
    "sample",
    "man",
    "completions",
];

pub fn agent(args: &[&str]) -> Output {
    Command::new(AGENT)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

/// A block of a pcapng.
pub fn pcapng_block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes(), &length[..], body, &length].concat()
}

/// The first block of a pcapng.
pub fn pcapng_head() -> Vec<u8> {
    pcapng_block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, !0, !0]))
}

/// Numbers in little-endian bytes, as in a capture file.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// The nth address of 10.0.0.0/8.
pub fn address(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + n)
}

/// A frame that is not IP.
pub fn arp() -> Vec<u8> {
    [&[2; 12][..], &[8, 6], &[0; 46]].concat()
}

/// A frame from one IPv4 address to another with `payload` bytes of UDP.
pub fn frame(src: Ipv4Addr, dst: Ipv4Addr, payload: usize) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4(src.octets(), dst.octets(), 64)
        .udp(1000, 2000);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &vec![0; payload]).unwrap();
    bytes
}

/// Writes frames as an Ethernet capture, a millisecond apart.
pub fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    write_capture(path, 1, frames);
}

/// Writes packets of any link type, a millisecond apart.
pub fn write_capture(path: &Path, link: u32, packets: &[Vec<u8>]) {
    let mut bytes = Vec::new();
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
    };
    words(&mut bytes, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, link]);
    for (n, packet) in packets.iter().enumerate() {
        let length = packet.len() as u32;
        let n = n as u32;
        words(
            &mut bytes,
            &[1_700_000_000 + n / 1000, n % 1000 * 1000, length, length],
        );
        bytes.extend(packet);
    }
    std::fs::write(path, bytes).unwrap();
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// An HTTP GET on loopback; status line and body.
pub fn get(port: u16, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(MOMENT)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.lines().next()?.to_owned(), body.to_owned()))
}

/// An agent that has replayed `capture` in this folder and serves it, and its port.
pub fn serving(folder: &Path, capture: &str, args: &[&str]) -> (Running, u16) {
    let port = free_port();
    let mut command = Command::new(AGENT);
    command
        .args(["replay", capture, "--serve"])
        .args(args)
        .arg(format!("--listen=127.0.0.1:{port}"))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.wait_for_line("all packets replayed");
    (running, port)
}

/// The weights of the packed profile with a longer header, so that their checksum
/// differs.
pub fn other_weights() -> Vec<u8> {
    let built_in = std::fs::read(workspace().join("weights/packed.safetensors")).unwrap();
    let (size, rest) = built_in.split_first_chunk::<8>().unwrap();
    let padded = (u64::from_le_bytes(*size) + 8).to_le_bytes();
    let (head, data) = rest.split_at(u64::from_le_bytes(*size) as usize);
    [&padded[..], head, &[b' '; 8], data].concat()
}

/// Calls `ask` until it returns a value. Fails after a minute.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(
            start.elapsed() < LONGEST_WAIT,
            "time limit exceeded: {what}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A process that is killed at the end of its test.
pub struct Running(pub Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// Limits its number of file descriptors.
    pub fn limit(&self, descriptors: usize) {
        let pid = self.0.id().to_string();
        let given = format!("--nofile={descriptors}:4096");
        let done = Command::new("prlimit")
            .args(["--pid", &pid, &given])
            .status();
        assert!(done.unwrap().success());
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// Sends a signal and waits for the end. Returns the exit code and how long it took.
    pub fn stop(&mut self, signal: &str) -> (Option<i32>, Duration) {
        let start = Instant::now();
        self.signal(signal);
        let code = self.0.wait().unwrap().code();
        (code, start.elapsed())
    }

    /// Waits for the end. Returns whether the exit code is 0.
    pub fn succeeds(&mut self) -> bool {
        self.0.wait().unwrap().success()
    }

    /// CPU time used so far, in seconds. Also works after its end, until it is waited
    /// for.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let (_, behind_name) = stat.rsplit_once(") ").unwrap();
        let ticks = behind_name.split(' ').skip(11).take(2);
        let ticks: f64 = ticks.map(|field| field.parse::<f64>().unwrap()).sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
        1024 * kilobytes.parse::<u64>().unwrap()
    }

    /// Reads standard error until a line contains `text`, a minute at most; returns that line.
    pub fn wait_for_line(&mut self, text: &str) -> String {
        let (mut seen, mut line) = (String::new(), Vec::new());
        let stderr = self.0.stderr.as_mut().unwrap();
        let until = Instant::now() + LONGEST_WAIT;
        let has_more = |stderr: &ChildStderr| {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).unwrap();
            let mut waits = [PollFd::new(stderr, PollFlags::IN)];
            rustix::event::poll(&mut waits, Some(&left)).unwrap() > 0
        };
        // Reads byte by byte, because a buffer would consume the following lines.
        let mut byte = [0];
        while has_more(stderr) && stderr.read_exact(&mut byte).is_ok() {
            line.extend(byte);
            if line.ends_with(b"\n") {
                let whole = String::from_utf8_lossy(&line).into_owned();
                if whole.contains(text) {
                    return whole;
                }
                seen += &whole;
                line.clear();
            }
        }
        panic!("no line with {text:?}: {seen}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The value of a series in Prometheus' text format; labels in any order.
pub fn series(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix('{')?;
        let (found, value) = rest.rsplit_once("} ")?;
        let all = labels
            .iter()
            .all(|(key, value)| found.contains(&format!("{key}=\"{value}\"")));
        if all { value.parse().ok() } else { None }
    })
}

/// All values of a family.
pub fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    let series = text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with('{').then_some(rest)
    });
    series.filter_map(|rest| rest.rsplit_once("} ")?.1.parse().ok())
}

pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}
