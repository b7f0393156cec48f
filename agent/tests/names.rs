//! Networks with names: exact counters between them, names beside addresses in every
//! list, and invalid names.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::packets::v6;
use common::{AGENT, address, agent, arp, frame, get, json, series, serving, stderr};
use serde_json::{Value, json};

/// A name with characters that have to be escaped in every output.
const WEIRD: &str = "a \"b\" \\ c\nd\u{1b}[2J";

/// 10.0.0.0/8 with a hole and two networks in it, and IPv6.
const NAMES: &str = r#"
[[names]]
prefix = "10.0.0.0/8"
name = "office"
[[names]]
prefix = "10.0.0.4/30"
name = "lab"
[[names]]
prefix = "10.0.0.9"
name = "other"
[[names]]
prefix = "fd00::/16"
name = "a \"b\" \\ c\nd\u001B[2J"
"#;

/// 60 packets office → office, 30 lab → other, 10 weird → weird, and ARP.
fn capture(folder: &Path) {
    let wide = common::frame::ip(v6(1), common::frame::UDP, &[0; 40]);
    let mut frames = vec![frame(address(1), address(2), 100); 60];
    frames.extend(vec![frame(address(5), address(9), 10); 30]);
    frames.extend(vec![
        common::frame::ethernet(common::frame::IPV6, &wide);
        10
    ]);
    frames.push(arp());
    common::write_pcap(&folder.join("small.pcap"), &frames);
}

fn groups() -> Value {
    json!([
        {"src": "office", "dst": "office", "packets": 60, "bytes": 60 * 142},
        {"src": "lab", "dst": "other", "packets": 30, "bytes": 30 * 52},
        {"src": WEIRD, "dst": WEIRD, "packets": 10, "bytes": 10 * 94},
    ])
}

fn run_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(AGENT);
    let command = command.args(args).stdin(Stdio::null());
    command.current_dir(folder).output().unwrap()
}

#[test]
fn a_replay_counts_exactly_between_names_and_shows_them() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    std::fs::write(folder.path().join("agent.toml"), NAMES).unwrap();
    let replay = |args: &[&str]| {
        let common = ["replay", "-q", "small.pcap", "--window", "100ms", "--both"];
        let ask = ["--ask", "10.0.0.5,10.0.0.9", "--exact"];
        run_in(folder.path(), &[&common[..], &ask, args].concat())
    };
    let report = json(&replay(&["-c", "agent.toml", "--format", "json"]));
    let capture = &report["captures"][0];
    assert_eq!(capture["groups"], groups());
    let named = |list: &Value| {
        let rows = list.as_array().unwrap().iter();
        let row = |row: &Value| [&row["src_name"], &row["dst_name"]].map(|name| name.clone());
        rows.map(row).collect::<Vec<_>>()
    };
    assert_eq!(
        named(&capture["top"]),
        [["office"; 2], ["lab", "other"], [WEIRD; 2]].map(|row| row.map(Value::from))
    );
    let first = named(&capture["windows"][0]["top"]);
    assert_eq!(first[1], ["lab", "other"].map(Value::from));

    assert_eq!(capture["sources"][1]["name"], "lab");
    assert_eq!(capture["destinations"][1]["name"], "other");
    assert_eq!(capture["asked"][0]["src_name"], "lab");
    let talk = &capture["conversations"][1];
    let ends = [&talk["a_name"], &talk["b_name"]];
    assert!(ends.contains(&&json!("lab")) && ends.contains(&&json!("other")));

    let table = replay(&["-c", "agent.toml"]).stdout;
    let table = String::from_utf8(table).unwrap();
    assert!(table.contains("10.0.0.5 (lab)"), "{table}");
    assert!(table.contains("10.0.0.9 (other)"), "{table}");
    assert!(
        table.contains("10.0.0.5 (lab) → 10.0.0.9 (other)"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "{table}");
    let line = table.lines().find(|line| line.starts_with("  lab "));
    let cells: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(cells, ["lab", "other", "30", "1560", "B"]);

    let without = String::from_utf8(replay(&["--format", "json"]).stdout).unwrap();
    assert!(!without.contains("groups"), "{without}");
    assert!(!without.contains("_name"), "{without}");
}

#[test]
fn a_sample_is_scaled_up_between_names_too() {
    let folder = tempfile::tempdir().unwrap();
    let frames = vec![frame(address(1), address(2), 100); 2000];
    common::write_pcap(&folder.path().join("small.pcap"), &frames);
    let config = format!("{NAMES}[capture]\nsample = 4\n");
    std::fs::write(folder.path().join("agent.toml"), config).unwrap();
    let args = ["replay", "-q", "small.pcap", "-c", "agent.toml"];
    let report = run_in(folder.path(), &[&args[..], &["--format", "json"]].concat());
    let capture = &json(&report)["captures"][0];
    let edges = capture["edges"].as_u64().unwrap();
    assert!((300..700).contains(&edges), "{edges}");
    assert_eq!(capture["groups"][0]["packets"], 4 * edges);
}

