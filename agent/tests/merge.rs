//! Several files: merged into one capture, or reported with a total; and files that are
//! not captures.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use common::{AGENT, address, frame, json, pcapng_block as block, pcapng_head, stderr, words};
use serde_json::{Value, json};

const NOON: u64 = 1_700_000_000_000;

/// Writes a capture with a packet of 10.0.0.`from` at each of these milliseconds
/// after noon.
fn write(path: &Path, from: u32, times: impl IntoIterator<Item = u64>) {
    let packet = frame(address(from), address(9), 8);
    let length = packet.len() as u32;
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for time in times {
        let time = NOON + time;
        let (seconds, micros) = ((time / 1000) as u32, (time % 1000 * 1000) as u32);
        bytes.extend(words(&[seconds, micros, length, length]));
        bytes.extend(&packet);
    }
    std::fs::write(path, bytes).unwrap();
}

fn replay(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(AGENT);
    command.arg("replay").args(args).current_dir(folder);
    command.output().unwrap()
}

fn report(folder: &Path, args: &[&str]) -> Value {
    json(&replay(folder, &[args, &["--format", "json"]].concat()))
}

/// Packets of the windows of a capture.
fn windows(capture: &Value) -> Vec<u64> {
    let windows = capture["windows"].as_array().unwrap().iter();
    windows.map(|w| w["packets"].as_u64().unwrap()).collect()
}

#[test]
fn files_that_overlap_become_one_capture_in_the_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // Names are not in the order of time, and two files overlap.
    write(&at("a.pcap"), 1, (2000..4000).step_by(100));
    write(&at("b.pcap"), 2, (0..2000).step_by(100));
    write(&at("c.pcap"), 3, (50..4000).step_by(200));
    // Packets out of order within a file stay in that order.
    write(&at("d.pcap"), 4, [3500, 3400, 3600]);
    let report = report(folder.path(), &["--merge", ".", "--window", "1s"]);
    let captures = report["captures"].as_array().unwrap();
    assert_eq!(captures.len(), 1);
    let capture = &captures[0];
    assert_eq!(windows(capture), [15, 15, 15, 18]);
    assert_eq!(capture["packets"], 63);
    assert_eq!(capture["start"], NOON as f64 / 1000.0);
    assert_eq!(capture["seconds"], 3.9);
    assert_eq!(capture["files"].as_array().unwrap().len(), 4);
    let path = capture["path"].as_str().unwrap();
    assert!(
        path.contains("a.pcap … ") && path.ends_with("d.pcap (4 files)"),
        "{path}"
    );
    assert_eq!(report["total"]["captures"], 1);
    // One after the other they are not in order: that is what merging is for.
    let heaviest = &capture["sources"][0];
    assert_eq!(
        (&heaviest["ip"], &heaviest["packets"]),
        (&json!("10.0.0.1"), &json!(20))
    );
}

#[test]
fn a_wrong_time_stamp_does_not_delay_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let day = 86_400_000;
    let steady = || (0..4000).step_by(100);
    let late = |time: u64| match time {
        0 | 1500 | 1700 | 3900 => time + day,
        _ => time,
    };
    write(&folder.path().join("a.pcap"), 1, steady().map(late));
    write(&folder.path().join("b.pcap"), 2, steady());
    let report = report(folder.path(), &["--merge", ".", "--window", "1s"]);
    let capture = &report["captures"][0];
    assert_eq!(capture["packets"], 80);
    // Only the last wrong time stamp is believed, because no packet follows that
    // disagrees.
    assert_eq!(windows(capture), [20, 20, 20, 19, 1]);
}

#[test]
fn interfaces_are_merged_too() {
    let folder = tempfile::tempdir().unwrap();
    let packet = |interface: u32, data: &[u8]| {
        let length = data.len() as u32;
        let padded = [data, &[0; 3][..(4 - data.len() % 4) % 4]].concat();
        let head = words(&[interface, 0, 7, length, length]);
        block(6, &[&head[..], &padded].concat())
    };
    let ethernet = frame(address(1), address(2), 8);
    let bytes = [
        pcapng_head(),
        block(1, &words(&[1, 65535])),
        block(1, &words(&[101, 65535])),
        packet(0, &ethernet),
        packet(1, &ethernet[14..]),
    ];
    std::fs::write(folder.path().join("two.pcapng"), bytes.concat()).unwrap();
    let report = report(folder.path(), &["--merge", "two.pcapng"]);
    assert_eq!(report["captures"].as_array().unwrap().len(), 1);
    assert_eq!(report["captures"][0]["top"][0]["packets"], 2);
    assert_eq!(report["captures"][0]["path"], "two.pcapng");
}

