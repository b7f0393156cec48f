//! Tests of `crane-agent replay` as a program.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::{
    address, agent, arp, frame, json, pcapng_block as block, pcapng_head as head, stderr, words,
    write_pcap,
};
use serde_json::{Value, json};

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
        json!({"src": "10.0.3.232", "dst": "10.0.3.233",
               "service": {"protocol": "udp", "port": 1000},
               "packets": 500, "low": 500, "high": 500, "at_least": 500, "at_most": 500,
               "bytes": 500 * 42, "bytes_low": 500 * 42, "bytes_high": 500 * 42,
               "bytes_at_least": 500 * 42, "bytes_at_most": 500 * 42})
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
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"160KiB\"\n").unwrap();
    let (path, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let args = [
        "replay", "-q", path, "--format", "json", "--verify", "-c", config,
    ];
    let capture = &json(&agent(&args))["captures"][0];
    assert_eq!(capture["edges"], 20_000);
    assert_eq!(capture["top"][0]["packets"], 2000, "{capture}");
    assert!(capture["expansions"].as_u64().unwrap() >= 1);
    assert!(capture["memory_bytes"].as_u64().unwrap() <= 160 << 10);
    // All other pairs have one packet, so there may be no second row.
    let second = capture["top"][1]["packets"].as_u64().unwrap_or(1);
    assert!(
        second < 20,
        "a pair with one packet is listed with {second}"
    );
    assert!(capture["verify"]["are"].as_f64().unwrap() < 0.2);
}

#[test]
fn results_are_equal_in_two_runs_and_on_both_executors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.pcap");
    let path = path.to_str().unwrap();
    assert!(
        agent(&["sample", path, "--packets", "9000"])
            .status
            .success()
    );
    let replay = |args: &[&str]| {
        let always = ["replay", "-q", path, "--format", "json", "--seed", "5"];
        let mut report = json(&agent(&[&always, args].concat()));
        report
            .as_object_mut()
            .unwrap()
            .retain(|key, _| key == "captures");
        report
    };
    let windows = ["--window", "2s", "--verify"];
    let first = replay(&windows);
    assert!(first == replay(&windows), "two runs differ");
    let whole = replay(&["--device", "cpu"]);
    assert!(
        whole == replay(&["--device", "cpu-tensor"]),
        "tensors give another result"
    );
    assert_eq!(whole["captures"][0]["packets"], 9000);
}

