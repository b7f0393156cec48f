//! Tests of the HTTP server and its client through their interfaces.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    AGENT, Running, address, agent, arp, frame, free_port, get, json, series, stderr, write_pcap,
};
use serde_json::{Value, json};

/// An agent that has replayed a small capture and serves it. Windows are of
/// 100 ms, packets a millisecond apart: two windows and a half.
fn serving(folder: &Path, config: &str) -> (Running, u16) {
    let capture = folder.join("small.pcap");
    let mut frames = Vec::new();
    for n in 0..250u32 {
        frames.push(match n {
            7 => arp(),
            // Heavier in the second window by packets, lighter by bytes.
            0..100 => frame(address(1), address(2), 1000),
            100..180 => frame(address(3), address(4), 10),
            180..200 => frame(address(5), address(4), 1400),
            _ => frame(address(8), address(9), 10),
        });
    }
    write_pcap(&capture, &frames);
    let file = folder.join("agent.toml");
    std::fs::write(&file, config).unwrap();
    let args = ["--window", "100ms", "-c", "agent.toml"];
    common::serving(folder, "small.pcap", &args)
}

fn ask(port: u16, path: &str) -> (String, Value) {
    let (status, body) = get(port, path).unwrap();
    let code = status.split(' ').nth(1).unwrap().to_owned();
    let value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
    (code, value)
}

/// The numbers of a pair or a node that is known exactly.
fn exactly(packets: u64, bytes: u64) -> Value {
    json!({
        "packets": packets, "low": packets, "high": packets,
        "at_least": packets, "at_most": packets,
        "bytes": bytes, "bytes_low": bytes, "bytes_high": bytes,
        "bytes_at_least": bytes, "bytes_at_most": bytes,
    })
}

#[test]
fn every_path_answers_and_errors_name_the_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let (_agent, port) = serving(folder.path(), "");
    assert_eq!(get(port, "/healthz").unwrap().1, "ok\n");
    assert_eq!(get(port, "/readyz").unwrap().1, "ok\n");

    let (code, answer) = ask(port, "/api/v1/interfaces");
    let interface = &answer["interfaces"][0];
    assert_eq!((code.as_str(), &interface["packets"]), ("200", &json!(250)));
    assert_eq!(interface["interface"], "small.pcap");
    assert_eq!(interface["ignored"]["not_ip"], 1);
    assert_eq!(interface["last"]["packets"], 50);

    let (_, answer) = ask(
        port,
        "/api/v1/heavy-hitters?interface=small.pcap&window=last&by=bytes",
    );
    let pairs = answer["interfaces"][0]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 1);
    assert_eq!(
        (&pairs[0]["src"], &pairs[0]["packets"]),
        (&json!("10.0.0.8"), &json!(50))
    );
    assert_eq!(answer["interfaces"][0]["sources"][0]["ip"], "10.0.0.8");
    // The last window of a file ends with its last packet.
    assert_eq!(answer["interfaces"][0]["seconds"], 0.049);

    let (_, answer) = ask(port, "/api/v1/flow?src=10.0.0.8&dst=10.0.0.9");
    let exact = exactly(50, 50 * 52);
    assert_eq!(answer["interfaces"][0]["estimate"], exact);
    let (_, answer) = ask(port, "/api/v1/node?ip=10.0.0.9&window=last");
    assert_eq!(answer["interfaces"][0]["received"], exact);
    assert_eq!(answer["interfaces"][0]["sent"]["packets"], 0);
    assert!(answer["interfaces"][0].get("pairs").is_none());
    let (_, answer) = ask(
        port,
        "/api/v1/flow?src=10.0.0.8&dst=10.0.0.9&window=current",
    );
    assert_eq!(
        answer["interfaces"][0]["estimate"]["packets"], 0,
        "no packet arrived after the end"
    );

    for (path, code, part) in [
        ("/api/v1/flow?dst=10.0.0.1", "400", "src is missing"),
        ("/api/v1/flow?src=10.0.0.1&dst=me", "400", "dst=me"),
        (
            "/api/v1/flow?src=10.0.0.1&dst=::2",
            "400",
            "the same kind as src",
        ),
        (
            "/api/v1/flow?src=::1&dst=::2&window=next",
            "400",
            "current or last",
        ),
        (
            "/api/v1/flow?src=::1&dst=::2&interface=eth9",
            "400",
            "one of small.pcap",
        ),
        ("/api/v1/node?ip=1.2.3.4.5", "400", "ip=1.2.3.4.5"),
        ("/api/v1/node?ip=1.2.3.4&top=0", "400", "1 to 500"),
        ("/api/v1/node?ip=1.2.3.4&top=9", "400", "give interface"),
        ("/api/v1/sketch", "400", "give interface"),
        (
            "/api/v1/node?ip=1.2.3.4&top=9&by=size",
            "400",
            "packets or bytes",
        ),
        (
            "/api/v1/heavy-hitters?by=color",
            "400",
            "packets, bytes, rate_2s or",
        ),
        (
            "/api/v1/heavy-hitters?most=5",
            "400",
            "unknown parameter most",
        ),
        ("/api/v1/interfaces?x=1", "400", "unknown parameter x"),
        ("/api/v1/node?ip=::1&ip=::2", "400", "ip is given twice"),
        ("/api/v2/flow", "404", "no such path"),
    ] {
        let (seen, answer) = ask(port, path);
        let error = answer["error"].as_str().unwrap();
        assert_eq!(seen, code, "{path}");
        assert!(error.contains(part), "{path}: {error}");
    }
}

