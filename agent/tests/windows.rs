//! Windows of a replay with wrong time stamps or a clock that was set.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{AGENT, Running, address, eventually, frame, free_port, get, json, series};

const NOON: u64 = 1_700_000_000;
const DAY: u64 = 86_400;

/// Writes a capture of a packet at each of these milliseconds since 1970.
fn write(path: &Path, times: &[u64]) {
    let packet = frame(address(1), address(2), 8);
    let length = packet.len() as u32;
    let mut bytes = common::words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for time in times {
        let (seconds, micros) = ((time / 1000) as u32, (time % 1000 * 1000) as u32);
        bytes.extend(common::words(&[seconds, micros, length, length]));
        bytes.extend(&packet);
    }
    std::fs::write(path, bytes).unwrap();
}

/// Ten packets a second from `second` on.
fn steady(second: u64, packets: u64) -> Vec<u64> {
    (0..packets).map(|n| second * 1000 + n * 100).collect()
}

/// When the windows of one second begin, and how many packets they have. The size of
/// batches makes no difference.
fn windows(times: &[u64]) -> Vec<(u64, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    write(&path, times);
    let of_batches = |batch: &str| {
        let mut command = Command::new(AGENT);
        command.args(["replay", "-q", "--format", "json", "--window", "1s"]);
        command.arg(&path).env("CRANE_SKETCH_BATCH", batch);
        let capture = json(&command.output().unwrap())["captures"][0].clone();
        assert_eq!(capture["edges"], times.len(), "{capture}");
        assert_eq!(capture["top"][0]["packets"], times.len());
        let windows = capture["windows"].as_array().unwrap().iter();
        let window = |window: &serde_json::Value| {
            let length = window["end"].as_f64().unwrap() - window["start"].as_f64().unwrap();
            let seconds = window["seconds"].as_f64().unwrap();
            assert!((seconds - length).abs() < 1e-6, "{seconds}");
            assert!(length <= 1.0, "{length}");
            let start = window["start"].as_f64().unwrap() as u64;
            (start, window["packets"].as_u64().unwrap())
        };
        windows.map(window).collect::<Vec<_>>()
    };
    let found = of_batches("4096");
    assert_eq!(found, of_batches("1"));
    assert_eq!(found, of_batches("7"));
    assert_eq!(
        found.iter().map(|(_, packets)| packets).sum::<u64>(),
        times.len() as u64,
        "every packet is in a window"
    );
    found
}

#[test]
fn single_wrong_time_stamps_move_no_other_packet() {
    let mut times = steady(NOON, 40);
    for (at, second) in [(5, NOON + DAY), (6, 5), (12, NOON + 3600), (25, NOON + 5)] {
        times[at] = second * 1000;
    }
    times[39] = 5000;
    let seconds = [NOON, NOON + 1, NOON + 2, NOON + 3];
    assert_eq!(windows(&times), seconds.map(|second| (second, 10)));
}

#[test]
fn a_night_without_packets_makes_no_windows() {
    let morning = NOON + DAY / 3;
    let times = [steady(NOON, 15), steady(morning, 15)].concat();
    let expected = [(NOON, 10), (NOON + 1, 5), (morning, 10), (morning + 1, 5)];
    assert_eq!(windows(&times), expected);
    // No packet follows the last one of a file to confirm its time; it gets a window of
    // its own.
    let times = [steady(NOON, 15), steady(morning, 1)].concat();
    assert_eq!(windows(&times)[2], (morning, 1));
}

#[test]
fn a_wrong_first_time_stamp_makes_no_endless_window() {
    let good = steady(NOON, 30);
    let late = windows(&[&[(NOON + DAY) * 1000], &good[..]].concat());
    assert_eq!(late, [(NOON, 11), (NOON + 1, 10), (NOON + 2, 10)]);
    let early = windows(&[&[5000], &good[..]].concat());
    let expected = [(5, 1), (NOON, 10), (NOON + 1, 10), (NOON + 2, 10)];
    assert_eq!(early, expected);
}

#[test]
fn a_clock_that_was_set_stalls_no_window() {
    let (yesterday, tomorrow) = (NOON - DAY, NOON + DAY);
    let back = windows(&[steady(NOON, 20), steady(yesterday, 40)].concat());
    let expected = [
        (NOON, 10),
        (NOON + 1, 20),
        (yesterday + 1, 10),
        (yesterday + 2, 10),
        (yesterday + 3, 10),
    ];
    assert_eq!(back, expected);
    let ahead = windows(&[steady(NOON, 20), steady(tomorrow, 20)].concat());
    let seconds = [NOON, NOON + 1, tomorrow, tomorrow + 1];
    assert_eq!(ahead, seconds.map(|second| (second, 10)));
}

