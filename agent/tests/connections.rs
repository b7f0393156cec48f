//! Many connections and many queries at the same time as a scrape.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::net::Cable;
use common::{AGENT, Running, address, eventually, frame, free_port, series, write_pcap};

/// Raises the limit of open files of this process, which is too low in most shells.
fn raise_file_limit() {
    let me = std::process::id().to_string();
    let raised = Command::new("prlimit")
        .args(["--pid", &me, "--nofile=4096:"])
        .status();
    assert!(raised.unwrap().success());
}

/// An agent that serves a small capture on TCP and on a socket, with the usual limit of
/// open files.
fn serving(folder: &Path) -> (Running, SocketAddr) {
    write_pcap(
        &folder.join("small.pcap"),
        &vec![frame(address(1), address(2), 10); 100],
    );
    let socket = folder.join("api.sock");
    std::fs::write(
        folder.join("agent.toml"),
        format!("[export]\nsocket = {socket:?}\n"),
    )
    .unwrap();
    let server = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new("prlimit");
    command
        .args(["--nofile=1024", AGENT, "replay", "small.pcap", "--serve"])
        .args(["-c", "agent.toml"])
        .arg(format!("--listen={server}"))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.wait_for_line("all packets replayed");
    (running, server)
}

/// The whole answer to a request.
fn exchange(mut stream: impl Read + Write, path: &str) -> std::io::Result<String> {
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// How long a scrape takes: the median of twenty. Even the slowest must take less than a
/// second, the time after which a connection request is repeated.
fn scrape<S: Read + Write>(connect: impl Fn() -> S) -> Duration {
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let start = Instant::now();
            let text = exchange(connect(), "/metrics").unwrap();
            assert!(text.contains("crane_capture_packets_total{"), "{text}");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    assert!(times[19] < Duration::from_secs(1), "{times:?}");
    times[times.len() / 2]
}

#[test]
fn a_thousand_idle_connections_delay_no_scrape() {
    raise_file_limit();
    let folder = tempfile::tempdir().unwrap();
    let (_agent, server) = serving(folder.path());
    let tcp = || TcpStream::connect_timeout(&server, Duration::from_secs(2)).unwrap();
    let unix = || UnixStream::connect(folder.path().join("api.sock")).unwrap();
    // They send nothing, or only the beginning of a request, or requests without reading
    // the answers.
    let many = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let requests = ["", "GET /metrics HTTP/1.1\r\nHost: ", &many];
    for sent in requests {
        let connections: Vec<TcpStream> = (0..1000)
            .map(|_| {
                let mut stream = tcp();
                let _ = stream.write_all(sent.as_bytes());
                stream
            })
            .collect();
        for (listener, time) in [("TCP", scrape(tcp)), ("the unix socket", scrape(unix))] {
            assert!(
                time < Duration::from_millis(100),
                "{time:?} on {listener} beside {sent:.30?}"
            );
        }
        drop(connections);
    }
    // The same on the socket.
    let connections: Vec<UnixStream> = (0..1000).map(|_| unix()).collect();
    for (listener, time) in [("TCP", scrape(tcp)), ("the unix socket", scrape(unix))] {
        assert!(time < Duration::from_millis(100), "{time:?} on {listener}");
    }
    drop(connections);
}

/// Packets a second; the number of pairs, and how often each is sent.
const RATE: u32 = 150_000;
const PAIRS: u32 = 450_000;
const TIMES: u32 = 2;
/// Queries, one every millisecond.
const QUERIES: u32 = 3000;

/// The nth pair.
fn pair(n: u32) -> (Ipv4Addr, Ipv4Addr) {
    (address(n), address(n % 1000))
}

#[test]
fn a_thousand_queries_a_second_cost_no_packet() {
    let Some(cable) = Cable::lay() else { return };
    raise_file_limit();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("api.sock");
    // A large sketch and small batches: answering each query separately would take longer
    // than the time between two queries.
    let config = format!(
        "[export]\nsocket = {socket:?}\n\
         [sketch]\nmemory = \"12 MiB\"\nnode_percent = 10\nbatch = 64\n"
    );
    let file = folder.path().join("agent.toml");
    std::fs::write(&file, config).unwrap();
    let capture = folder.path().join("scattered.pcap");
    let frames = (0..PAIRS)
        .map(pair)
        .map(|(src, dst)| frame(src, dst, 0))
        .collect::<Vec<_>>();
    write_pcap(&capture, &frames);
    let _agent = cable.capture(&["-i", "cable", "-c", file.to_str().unwrap()]);
    let counters = || {
        let text = cable.metrics();
        let of_cable = ("interface", "cable");
        let dropped = ["ring_full", "kernel"].map(|reason| {
            let labels = [of_cable, ("reason", reason)];
            series(&text, "crane_capture_dropped_packets_total", &labels).unwrap()
        });
        let edges = series(&text, "crane_sketch_edges_total", &[of_cable]);
        (edges.unwrap(), dropped)
    };

    let mut sender = cable.send("cable", &capture, RATE, TIMES);
    eventually(
        "enough pairs for estimates instead of exact answers",
        || (counters().0 > 0.8 * f64::from(PAIRS)).then_some(()),
    );
    let (asked, waiting) = mpsc::channel::<UnixStream>();
    let reader = thread::spawn(move || {
        let answers = waiting.into_iter().map(|mut stream| {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let right = answers.filter(|answer| {
            answer.starts_with("HTTP/1.0 200") && answer.contains("\"window\":\"current\"")
        });
        right.count()
    });
    let start = Instant::now();
    for n in 0..QUERIES {
        let due = Duration::from_millis(n.into());
        thread::sleep(due.saturating_sub(start.elapsed()));
        let (src, dst) = pair(n);
        let path = format!("/api/v1/flow?src={src}&dst={dst}&window=current");
        let mut stream = UnixStream::connect(&socket).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        asked.send(stream).unwrap();
    }
    let took = start.elapsed();
    drop(asked);
    let answered = reader.join().unwrap();
    assert_eq!(answered, QUERIES as usize, "all are answered");
    assert!(took < Duration::from_secs(6), "{took:?} to ask");

    assert!(sender.succeeds());
    let sent = f64::from(PAIRS * TIMES);
    eventually("all packets counted", || {
        let (edges, dropped) = counters();
        assert_eq!(dropped, [0.0; 2], "lost in the ring, in the kernel");
        (edges == sent).then_some(())
    });
}
