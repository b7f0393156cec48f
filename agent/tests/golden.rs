//! Exact comparison of everything that programs read from the agent: `/metrics`, every
//! JSON answer of the API and of its clients, and the report of a replay.
//!
//! The expected output is in `tests/golden`. After an intended change,
//! `GOLDEN=write cargo test -p crane-agent --test golden` rewrites it; the difference
//! belongs in the commit and, for users, in the change log.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::packets::{v4, v6};
use common::{AGENT, address, agent, arp, frame, get, json, serving, write_pcap};
use serde_json::{Map, Value, json};

/// Keys whose numbers differ from run to run, or depend on the model.
const MASKED: [&str; 6] = [
    "elapsed_seconds",
    "packets_per_second",
    "memory_bytes",
    "age_seconds",
    "budget_bytes",
    "places",
];
/// Keys whose texts differ from machine to machine, or whose lists differ from run to
/// run.
const LOCAL: [&str; 3] = ["host", "version", "fill"];
/// Families of metrics whose values differ from run to run.
const VOLATILE: [&str; 4] = [
    "process_",
    "crane_sketch_batch_duration_seconds",
    "crane_sketch_memory_bytes",
    "crane_sketch_load_ratio",
];

/// Compares a text with a golden file, or writes that file.
fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = path.join(name);
    if std::env::var_os("GOLDEN").is_some_and(|value| value == "write") {
        return std::fs::write(path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = (1..).zip(golden.lines().zip(text.lines()));
    if let Some((line, (old, new))) = lines.find(|(_, (old, new))| old != new) {
        panic!("{name}, line {line}:\n- {old}\n+ {new}\n(see the head of this test)");
    }
    assert_eq!(golden.len(), text.len(), "{name} is longer or shorter now");
}

fn compare_json(name: &str, value: &Value) {
    let text = serde_json::to_string_pretty(&masked(value)).unwrap();
    compare(name, &format!("{text}\n"));
}

fn masked(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(masked).collect(),
        Value::Object(fields) => {
            let mask = |(key, value): (&String, &Value)| {
                let key_is = |keys: &[&str]| keys.contains(&key.as_str());
                let hidden = value.is_number() && key_is(&MASKED);
                let hidden = hidden || key_is(&LOCAL);
                let value = if hidden { json!("…") } else { masked(value) };
                (key.clone(), value)
            };
            Value::Object(fields.iter().map(mask).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Metrics in the order of their names, without the values that differ from run
/// to run.
fn masked_metrics(text: &str) -> String {
    let mask = |line: &str| {
        let line = line.replace(env!("CARGO_PKG_VERSION"), "…");
        match line.rsplit_once(' ') {
            Some((series, _)) if VOLATILE.iter().any(|name| series.starts_with(name)) => {
                format!("{series} …\n")
            }
            _ => format!("{line}\n"),
        }
    };
    let mut families: Vec<String> = text
        .split("# HELP ")
        .skip(1)
        .map(|family| format!("# HELP {}", family.trim_end()))
        .map(|family| {
            let mut lines: Vec<String> = family.lines().map(mask).collect();
            // The `metrics` crate exports these series in any order.
            if family.contains("{thread=") {
                lines[2..].sort();
            }
            lines.concat()
        })
        .collect();
    families.sort();
    families.join("\n")
}

/// A capture of IPv4, IPv6 and ARP, packets a millisecond apart.
fn capture(folder: &Path) -> PathBuf {
    let wide = common::frame::ip(v6(1), common::frame::UDP, &[0; 40]);
    let wide = common::frame::ethernet(common::frame::IPV6, &wide);
    let frames: Vec<Vec<u8>> = (0..250)
        .map(|n| match n {
            7 => arp(),
            0..100 => frame(address(1), address(2), 1000),
            _ if n % 5 == 0 => wide.clone(),
            100..180 => frame(address(3), address(4), 10),
            180..200 => frame(address(5), address(4), 1400),
            _ => frame(address(8), address(9), 10),
        })
        .collect();
    let path = folder.join("small.pcap");
    write_pcap(&path, &frames);
    path
}

#[test]
fn metrics_and_answers_are_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    let watched = v4(1);
    let config = format!(
        "[export]\nwatch = [{{src = \"10.0.0.8\", dst = \"10.0.0.9\"}}, \
         {{src = \"{}\", dst = \"{}\"}}]\n[sketch]\ndevice = \"cpu\"\n",
        watched.0, watched.1
    );
    std::fs::write(folder.path().join("agent.toml"), config).unwrap();
    let (_running, port) = serving(
        folder.path(),
        "small.pcap",
        &["--window", "100ms", "-c", "agent.toml"],
    );

    compare(
        "metrics.txt",
        &masked_metrics(&get(port, "/metrics").unwrap().1),
    );
    let mut answers = Map::new();
    for path in [
        "/api/v1/interfaces",
        "/api/v1/heavy-hitters",
        "/api/v1/heavy-hitters?window=last&by=bytes",
        "/api/v1/heavy-hitters?window=current&interface=small.pcap",
        "/api/v1/flow?src=10.0.0.8&dst=10.0.0.9",
        "/api/v1/flow?src=10.0.0.8&dst=10.0.0.77&window=current",
        "/api/v1/flow?src=fd00::1:1&dst=fd00::1:2",
        "/api/v1/node?ip=10.0.0.9",
        "/api/v1/node?ip=fd00::1:1&window=last",
        "/api/v1/flow?src=10.0.0.8&dst=10.0.0.9&services=true",
        "/api/v1/flow?src=10.0.0.8&dst=10.0.0.9&port=80",
        "/api/v1/node?ip=10.0.0.9&services=true",
        "/api/v1/service?service=tcp/80",
        "/api/v1/service?service=nonsense",
        "/api/v1/flow?src=10.0.0.8",
        "/api/v1/flow?src=10.0.0.8&dst=me",
        "/api/v1/flow?src=10.0.0.8&dst=::1",
        "/api/v1/node?ip=10.0.0.8&window=next",
        "/api/v1/node?ip=10.0.0.8&interface=eth9",
        "/api/v1/node?ip=10.0.0.8&ip=10.0.0.9",
        "/api/v1/heavy-hitters?by=size",
        "/api/v1/interfaces?by=size",
        "/api/v1/heavy-hitters?top=1&interface=small.pcap",
        "/api/v1/sketch?interface=small.pcap&window=last",
        "/api/v2",
    ] {
        let (status, body) = get(port, path).unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        answers.insert(path.into(), json!({ "status": status, "body": body }));
    }
    let body = |path: &str| answers[path]["body"].clone();
    let at = format!("127.0.0.1:{port}");
    let ask = |args: &[&str]| {
        let common = ["--agent", &at, "--format", "json"];
        json(&agent(&[args, &common].concat()))
    };
    assert_eq!(ask(&["top"]), body("/api/v1/heavy-hitters"));
    assert_eq!(
        ask(&["query", "--src", "10.0.0.8", "--dst", "10.0.0.9"]),
        body("/api/v1/flow?src=10.0.0.8&dst=10.0.0.9&services=true")
    );
    assert_eq!(
        ask(&["query", "--node", "10.0.0.9"]),
        body("/api/v1/node?ip=10.0.0.9&services=true")
    );
    compare_json("api.json", &Value::Object(answers));
}

#[test]
fn the_output_of_clients_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    capture(folder.path());
    let (_running, port) = serving(folder.path(), "small.pcap", &["--window", "100ms"]);
    let at = format!("127.0.0.1:{port}");
    let mut shown = String::new();
    for args in [
        &["top"][..],
        &["top", "--by", "bytes", "--window", "current"],
        &["query", "--src", "10.0.0.8", "--dst", "10.0.0.9"],
        &["query", "--node", "10.0.0.9", "--interface", "small.pcap"],
        &["query", "--service", "udp"],
    ] {
        let output = agent(&[args, &["--agent", &at]].concat());
        let table = String::from_utf8(output.stdout).unwrap();
        shown += &format!("$ crane-agent {}\n{table}\n", args.join(" "));
    }
    compare("clients.txt", &shown);
}

#[test]
fn the_report_of_a_replay_is_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path());
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(folder.path().join("cut.pcap"), &whole[..whole.len() - 9]).unwrap();
    let replay = |args: &[&str]| {
        let mut command = Command::new(AGENT);
        command
            .args(["replay", "-q", "--format", "json"])
            .args(args);
        json(&command.current_dir(folder.path()).output().unwrap())
    };
    let reports = json!({
        "whole": replay(&["small.pcap", "--verify"]),
        "windows": replay(&["small.pcap", "--window", "100ms", "--top", "2"]),
        "broken": replay(&["cut.pcap", "missing.pcap", "--top", "1"]),
    });
    compare_json("replay.json", &reports);
}
