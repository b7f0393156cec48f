//! The same packets in every format: the format is recognised by the content, not by the
//! name.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{
    AGENT, address, agent, frame, json, pcapng_block, pcapng_head, stderr, words, write_pcap,
};
use serde_json::Value;

fn frames() -> Vec<Vec<u8>> {
    (0..500u32)
        .map(|n| frame(address(n * n % 17), address(n % 5), n as usize % 90))
        .collect()
}

/// The frames as [`write_pcap`] writes them, in pcapng.
fn pcapng(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pcapng_head();
    bytes.extend(pcapng_block(1, &words(&[1, 65535])));
    for (n, frame) in frames.iter().enumerate() {
        let ticks = 1_700_000_000_000_000 + 1000 * n as u64;
        let length = frame.len() as u32;
        let mut body = words(&[0, (ticks >> 32) as u32, ticks as u32, length, length]);
        body.extend(frame);
        body.resize(body.len().next_multiple_of(4), 0);
        bytes.extend(pcapng_block(6, &body));
    }
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

fn replay(path: &Path) -> Output {
    let path = path.to_str().unwrap();
    agent(&["replay", "-q", "--seed", "3", "--format", "json", path])
}

/// The captures of a report without their names.
fn counts(output: &Output) -> Vec<Value> {
    let mut report = json(output);
    let captures = report["captures"].as_array_mut().unwrap();
    for capture in captures.iter_mut() {
        capture.as_object_mut().unwrap().remove("path");
        capture.as_object_mut().unwrap().remove("interface");
    }
    captures.clone()
}

#[test]
fn the_same_packets_give_the_same_counts_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first.pcap");
    write_pcap(&path, &frames());
    let pcap = std::fs::read(&path).unwrap();
    let pcapng = pcapng(&frames());
    let expected = counts(&replay(&path));
    assert_eq!(expected[0]["packets"], 500);
    assert_eq!(expected[0]["edges"], 500);

    let (one, two) = pcap.split_at(10_000);
    for (name, content) in [
        ("a.pcapng", pcapng.clone()),
        ("a.pcap.gz", gzip(&pcap)),
        ("a.pcapng.zst", zstandard(&pcapng)),
        ("members.gz", [gzip(one), gzip(two)].concat()),
        ("frames.zst", [zstandard(one), zstandard(two)].concat()),
        ("really-pcapng.pcap", pcapng.clone()),
        ("really-gzip.zst", gzip(&pcapng)),
        ("really-plain.gz", pcap.clone()),
        ("no-extension", zstandard(&pcap)),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let output = replay(&path);
        assert_eq!(counts(&output), expected, "{name}: {}", stderr(&output));
        let output = Command::new(AGENT)
            .args(["replay", "-q", "--seed", "3", "--format", "json", "-"])
            .stdin(File::open(&path).unwrap())
            .output();
        assert_eq!(counts(&output.unwrap()), expected, "{name} as input");
    }
    let output = replay(folder.path());
    assert_eq!(counts(&output).len(), 10, "{}", stderr(&output));
}

#[test]
fn a_truncated_compressed_file_is_counted_up_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    let (first, second) = (&frames()[..200], &frames()[200..]);
    let frames = [zstandard(&pcapng(first)), zstandard(&pcapng(second))];
    for (packed, packets) in [
        // In the first file only the checksum is incomplete, in the second a frame.
        (gzip(&pcapng(&[first, second].concat())), 500),
        (frames.concat(), 200),
    ] {
        std::fs::write(&path, &packed[..packed.len() - 1]).unwrap();
        let output = replay(&path);
        assert_eq!(output.status.code(), Some(1));
        let capture = &counts(&output)[0];
        let error = capture["error"].as_str().unwrap();
        assert!(error.contains("cut off"), "{error}");
        assert_eq!(capture["packets"], packets);
    }
}

#[test]
fn one_signal_ends_a_wait_for_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let capture = folder.path().join("a.pcap");
    write_pcap(&capture, &frames());
    // The first never has a writer; the second has a capture that does not end.
    for (path, open) in [(fifo.to_str().unwrap(), false), ("-", true)] {
        let mut command = Command::new(AGENT);
        command
            .args(["replay", path, "--format", "json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        if open {
            stdin.write_all(&std::fs::read(&capture).unwrap()).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(700));
        let start = std::time::Instant::now();
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        let output = child.wait_with_output().unwrap();
        assert!(
            start.elapsed() < std::time::Duration::from_secs(2),
            "{path}"
        );
        if open {
            assert_eq!(json(&output)["captures"][0]["packets"], 500);
        }
        drop(stdin);
    }
}

/// A packet of an interface at this tick.
fn packet(interface: u32, tick: u32) -> Vec<u8> {
    let data = frame(address(interface), address(1000), 10);
    let length = data.len() as u32;
    let mut body = words(&[interface, 0, tick, length, length]);
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
    pcapng_block(6, &body)
}