#[test]
fn a_truncated_file_is_counted_up_to_its_end() {
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
fn the_default_output_is_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    write_pcap(&path, &vec![frame(address(1), address(2), 8); 10]);
    let output = agent(&["replay", path.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["10 packets", "10.0.0.1", "10.0.0.2", "100.00%"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn windows_follow_packet_time_and_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    // A millisecond apart: 2.5 windows of a second.
    let frames: Vec<Vec<u8>> = (0..2500)
        .map(|n| frame(address(n / 1000), address(9), 8))
        .collect();
    write_pcap(&path, &frames);
    let path = path.to_str().unwrap();
    let replay = |args: &[&str]| {
        let all = [&["replay", "-q", path, "--format", "json"], args].concat();
        json(&agent(&all))["captures"][0].clone()
    };
    let capture = replay(&["--window", "1s", "--verify"]);
    let windows = capture["windows"].as_array().unwrap();
    let packets: Vec<u64> = windows
        .iter()
        .map(|w| w["packets"].as_u64().unwrap())
        .collect();
    assert_eq!(packets, [1000, 1000, 500]);
    for (n, window) in windows.iter().enumerate() {
        assert_eq!(window["start"], 1_700_000_000.0 + n as f64);
        let end = if n == 2 { 0.499 } else { 1.0 };
        assert_eq!(window["end"], 1_700_000_000.0 + n as f64 + end);
        let heavy = &window["top"].as_array().unwrap();
        assert_eq!(heavy.len(), 1);
        assert_eq!(heavy[0]["src"], address(n as u32).to_string());
    }
    assert_eq!(
        capture["top"].as_array().unwrap().len(),
        3,
        "over the whole file"
    );
    let verify = &capture["verify"];
    assert_eq!(
        (&verify["distinct"], &verify["are"]),
        (&json!(3), &json!(0.0))
    );
    let whole = replay(&[]);
    assert_eq!(whole["top"], capture["top"]);
    assert_eq!((&whole["windows"], whole.get("verify")), (&json!([]), None));
    let output = agent(&["replay", "-q", path, "--window", "1s", "--verify"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("+2s") && text.contains("verified: 3 pairs"),
        "{text}"
    );
}

#[test]
fn single_wrong_time_stamps_end_no_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    write_pcap(&path, &vec![frame(address(1), address(2), 8); 40]);
    let mut bytes = std::fs::read(&path).unwrap();
    let record = 16 + frame(address(1), address(2), 8).len();
    // Packet 10 has a time an hour later, packet 20 one long before the beginning.
    for (packet, seconds) in [(10, 1_700_003_600u32), (20, 5)] {
        let at = 24 + packet * record;
        bytes[at..at + 4].copy_from_slice(&seconds.to_le_bytes());
    }
    std::fs::write(&path, bytes).unwrap();
    let args = [
        "replay",
        "-q",
        path.to_str().unwrap(),
        "--format",
        "json",
        "--window",
        "1s",
    ];
    let capture = json(&agent(&args))["captures"][0].clone();
    let windows = capture["windows"].as_array().unwrap();
    let packets: Vec<u64> = windows
        .iter()
        .map(|w| w["packets"].as_u64().unwrap())
        .collect();
    assert_eq!(packets, [40], "no other packet confirms either time");
    assert_eq!(windows[0]["start"], 1_700_000_000.0);
}

#[test]
fn the_largest_time_stamps_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.pcapng");
    let packet = |time: u32| {
        let data = frame(address(1), address(2), 8);
        let length = data.len() as u32;
        let head = words(&[0, time, time, length, length]);
        block(6, &[&head[..], &data, &[0; 2]].concat())
    };
    let late = [
        packet(u32::MAX),
        packet(5),
        packet(u32::MAX),
        packet(u32::MAX),
    ];
    let file = [&head()[..], &block(1, &words(&[1, 65535])), &late.concat()].concat();
    std::fs::write(&path, file).unwrap();
    for window in ["whole", "1s"] {
        let path = path.to_str().unwrap();
        let args = ["replay", "-q", path, "--format", "json", "--window", window];
        assert_eq!(json(&agent(&args))["captures"][0]["edges"], 4);
    }
}

#[test]
fn each_interface_of_a_file_is_reported_separately() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.pcapng");
    let packet = |interface: u32, data: &[u8]| {
        let length = data.len() as u32;
        let padded = [data, &[0; 3][..(4 - data.len() % 4) % 4]].concat();
        block(
            6,
            &[&words(&[interface, 0, 7, length, length])[..], &padded].concat(),
        )
    };
    let ethernet = frame(address(1), address(2), 8);
    let bytes = [
        head(),
        // Ethernet, called eth0; then raw IP, without a name.
        block(
            1,
            &[&words(&[1, 65535])[..], &[2, 0, 4, 0], b"eth0", &[0; 4]].concat(),
        ),
        packet(0, &ethernet),
        block(1, &words(&[101, 65535])),
        packet(1, &ethernet[14..]),
        packet(0, &ethernet),
        packet(1, &frame(address(3), address(4), 8)[14..]),
    ];
    std::fs::write(&path, bytes.concat()).unwrap();
    let report = json(&agent(&[
        "replay",
        "-q",
        path.to_str().unwrap(),
        "--format",
        "json",
    ]));
    let captures = report["captures"].as_array().unwrap();
    assert_eq!(captures.len(), 2);
    assert_eq!(
        (&captures[0]["interface"], &captures[0]["edges"]),
        (&json!("eth0"), &json!(2))
    );
    assert_eq!(
        (&captures[1]["interface"], &captures[1]["edges"]),
        (&json!(null), &json!(2))
    );
    assert_eq!(captures[0]["top"][0]["packets"], 2);
    assert_eq!(captures[1]["top"].as_array().unwrap().len(), 2);
}

#[test]
fn packets_that_are_only_decoded_are_not_counted_as_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let mut frames = vec![frame(address(1), address(2), 8); 10];
    frames.push(arp());
    write_pcap(&path, &frames);
    let path = path.to_str().unwrap();
    let output = agent(&["replay", "-q", path, "--format", "json", "--no-sketch"]);
    let capture = json(&output)["captures"][0].clone();
    assert_eq!(
        (&capture["packets"], &capture["edges"]),
        (&11.into(), &0.into())
    );
    assert_eq!(capture["ignored"], json!({"not_ip": 1, "not_stored": 10}));
}

#[test]
fn the_growth_of_a_sketch_is_logged_only_with_verbose() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let frames: Vec<_> = (0..20_000)
        .map(|n| frame(address(n), address(n + 1), 0))
        .collect();
    write_pcap(&path, &frames);
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"128KiB\"\n").unwrap();
    let (path, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let said = |more: &[&str]| stderr(&agent(&[&["replay", path, "-c", config], more].concat()));
    assert!(said(&["-v"]).contains("the sketch has grown"));
    assert_eq!(said(&[]), "");
}