#[test]
fn a_paced_replay_does_not_wait_for_a_wrong_time_stamp() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut times = steady(NOON, 20);
    times[5] = (NOON + DAY) * 1000;
    write(&path, &times);
    let start = Instant::now();
    let mut command = Command::new(AGENT);
    command.args(["replay", "-q", "--speed", "1"]).arg(&path);
    let mut agent = Running::start(command.stdout(Stdio::null()));
    let ended = eventually("the last packet", || agent.0.try_wait().unwrap());
    assert!(ended.success());
    let took = start.elapsed();
    assert!(took > Duration::from_millis(1500), "{took:?}: paced");
}

#[test]
fn windows_end_although_a_looped_capture_has_wrong_time_stamps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut times = steady(NOON, 40);
    for at in [0, 15, 39] {
        times[at] = 4_000_000_000_000;
    }
    write(&path, &times);
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut command = Command::new(AGENT);
    command.args(["replay", "-q", "--serve", "--loop", "--window", "1s"]);
    command.args(["--listen", &listen]).arg(&path);
    let mut agent = Running::start(command.stdout(Stdio::null()));
    // A round takes four seconds, not the years until the wrong time stamp.
    let packets = eventually("many rounds", || {
        let text = get(port, "/metrics")?.1;
        let start = series(&text, "crane_window_start_timestamp_seconds", &[])?;
        let later = ((NOON + 3600) as f64..(NOON + 365 * DAY) as f64).contains(&start);
        later.then(|| series(&text, "crane_window_packets", &[]))?
    });
    assert!(packets <= 15.0, "{packets} in a second");
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn a_window_that_ends_early_has_its_true_duration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let lengths = |times: &[u64]| {
        write(&path, times);
        let mut command = Command::new(AGENT);
        command.args(["replay", "-q", "--format", "json", "--window", "1s"]);
        let capture = json(&command.arg(&path).output().unwrap())["captures"][0].clone();
        let windows = capture["windows"].as_array().unwrap().iter();
        let lengths = windows.map(|window| window["seconds"].as_f64().unwrap());
        lengths.collect::<Vec<_>>()
    };
    assert_eq!(lengths(&steady(NOON, 25)), [1.0, 1.0, 0.4]);
    assert_eq!(lengths(&steady(NOON, 1)), [0.0]);
    // A gap is a part of the window in which it begins; a clock that is set back ends a
    // window.
    let gap = [steady(NOON, 5), steady(NOON + 60, 15)].concat();
    assert_eq!(lengths(&gap), [1.0, 1.0, 0.4]);
    let back = [
        steady(NOON, 15),
        steady(NOON - DAY, 11),
        steady(NOON - DAY + 1, 4),
    ]
    .concat();
    assert_eq!(lengths(&back), [1.0, 0.4, 0.3]);
}

/// Whether a file is cut into windows or not, answers about all of it are the same.
#[test]
fn answers_about_the_whole_capture_are_no_worse_with_windows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    // A scan and other pairs, which fit in half of the memory and not in a third.
    let mut frames = Vec::new();
    for n in 0..1900 {
        frames.push(frame(address(1), address(1000 + n), 8));
        frames.push(frame(
            address(2 + n % 50),
            address(2 + n % 49),
            n as usize % 900,
        ));
    }
    common::write_pcap(&path, &frames);
    let of = |args: &[&str]| {
        let mut command = Command::new(AGENT);
        command.args(["replay", "-q", "--format", "json", "--ask", "10.0.0.1"]);
        command.args(args).arg(&path);
        command.env("CRANE_SKETCH_MEMORY", "700KiB");
        let mut capture = json(&command.output().unwrap())["captures"][0].clone();
        // The main service of a pair depends on batches, which end with a window.
        for list in ["top", "top_bytes"] {
            for row in capture[list].as_array_mut().unwrap() {
                row.as_object_mut().unwrap().remove("service");
            }
        }
        capture
    };
    let (whole, windows) = (of(&[]), of(&["--window", "1s"]));
    assert_eq!(windows["windows"].as_array().unwrap().len(), 4);
    assert_eq!(whole["exact"], true, "{whole}");
    for key in [
        "exact",
        "pairs",
        "complete_above",
        "top",
        "top_bytes",
        "sources",
        "destinations",
        "services",
        "fan_out",
        "fan_in",
        "asked",
    ] {
        assert_eq!(whole[key], windows[key], "{key}");
    }
}