#[test]
fn metrics_answers_and_tables_have_names() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    std::fs::write(folder.path().join("agent.toml"), NAMES).unwrap();
    let (_running, port) = serving(folder.path(), "small.pcap", &["-c", "agent.toml"]);

    let metrics = get(port, "/metrics").unwrap().1;
    let weird = WEIRD
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('\n', r"\n");
    for (src, dst, packets, bytes) in [
        ("office", "office", 60.0, 60.0 * 142.0),
        ("lab", "other", 30.0, 30.0 * 52.0),
        (&*weird, &*weird, 10.0, 10.0 * 94.0),
    ] {
        let labels = [("interface", "small.pcap"), ("src", src), ("dst", dst)];
        let value = |name| series(&metrics, name, &labels);
        assert_eq!(value("crane_group_packets_total"), Some(packets), "{src}");
        assert_eq!(value("crane_group_bytes_total"), Some(bytes), "{src}");
    }
    let families = ["crane_group_packets_total", "crane_group_bytes_total"];
    for family in families {
        let seen = common::values(&metrics, family).count();
        assert_eq!(seen, 3, "only those that were seen");
    }
    assert!(metrics.lines().all(|line| !line.starts_with("d\u{1b}")));

    let api = |path: &str| -> Value { serde_json::from_str(&get(port, path).unwrap().1).unwrap() };
    assert_eq!(
        api("/api/v1/interfaces")["interfaces"][0]["groups"],
        groups()
    );
    let heavy = &api("/api/v1/heavy-hitters")["interfaces"][0];
    assert_eq!(heavy["pairs"][1]["src_name"], "lab");
    assert_eq!(heavy["pairs"][1]["dst_name"], "other");
    assert_eq!(heavy["sources"][2]["name"], WEIRD);
    assert_eq!(heavy["destinations"][0]["name"], "office");
    let flow = api("/api/v1/flow?src=10.0.0.5&dst=192.0.2.1");
    assert_eq!(
        (&flow["src_name"], &flow["dst_name"]),
        (&json!("lab"), &json!("other"))
    );
    assert_eq!(api("/api/v1/node?ip=fd00::1")["name"], WEIRD);

    let at = format!("127.0.0.1:{port}");
    for (args, shown) in [
        (&["top"][..], "10.0.0.5 (lab)"),
        (&["top"], "10.0.0.1 (office) "),
        (&["top"], r#"(a "b" \ c\nd\u{1b}[2J)"#),
        (&["query", "--node", "10.0.0.5"], "10.0.0.5 (lab)"),
        (
            &["query", "--src", "10.0.0.5", "--dst", "10.0.0.9"],
            "10.0.0.5 (lab) → 10.0.0.9 (other)",
        ),
    ] {
        let output = agent(&[args, &["--agent", &at]].concat());
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(table.contains(shown), "{shown}: {table}");
        assert!(!table.contains('\u{1b}'), "{table}");
    }
}

#[test]
fn a_file_of_names_can_be_set_by_a_variable() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    // No packet of the capture is in these networks.
    let mut lines = String::from("\u{feff}Prefix,Name\r\n# by hand\r\n\r\n");
    for n in 0..50_000u32 {
        let (a, b) = (n >> 8, n & 255);
        writeln!(lines, "11.{a}.{b}.0/24,cloud {}\r", n % 20).unwrap();
        writeln!(lines, "2001:db8:{n:x}::/48,cloud {}\r", n % 20).unwrap();
    }
    lines += "10.0.0.0/8,office\n \"10.0.0.0/29\" , \"a, \"\"b\"\"\"\n";
    std::fs::write(folder.path().join("names.csv"), lines).unwrap();
    let mut command = Command::new(AGENT);
    command.args(["replay", "-q", "small.pcap", "--format", "json"]);
    command.env("CRANE_NAMES_FILE", "names.csv");
    let report = json(&command.current_dir(folder.path()).output().unwrap());
    let groups = report["captures"][0]["groups"].as_array().unwrap();
    let groups: BTreeMap<(&str, &str), u64> = groups
        .iter()
        .map(|group| {
            let text = |key: &str| group[key].as_str().unwrap();
            (
                (text("src"), text("dst")),
                group["packets"].as_u64().unwrap(),
            )
        })
        .collect();
    let name = "a, \"b\"";
    let expected = [
        ((name, name), 60),
        ((name, "office"), 30),
        (("other", "other"), 10),
    ];
    assert_eq!(groups, BTreeMap::from(expected));
}