/// Laptops describe dozens of interfaces and use one.
#[test]
fn interfaces_without_packets_are_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.pcapng");
    let interfaces = (0..1000).flat_map(|n| {
        let name = format!("if{n:06}");
        let options = [&[2, 0, 8, 0], name.as_bytes(), &[0; 4]].concat();
        pcapng_block(1, &[words(&[1, 65535]), options].concat())
    });
    let mut bytes: Vec<u8> = pcapng_head().into_iter().chain(interfaces).collect();
    let empty = bytes.clone();
    // The order is that of the file, not that of the packets.
    for (tick, interface) in [(1, 700), (2, 3), (3, 700)] {
        bytes.extend(packet(interface, tick));
    }
    std::fs::write(&path, bytes).unwrap();
    let output = replay(&path);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    let entries = report["captures"].as_array().unwrap().iter();
    let entries: Vec<_> = entries
        .map(|entry| (entry["interface"].as_str().unwrap(), &entry["edges"]))
        .collect();
    assert_eq!(
        entries,
        [("if000003", &Value::from(1)), ("if000700", &2.into())]
    );
    std::fs::write(&path, empty).unwrap();
    check_no_error(&path);
}

#[test]
fn a_capture_without_packets_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nothing.pcapng");
    std::fs::write(&path, pcapng_head()).unwrap();
    check_no_error(&path);
    write_pcap(&path, &[]);
    check_no_error(&path);

    std::fs::write(&path, [pcapng_head(), packet(0, 1)].concat()).unwrap();
    let output = replay(&path);
    assert_eq!(output.status.code(), Some(1));
    let error = json(&output)["captures"][0]["error"].clone();
    let error = error.as_str().unwrap();
    assert!(error.contains("interface 0, which was not"), "{error}");
    assert!(stderr(&output).contains(error), "{}", stderr(&output));
}

/// JSON, table and exit code report no error.
fn check_no_error(path: &Path) {
    let output = replay(path);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let report = json(&output);
    let captures = report["captures"].as_array().unwrap();
    assert_eq!(captures.len(), 1, "{report}");
    assert_eq!(captures[0]["path"], path.to_str().unwrap());
    assert_eq!(captures[0]["packets"], 0);
    assert_eq!(captures[0].get("error"), None);
    let output = agent(&["replay", "-q", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("0 packets, 0 B"), "{text}");
}

/// A packet without a time stamp.
fn simple_packet() -> Vec<u8> {
    let data = frame(address(1), address(2), 8);
    let mut body = words(&[data.len() as u32]);
    body.extend(&data);
    body.resize(body.len().next_multiple_of(4), 0);
    pcapng_block(3, &body)
}

#[test]
fn packets_without_a_time_do_not_make_a_capture_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let head = [pcapng_head(), pcapng_block(1, &words(&[1, 0]))].concat();
    let untimed = [simple_packet(), simple_packet()].concat();
    // All but the head and the interface.
    let timed = pcapng(&vec![frame(address(1), address(2), 8); 1001])[head.len()..].to_vec();
    let write = |parts: &[&[u8]]| std::fs::write(&path, parts.concat()).unwrap();
    for parts in [[&head[..], &untimed, &timed], [&head, &timed, &untimed]] {
        write(&parts);
        let output = agent(&[
            "replay",
            path.to_str().unwrap(),
            "--format",
            "json",
            "--window",
            "60s",
        ]);
        let capture = &json(&output)["captures"][0];
        let times = ["start", "end", "seconds"].map(|key| capture[key].as_f64().unwrap());
        assert_eq!(times, [1.7e9, 1.7e9 + 1.0, 1.0], "{capture}");
        let windows = capture["windows"].as_array().unwrap();
        assert_eq!(windows.len(), 1, "{capture}");
        assert_eq!(windows[0]["packets"], capture["packets"]);
    }
    // If no packet has a time, times are null and not shown.
    write(&[&head, &untimed]);
    let path = path.to_str().unwrap();
    let output = agent(&["replay", path, "--format", "json", "--window", "60s"]);
    let capture = &json(&output)["captures"][0];
    let window = &capture["windows"][0];
    for untimed in [capture, window] {
        assert_eq!(untimed["packets"], 2);
        let times = [&untimed["start"], &untimed["end"]];
        assert_eq!(times, [&Value::Null; 2], "{untimed}");
    }
    let (_running, port) = common::serving(folder.path(), path, &[]);
    let at = format!("127.0.0.1:{port}");
    let output = agent(&["top", "--once", "--agent", &at]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("2 packets") && !said.contains("1970"),
        "{said}"
    );
    let output = agent(&["replay", path]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("packets without time stamps") && !said.contains("1970"),
        "{said}"
    );
}