#[test]
fn control_characters_in_names_are_escaped_on_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("\x1b[31m\r\n\u{9b}.pcap");
    write_pcap(&path, &[arp()]);
    let missing = folder.path().join("\x1b[2Jgone.pcap");
    let (path, missing) = (path.to_str().unwrap(), missing.to_str().unwrap());
    let check_escaped = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let control = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(control, None, "{text:?}");
        text
    };
    let output = agent(&["replay", path, missing]);
    let table = check_escaped(&output.stdout);
    assert!(table.contains("\\u{1b}[31m\\r\\n\\u{9b}.pcap\n"), "{table}");
    let said = check_escaped(&output.stderr);
    assert!(said.contains("\\u{1b}[2Jgone.pcap: no such file"), "{said}");
    // JSON contains the name unchanged.
    let output = agent(&["replay", "-q", path, "--format", "json"]);
    assert_eq!(json(&output)["captures"][0]["path"], path);
    // For the log: a directory in which a file cannot be read.
    std::os::unix::fs::symlink("/no/such", folder.path().join("\x1b[1m\n.pcap")).unwrap();
    let said = check_escaped(&agent(&["replay", folder.path().to_str().unwrap()]).stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    let output = agent(&["check-config", missing]);
    check_escaped(&output.stdout);
    assert!(check_escaped(&output.stderr).contains("\\u{1b}[2Jgone"));
}

#[test]
fn a_hangup_signal_ends_a_replay_with_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    write_pcap(&path, &vec![frame(address(1), address(2), 8); 1000]);
    let mut command = Command::new(common::AGENT);
    command
        .args(["replay", path.to_str().unwrap(), "--speed", "0.01"])
        .stdout(Stdio::piped());
    let mut running = common::Running::start(&mut command);
    std::thread::sleep(Duration::from_millis(500));
    let (code, took) = running.stop("-HUP");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn bytes_of_any_pair_are_inside_the_guaranteed_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.pcap");
    let path = path.to_str().unwrap();
    assert!(agent(&["sample", path]).status.success());
    let replay = |args: &[&str]| {
        let all = [
            &["replay", "-q", "--format", "json", "--verify", path],
            args,
        ]
        .concat();
        json(&agent(&all))["captures"][0].clone()
    };
    // All pairs fit: all bytes are known, of every pair in the list.
    let whole = replay(&["--top", "100000"]);
    let pairs = whole["top"].as_array().unwrap();
    assert_eq!(pairs.len() as u64, whole["verify"]["distinct"]);
    assert!(pairs.len() > 800);
    let sum = |key: &str| -> u64 { pairs.iter().map(|pair| pair[key].as_u64().unwrap()).sum() };
    assert_eq!(sum("packets"), whole["edges"].as_u64().unwrap());
    let arps = 60 * whole["ignored"]["not_ip"].as_u64().unwrap();
    assert_eq!(sum("bytes"), whole["bytes"].as_u64().unwrap() - arps);
    let exact = |verify: &Value| {
        for field in ["are", "bytes_are", "interval_score"] {
            assert_eq!(verify[field], 0.0, "{field}: {verify}");
        }
    };
    exact(&whole["verify"]);
    let guaranteed = |verify: &Value| {
        for field in ["below_at_least", "above_at_most", "bytes_outside"] {
            assert_eq!(verify[field], 0, "{field}: {verify}");
        }
    };
    guaranteed(&whole["verify"]);

    // The pairs do not fit: pairs that were not counted from the start are estimated.
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"128KiB\"\n").unwrap();
    let light = pairs.last().unwrap();
    let light = ["src", "dst"]
        .map(|end| light[end].as_str().unwrap())
        .join(",");
    let config = config.to_str().unwrap();
    let small = replay(&["--top", "1000", "-c", config, "--ask", &light]);
    let verify = &small["verify"];
    guaranteed(verify);
    for field in ["coverage90", "bytes_coverage90"] {
        assert!(verify[field].as_f64().unwrap() >= 0.9, "{field}: {verify}");
    }
    let (asked, truth) = (&small["asked"][0], pairs.last().unwrap()["bytes"].as_u64());
    let [least, most] = ["bytes_at_least", "bytes_at_most"].map(|end| asked[end].as_u64());
    assert!(least < most, "it is in the layers: {asked}");
    assert!(least <= truth && truth <= most, "{asked}");
    let never = ["--ask", "203.0.113.77,203.0.113.78"];
    let asked = &replay(&never)["asked"][0];
    assert_eq!((&asked["at_most"], &asked["bytes"]), (&json!(0), &json!(0)));
}

#[test]
fn an_ipv4_mapped_ipv6_address_counts_as_ipv6() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mapped.pcap");
    let mapped = |n: u8| {
        std::net::Ipv4Addr::new(5, 6, 7, n)
            .to_ipv6_mapped()
            .octets()
    };
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv6(mapped(8), mapped(9), 64)
        .udp(1, 2);
    let mut wide = Vec::new();
    builder.write(&mut wide, &[]).unwrap();
    let narrow = frame([5, 6, 7, 8].into(), [5, 6, 7, 9].into(), 0);
    write_pcap(&path, &[wide.clone(), narrow, wide]);
    let path = path.to_str().unwrap();
    let capture = json(&agent(&["replay", "-q", path, "--format", "json"]))["captures"][0].clone();
    let ends: Vec<_> = (0..2)
        .map(|at| {
            let pair = &capture["top"][at];
            (pair["src"].clone(), pair["packets"].clone())
        })
        .collect();
    assert_eq!(
        ends,
        [
            (json!("::ffff:5.6.7.8"), json!(2)),
            (json!("5.6.7.8"), json!(1))
        ]
    );
}