#[test]
fn the_watch_list_and_the_last_window_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    let watch = "[export]\nwatch = [{src = \"10.0.0.8\", dst = \"10.0.0.9\"}, {src = \"::1\", dst = \"::2\"}, \
                 {src = \"10.0.0.8\", dst = \"10.0.0.9\"}, {src = \"::ffff:10.0.0.8\", dst = \"::ffff:10.0.0.9\"}]\n";
    let (_agent, port) = serving(folder.path(), watch);
    let text = get(port, "/metrics").unwrap().1;
    let watched = |src: &str| series(&text, "crane_flow_estimate_packets", &[("src", src)]);
    assert_eq!(watched("10.0.0.8"), Some(50.0));
    assert_eq!(watched("::1"), Some(0.0));
    let lines = text
        .lines()
        .filter(|line| line.starts_with("crane_flow_estimate_packets{"));
    assert_eq!(
        lines.count(),
        3,
        "a pair that is configured twice has one series"
    );
    assert_eq!(
        watched("::ffff:10.0.0.8"),
        Some(0.0),
        "an IPv4-mapped IPv6 address is not IPv4"
    );
    let of_file = [("interface", "small.pcap")];
    assert_eq!(series(&text, "crane_window_packets", &of_file), Some(50.0));
    assert_eq!(series(&text, "crane_window_complete", &of_file), Some(1.0));
    assert_eq!(
        series(&text, "crane_capture_packets_total", &of_file),
        Some(250.0)
    );
    let hitters = text
        .lines()
        .filter(|line| line.starts_with("crane_heavy_hitter_packets{"));
    assert_eq!(
        hitters.count(),
        1,
        "a pair that was heavy before is not exported"
    );
    assert!(
        text.lines()
            .any(|line| line.starts_with("process_resident_memory_bytes "))
    );
}

