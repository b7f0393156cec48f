//! `crane-agent replay` as a user sees it.
#![allow(clippy::unwrap_used)]

mod common;

use common::{address, agent, arp, frame, json, stderr, write_pcap};
use serde_json::json;

#[test]
fn a_capture_gives_exact_counts_and_the_right_top_pair() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut frames = Vec::new();
    for n in 0..300 {
        for _ in 0..=n % 7 {
            frames.push(frame(address(n), address(n + 1), 10));
        }
    }
    frames.extend(vec![frame(address(1000), address(1001), 0); 500]);
    frames.extend(vec![frame(address(2000), address(2001), 1400); 40]);
    frames.push(arp());
    frames.push(vec![1; 5]); // cut off
    write_pcap(&path, &frames);
    let bytes: usize = frames.iter().map(Vec::len).sum();

    let report = json(&agent(&[
        "replay",
        "-q",
        path.to_str().unwrap(),
        "--format",
        "json",
        "--top",
        "3",
    ]));
    let capture = &report["captures"][0];
    assert_eq!(capture["packets"], frames.len());
    assert_eq!(capture["bytes"], bytes);
    assert_eq!(capture["edges"], frames.len() - 2);
    assert_eq!(capture["ignored"], json!({"not_ip": 1, "truncated": 1}));
    assert_eq!(capture["dropped"], json!({}));
    assert_eq!(
        capture["top"][0],
        json!({"src": "10.0.3.232", "dst": "10.0.3.233", "packets": 500, "bytes": 500 * 42, "low": 500, "high": 500})
    );
    assert_eq!(capture["top"][1]["packets"], 40);
    assert_eq!(capture["top"].as_array().unwrap().len(), 3);
}

#[test]
fn more_pairs_than_the_crown_holds_do_not_hide_the_heavy_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let heavy = frame(address(7), address(8), 100);
    let frames: Vec<Vec<u8>> = (0..20_000u32)
        .map(|n| {
            let scattered = n.wrapping_mul(2_654_435_761) >> 8;
            if n % 10 == 0 {
                heavy.clone()
            } else {
                frame(address(scattered), address(n), 0)
            }
        })
        .collect();
    write_pcap(&path, &frames);
    let output = agent(&["replay", "-q", path.to_str().unwrap(), "--format", "json"]);
    let capture = &json(&output)["captures"][0];
    assert_eq!(capture["edges"], 20_000);
    assert_eq!(capture["top"][0]["packets"], 2000, "{capture}");
    assert!(
        capture["layers"].as_u64().unwrap() > 1,
        "the sketch has grown"
    );
    let second = capture["top"][1]["packets"].as_u64().unwrap();
    assert!(
        second < 400,
        "a pair with one packet is believed to have {second}"
    );
}

#[test]
fn twice_the_same_and_the_same_on_both_executors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.pcap");
    let path = path.to_str().unwrap();
    assert!(
        agent(&["sample", path, "--packets", "9000"])
            .status
            .success()
    );
    let replay = |device: &str| {
        let output = agent(&[
            "replay", "-q", path, "--format", "json", "--seed", "5", "--device", device,
        ]);
        let mut report = json(&output);
        report
            .as_object_mut()
            .unwrap()
            .retain(|key, _| key == "captures");
        report
    };
    let first = replay("cpu");
    assert_eq!(first, replay("cpu"));
    assert_eq!(first, replay("cpu-tensor"));
    assert_eq!(first["captures"][0]["packets"], 9000);
}

#[test]
fn a_file_that_breaks_off_is_counted_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.pcap");
    write_pcap(&path, &vec![frame(address(1), address(2), 8); 10]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    let output = agent(&["replay", "-q", path.to_str().unwrap(), "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let capture = &json(&output)["captures"][0];
    assert_eq!(capture["packets"], 9);
    let error = capture["error"].as_str().unwrap();
    assert!(error.contains("at byte 618, in packet 10"), "{error}");
    assert!(stderr(&output).contains(error));
}

#[test]
fn people_get_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    write_pcap(&path, &vec![frame(address(1), address(2), 8); 10]);
    let output = agent(&["replay", path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["10 packets", "10.0.0.1", "10.0.0.2", "100.00%"] {
        assert!(text.contains(part), "{text}");
    }
}