/// `check-config` with this configuration, and this file where it names one.
fn check(config: &str, names: &[u8]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("agent.toml"), config).unwrap();
    std::fs::write(folder.path().join("names.csv"), names).unwrap();
    run_in(folder.path(), &["check-config", "agent.toml"])
}

#[test]
fn bad_names_are_refused_with_file_and_line() {
    let many: String = (0..70).map(|n| format!("10.0.{n}.0/24,n{n}\n")).collect();
    let long = format!("10.0.0.0/8,{}\n", "x".repeat(5000));
    let cases: [(&[u8], &[&str]); 16] = [
        (
            b"10.0.0.0/8,a\n10.0.0.0/33,b\n",
            &["names.csv, line 2", "10.0.0.0/33", "like 10.1.0.0/16"],
        ),
        (
            b"office,10.0.0.0/8\n",
            &["line 1", "\"office\"", "like 10.1.0.0/16"],
        ),
        (
            b"# a\n\n10.1.2.3/16,a\n",
            &["line 3", "10.1.2.3/16", "10.1.0.0/16"],
        ),
        (b"2001:db8::1/32,a\n", &["line 1", "2001:db8::/32"]),
        (
            b"10.0.0.0/8\n",
            &["line 1", "10.0.0.0/8", "10.1.0.0/16,office"],
        ),
        (b"10.0.0.0/8,\n", &["line 1", "not empty"]),
        (b"10.0.0.0/8, \"\" \n", &["line 1", "not empty"]),
        (b"10.0.0.0/8,a,b\n", &["line 1", "quotes"]),
        (b"10.0.0.0/8,\xff\n", &["line 1", "UTF-8"]),
        (b"prefix,name\nprefix,name\n", &["line 2", "\"prefix\""]),
        (
            b"10.0.0.0/8,a\n10.1.0.0/16,c\n10.0.0.0/8,b\n",
            &[
                "names.csv, line 3",
                "10.0.0.0/8",
                "\"b\"",
                "\"a\"",
                "names.csv, line 1",
            ],
        ),
        (
            b"192.0.2.0/24,elsewhere\n",
            &[
                "names.csv, line 1",
                "elsewhere",
                "here",
                "agent.toml, line 2",
            ],
        ),
        (
            b"::ffff:10.0.0.0/104,a\n::ffff:a00:0/104,b\n",
            &["line 2", "\"b\"", "\"a\"", "line 1"],
        ),
        (
            many.as_bytes(),
            &["names_limit = 64", "71 different names", "255"],
        ),
        (long.as_bytes(), &["line 1", "longer than 1024 bytes"]),
        (b"10.0.0.0/8,a\n\0\x1b[2J\n", &["line 2", "\\u{1b}"]),
    ];
    let config =
        "names_file = \"names.csv\"\n[[names]]\nprefix = \"192.0.2.0/24\"\nname = \"example\"\n";
    for (names, parts) in cases {
        let output = check(config, names);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(78), "{message}");
        for part in parts {
            assert!(message.contains(part), "{message:?} does not say {part:?}");
        }
        assert!(!message.contains('\u{1b}'), "{message:?}");
    }
    let twice = "[[names]]\nprefix = \"10.0.0.0/8\"\nname = \"a\"\n\n\
                 [[names]]\nname = \"b\"\nprefix = \"10.0.0.0/8\"\n";
    let message = stderr(&check(twice, b""));
    assert!(message.contains("agent.toml, line 5"), "{message}");
    assert!(message.contains("agent.toml, line 1"), "{message}");
    for path in ["missing.csv", "/dev/zero", "."] {
        let output = check(&format!("names_file = \"{path}\"\n"), b"");
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(78), "{message}");
        assert!(
            message.contains("names_file") && message.contains(path),
            "{message}"
        );
    }

    // Equal lines and the name `other` for a part of a network are valid.
    let fine = "10.0.0.0/8,a\n10.0.0.0/8,a\n10.1.0.0/16,other\n::ffff:10.0.0.0/104,b\n";
    let output = check(config, fine.as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    let enough = format!("names_limit = 70\n{config}");
    let output = check(&enough, many.replace("n69", "n68").as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The file is larger than the memory the program may have.
#[test]
fn ten_million_lines_are_refused_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut million = String::new();
    for n in 0..1_000_000 {
        writeln!(million, "{},office floor {}", address(n), n % 50).unwrap();
    }
    let mut file = std::fs::File::create(folder.path().join("names.csv")).unwrap();
    for _ in 0..10 {
        file.write_all(million.as_bytes()).unwrap();
    }
    std::fs::write(
        folder.path().join("agent.toml"),
        "names_file = \"names.csv\"\n",
    )
    .unwrap();
    let limited = format!("ulimit -v 200000; exec {AGENT} check-config agent.toml");
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &limited]).current_dir(folder.path());
    let output = shell.output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(78), "{message}");
    assert!(message.contains("more than 1000000 lines"), "{message}");
}