#[test]
fn query_and_top_work_over_tcp_and_over_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("api.sock");
    let config = format!("[export]\nsocket = {socket:?}\n");
    let (running, port) = serving(folder.path(), &config);
    for place in [
        format!("127.0.0.1:{port}"),
        // As in the log, and shortened.
        format!("http://127.0.0.1:{port}/metrics"),
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}"),
        socket.to_str().unwrap().to_owned(),
    ] {
        let pair = [
            "query", "--src", "10.0.0.8", "--dst", "10.0.0.9", "--agent", &place,
        ];
        let output = agent(&pair);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            text.contains("small.pcap") && text.contains("50 packets, exact"),
            "{text}{}",
            stderr(&output)
        );
        let node = agent(&[
            "query", "--node", "10.0.0.9", "--format", "json", "--agent", &place,
        ]);
        assert_eq!(json(&node)["interfaces"][0]["received"]["packets"], 50);
        let top = String::from_utf8(agent(&["top", "--agent", &place]).stdout).unwrap();
        let pair = |line: &str| line.contains("10.0.0.8") && line.contains("10.0.0.9");
        assert!(top.lines().any(pair), "{top}");
    }
    let place = format!("127.0.0.1:{port}");
    let wrong = agent(&["query", "--node", "::1", "-i", "eth9", "--agent", &place]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("one of small.pcap"));
    drop(running);
    let gone = agent(&["top", "--agent", &place]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(
        stderr(&gone).contains("is it running?"),
        "{}",
        stderr(&gone)
    );

    // A stale socket is replaced; any other file is refused.
    let (_again, _) = serving(folder.path(), &config);
    let note = folder.path().join("note.txt");
    std::fs::write(&note, "keep me").unwrap();
    let config = format!("[export]\nsocket = {note:?}\n");
    std::fs::write(folder.path().join("agent.toml"), config).unwrap();
    let file = folder.path().join("agent.toml");
    let capture = folder.path().join("small.pcap");
    let (file, capture) = (file.to_str().unwrap(), capture.to_str().unwrap());
    let refused = agent(&[
        "replay",
        capture,
        "--serve",
        "--listen",
        "127.0.0.1:0",
        "-c",
        file,
    ]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("note.txt"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "keep me");
}

#[test]
fn a_query_about_the_last_window_before_it_exists_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("small.pcap");
    write_pcap(&capture, &vec![frame(address(1), address(2), 8); 100]);
    let mut command = Command::new(AGENT);
    command
        .arg("replay")
        .arg(&capture)
        .args(["--serve", "--loop", "--speed", "1", "--window", "1h"])
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    let line = running.wait_for_line("metrics are at");
    let place = line.split_whitespace().last().unwrap();
    common::eventually("an interface", || {
        let top = agent(&["top", "--format", "json", "--agent", place]);
        let some = json(&top)["interfaces"].as_array()?.is_empty();
        (!some).then_some(())
    });
    for asked in [
        &["top"][..],
        &["query", "--node", "10.0.0.1"],
        &["query", "--src", "10.0.0.1", "--dst", "10.0.0.2"],
    ] {
        for format in ["table", "json"] {
            let more = ["--window", "last", "--format", format, "--agent", place];
            let output = agent(&[asked, &more].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains("no window is complete yet"), "{said}");
            assert!(said.contains("--window current"), "{said}");
        }
    }
}

#[test]
fn slow_and_large_requests_do_not_delay_others() {
    let folder = tempfile::tempdir().unwrap();
    let (_agent, port) = serving(folder.path(), "");
    // Many connections, none of which finishes a request.
    let start = Instant::now();
    let mut slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: ")
                .unwrap();
            stream
        })
        .collect();
    let answer = common::eventually("an answer beside slow connections", || {
        get(port, "/healthz")
    });
    assert_eq!(answer.1, "ok\n");
    let mut rest = String::new();
    slow[0]
        .set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let _ = slow[0].read_to_string(&mut rest);
    assert!(
        start.elapsed() < Duration::from_secs(15),
        "a slow connection is closed"
    );
    drop(slow);

    let mut large = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(100_000)
    );
    // The server may close the connection before the request is complete.
    let _ = large.write_all(head.as_bytes());
    large
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    assert_eq!(get(port, "/healthz").unwrap().1, "ok\n");
}

#[test]
fn connections_that_read_nothing_do_not_delay_others() {
    let folder = tempfile::tempdir().unwrap();
    let (_agent, port) = serving(folder.path(), "");
    let many = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let not_reading: Vec<TcpStream> = (0..100)
        .map(|_| {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_nonblocking(true).unwrap();
            let _ = (&stream).write(many.as_bytes());
            stream
        })
        .collect();
    let answer = common::eventually("an answer beside connections that read nothing", || {
        get(port, "/healthz")
    });
    assert_eq!(answer.1, "ok\n");
    drop(not_reading);
}

