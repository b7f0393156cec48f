//! The watch list in the metrics: estimates and intervals, as the API has them.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};

use common::{AGENT, Running, agent, free_port, get, json};
use serde_json::Value;

#[test]
fn watched_pairs_have_packets_and_bytes_with_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.pcap");
    let path = path.to_str().unwrap();
    let sample = ["sample", path, "--kind", "hostile", "--packets", "60000"];
    assert!(agent(&sample).status.success());
    // Light pairs: those of which little memory only knows intervals.
    let all = ["replay", "-q", path, "--format", "json", "--top", "1000"];
    let all = json(&agent(&all));
    let top = all["captures"][0]["top"].as_array().unwrap();
    let pairs: Vec<[&str; 2]> = top[500..]
        .iter()
        .step_by(25)
        .map(|pair| ["src", "dst"].map(|end| pair[end].as_str().unwrap()))
        .collect();
    let watch = pairs
        .iter()
        .map(|[src, dst]| format!("{{src = \"{src}\", dst = \"{dst}\"}}"));
    let watch = watch.collect::<Vec<_>>().join(", ");
    let config = folder.path().join("agent.toml");
    let text = format!("[sketch]\nmemory = \"128KiB\"\n[export]\nwatch = [{watch}]\n");
    std::fs::write(&config, text).unwrap();
    let port = free_port();
    let mut command = Command::new(AGENT);
    command
        .args(["replay", path, "--serve", "-c"])
        .arg(config)
        .arg(format!("--listen=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut command);
    running.wait_for_line("all packets replayed");
    let metrics = get(port, "/metrics").unwrap().1;
    let mut wide = 0;
    for [src, dst] in pairs {
        let answer = get(port, &format!("/api/v1/flow?src={src}&dst={dst}")).unwrap();
        let answer: Value = serde_json::from_str(&answer.1).unwrap();
        let answer = &answer["interfaces"][0]["estimate"];
        wide += u32::from(answer["low"] != answer["high"]);
        for (name, field) in [
            ("packets", "packets"),
            ("packets_low", "low"),
            ("packets_high", "high"),
            ("bytes", "bytes"),
            ("bytes_low", "bytes_low"),
            ("bytes_high", "bytes_high"),
        ] {
            let series = format!(
                "\ncrane_flow_estimate_{name}{{interface=\"{path}\",src=\"{src}\",dst=\"{dst}\"}} {}\n",
                answer[field]
            );
            assert!(metrics.contains(&series), "{series}");
        }
    }
    assert!(wide > 0, "no pair has an interval: this shows nothing");
}