#[test]
fn more_files_than_descriptors_can_be_merged_unless_they_overlap() {
    let folder = tempfile::tempdir().unwrap();
    let run = |length: u64| {
        for n in 0..100u64 {
            let path = folder.path().join(format!("{n:03}.pcap"));
            write(&path, 1, [n * 10, n * 10 + length]);
        }
        let mut command = Command::new("sh");
        let script = format!("ulimit -n 40; exec {AGENT} replay -q --merge --format json .");
        command.args(["-c", &script]).current_dir(folder.path());
        command.output().unwrap()
    };
    let output = run(9);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["captures"][0]["packets"], 200);
    let output = run(5000);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("ulimit -n"), "{}", stderr(&output));
}

#[test]
fn several_files_end_with_a_total() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("a.pcap"), 1, (0..1000).step_by(100));
    write(&folder.path().join("b.pcap"), 2, (5000..6000).step_by(50));
    let report = report(folder.path(), &["a.pcap", "b.pcap"]);
    assert_eq!(report["captures"].as_array().unwrap().len(), 2);
    let total = &report["total"];
    assert_eq!(
        (&total["captures"], &total["packets"]),
        (&json!(2), &json!(30))
    );
    assert_eq!(
        (&total["edges"], &total["bytes"]),
        (&json!(30), &json!(1500))
    );
    assert_eq!(total["seconds"], 5.95);
    let table = |args: &[&str]| {
        let output = replay(folder.path(), args);
        String::from_utf8(output.stdout).unwrap()
    };
    let text = table(&["a.pcap", "b.pcap"]);
    let total = text.split("total: 2 captures").nth(1).unwrap();
    assert!(total.contains("30 packets"), "{text}");
    assert!(!table(&["a.pcap"]).contains("total"));
}

#[test]
fn files_that_are_not_captures_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write(&at("a.pcap"), 1, [0, 10]);
    std::fs::write(at("b.pcap.xz"), b"\xfd7zXZ\0\0\x04rest").unwrap();
    std::fs::write(at("notes"), b"nothing to see").unwrap();
    let mut erf = Vec::new();
    for seconds in [1_700_000_000u32, 1_700_000_001] {
        erf.extend([&[0; 4], &seconds.to_le_bytes()[..], &[2, 4, 0, 32]].concat());
        erf.extend([0; 20]);
    }
    std::fs::write(at("c.erf"), erf).unwrap();
    let xz = "xz-compressed: unpack it first (xz -d)";
    let endace = "ERF (Endace) capture: convert it with editcap -F pcap";
    // A file that is named by the user is an error, with and without merging.
    for merge in [&[][..], &["--merge"]] {
        let args = [&["a.pcap", "b.pcap.xz", "c.erf"], merge].concat();
        let output = replay(folder.path(), &args);
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(said.contains(&format!("b.pcap.xz: {xz}")), "{said}");
        assert!(said.contains(&format!("c.erf: {endace}")), "{said}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("2 packets"), "{text}");
        let report = report(folder.path(), &args);
        let last = report["captures"].as_array().unwrap().last().unwrap();
        assert!(last["error"].as_str().unwrap().contains(endace), "{last}");
    }
    // A file that is found in a folder is skipped and reported.
    let output = replay(folder.path(), &["."]);
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    for part in [xz, endace, "notes", "not a capture file"] {
        assert!(said.contains(part), "{said}");
    }
    let skipped = report(folder.path(), &[".", "-q"])["skipped"].clone();
    assert_eq!(skipped.as_array().unwrap().len(), 3);
    assert_eq!(skipped[0]["error"], xz);
}