#[test]
fn a_looped_replay_stays_ready_and_ends_at_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.pcap");
    write_pcap(&path, &vec![frame(address(1), address(2), 8); 100]);
    let port = free_port();
    let mut command = Command::new(AGENT);
    command
        .args([
            "replay",
            path.to_str().unwrap(),
            "--loop",
            "--serve",
            "--speed",
            "1",
        ])
        .args(["--window", "200ms"])
        .arg(format!("--listen=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.wait_for_line("metrics are at");
    let packets = |text: &str| {
        series(
            text,
            "crane_capture_packets_total",
            &[("interface", path.to_str().unwrap())],
        )
    };
    common::eventually("several rounds and a complete window", || {
        let text = get(port, "/metrics")?.1;
        let of_file = [("interface", path.to_str().unwrap())];
        let complete = series(&text, "crane_window_complete", &of_file)?;
        (packets(&text)? > 500.0 && complete == 1.0).then_some(())
    });
    assert_eq!(get(port, "/readyz").unwrap().1, "ok\n");
    let (code, took) = running.stop("-INT");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_query_about_an_address_lists_its_heaviest_peers() {
    let folder = tempfile::tempdir().unwrap();
    let few = |count, src, dst, bytes| vec![frame(address(src), address(dst), bytes); count];
    let frames = [few(5, 1, 2, 10), few(3, 3, 1, 1000), few(9, 4, 5, 10)].concat();
    write_pcap(&folder.path().join("small.pcap"), &frames);
    let (_running, port) = common::serving(folder.path(), "small.pcap", &[]);
    for (order, expected) in [
        ("top=9", vec![(1, 2, 5), (3, 1, 3)]),
        ("top=9&by=bytes", vec![(3, 1, 3), (1, 2, 5)]),
        ("top=1", vec![(1, 2, 5)]),
    ] {
        let (_, answer) = ask(
            port,
            &format!("/api/v1/node?interface=small.pcap&ip=10.0.0.1&{order}"),
        );
        let pairs = answer["interfaces"][0]["pairs"].as_array().unwrap();
        assert_eq!(pairs.len(), expected.len(), "{order}: {answer}");
        for (pair, (src, dst, packets)) in pairs.iter().zip(expected) {
            assert_eq!(pair["src"], address(src).to_string());
            assert_eq!(pair["dst"], address(dst).to_string());
            assert_eq!(pair["packets"], packets);
        }
    }
}

/// More pairs than fit: lists end where a heavier pair might be missing, and every output
/// says so. If no bound is possible, lists have the heaviest known pairs.
#[test]
fn live_lists_report_the_bound_above_which_they_are_complete() {
    for heavy in [5u32, 0] {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("crowd.pcap");
        let light = (0..20_000u32).map(|n| n.wrapping_mul(2_654_435_761));
        let mut frames: Vec<Vec<u8>> = light
            .map(|n| frame(n.into(), n.swap_bytes().into(), 10))
            .collect();
        for n in 1..=heavy {
            frames.extend((0..2000).map(|_| frame(address(n), address(100), 10)));
        }
        write_pcap(&capture, &frames);
        let config = folder.path().join("agent.toml");
        std::fs::write(&config, "[sketch]\nmemory = \"128KiB\"\n").unwrap();
        let (_agent, port) = common::serving(folder.path(), "crowd.pcap", &["-c", "agent.toml"]);
        let (_, answer) = ask(port, "/api/v1/heavy-hitters");
        let lists = &answer["interfaces"][0];
        assert_eq!(lists["exact"], false);
        let complete_above = lists["complete_above"].as_u64().unwrap();
        let pairs = lists["pairs"].as_array().unwrap();
        let incomplete = lists["incomplete"].to_string();
        let metrics = get(port, "/metrics").unwrap().1;
        let name = "crane_heavy_hitters_complete_above_packets";
        assert!(series(&metrics, name, &[]).unwrap() >= 1.0);
        let top = agent(&["top", "--agent", &format!("127.0.0.1:{port}")]);
        let top = String::from_utf8(top.stdout).unwrap();
        let (_, by_bytes) = ask(port, "/api/v1/heavy-hitters?by=bytes");
        assert!(by_bytes["interfaces"][0]["complete_above_bytes"].is_u64());
        if heavy > 0 {
            assert_eq!(pairs.len(), 5, "{pairs:?}");
            assert!(complete_above < 2000, "{complete_above}");
            assert!(!incomplete.contains("pairs"), "{incomplete}");
            assert!(top.contains("listed: 5 pairs; any other has"), "{top}");
        } else {
            assert_eq!(pairs.len(), 10, "the heaviest that are known");
            assert!(incomplete.contains("pairs"), "{incomplete}");
            assert!(top.contains("heavier ones may be missing"), "{top}");
        }
    }
}
