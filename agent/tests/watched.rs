//! The watch list in the metrics: estimates and intervals, as the API has them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{agent, get, json, serving};
use serde_json::Value;

#[test]
fn watched_pairs_have_packets_and_bytes_with_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.pcap");
    let path = path.to_str().unwrap();
    let sample = ["sample", path, "--kind", "hostile", "--packets", "60000"];
    assert!(agent(&sample).status.success());
    let config = folder.path().join("agent.toml");
    let memory = "[sketch]\nmemory = \"128KiB\"\n";
    std::fs::write(&config, memory).unwrap();
    // Light pairs, for which a small memory gives only intervals.
    let top = ["replay", "-q", path, "--format", "json", "--top", "1000"];
    let top = json(&agent(&top))["captures"][0]["top"].clone();
    let ends = |pair: &Value| ["src", "dst"].map(|end| pair[end].as_str().unwrap().to_owned());
    let light = top
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .take(300)
        .step_by(6)
        .map(ends);
    let asked: Vec<String> = light
        .map(|pair| format!("--ask={}", pair.join(",")))
        .collect();
    let mut args = vec!["replay", "-q", path, "--format", "json", "-c"];
    args.push(config.to_str().unwrap());
    args.extend(asked.iter().map(String::as_str));
    let asked = json(&agent(&args))["captures"][0]["asked"].clone();
    let wide = asked.as_array().unwrap().iter();
    let wide = wide.filter(|answer| answer["low"] != answer["high"]);
    let pairs: Vec<[String; 2]> = wide.map(ends).take(3).collect();
    assert!(!pairs.is_empty(), "{asked}");
    let watch = pairs
        .iter()
        .map(|[src, dst]| format!("{{src = \"{src}\", dst = \"{dst}\"}}"));
    let watch = watch.collect::<Vec<_>>().join(", ");
    std::fs::write(&config, format!("{memory}[export]\nwatch = [{watch}]\n")).unwrap();
    let (_running, port) = serving(folder.path(), path, &["-c", config.to_str().unwrap()]);
    let metrics = get(port, "/metrics").unwrap().1;
    for [src, dst] in pairs {
        let answer = get(port, &format!("/api/v1/flow?src={src}&dst={dst}")).unwrap();
        let answer: Value = serde_json::from_str(&answer.1).unwrap();
        let answer = &answer["interfaces"][0]["estimate"];
        assert_ne!(answer["low"], answer["high"]);
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
}
