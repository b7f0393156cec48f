//! Windows as lines for other programs: `crane-agent export` and `--format csv`.
//! `make test-lines` has DuckDB read them as well.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::lines::{jq, parsed};
use common::{agent, get, json, serving, stderr};
use serde_json::Value;

/// Runs the agent successfully and returns its standard output.
fn printed(args: &[&str]) -> String {
    let output = agent(args);
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Lines of CSV as values with the names of their columns.
fn rows(csv: &str) -> Vec<Vec<(String, String)>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned));
    let head: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|line| {
            let row: Vec<_> = head.iter().cloned().zip(line).collect();
            assert_eq!(row.len(), head.len());
            row
        })
        .collect()
}

#[test]
fn exported_lines_equal_the_answers_of_the_api() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("s.pcap");
    printed(&["sample", capture.to_str().unwrap(), "--packets", "6000"]);
    let (_serving, port) = serving(folder.path(), "s.pcap", &["--window", "2s"]);
    let at = format!("127.0.0.1:{port}");
    let lines = printed(&["export", "--agent", &at]);
    let file = folder.path().join("window.jsonl");
    fs::write(&file, &lines).unwrap();
    let lines = parsed(&lines);
    let lists = |by: &str| -> Value {
        let (_, body) = get(port, &format!("/api/v1/heavy-hitters?by={by}")).unwrap();
        serde_json::from_str::<Value>(&body).unwrap()["interfaces"][0].take()
    };
    let window = &lines[0];
    let [by_packets, by_bytes] = ["packets", "bytes"].map(lists);
    assert_eq!(window["list"], "window");
    assert_eq!(window["complete"], true);
    for key in ["interface", "start", "end", "seconds", "packets", "bytes"] {
        assert_eq!(window[key], by_packets[key], "{key}");
    }
    for name in [
        "pairs",
        "conversations",
        "sources",
        "destinations",
        "services",
    ] {
        for (lists, rank, column) in [
            (&by_packets, "rank", "packets"),
            (&by_bytes, "rank_bytes", "bytes"),
        ] {
            let rows = lists[name].as_array().unwrap();
            assert!(!rows.is_empty(), "{name}");
            let expected: u64 = rows.iter().map(|row| row[column].as_u64().unwrap()).sum();
            let filter = format!("select(.list == \"{name}\" and .{rank} != null) | .{column}");
            let values = jq(&filter, &file);
            let values: Vec<u64> = values.lines().map(|value| value.parse().unwrap()).collect();
            let found = (values.iter().sum(), values.len());
            assert_eq!(found, (expected, rows.len()), "{name} by {column}");
        }
    }
    let fans = jq("select(.list == \"fan_out\") | .peers", &file);
    let expected = by_packets["fan_out"].as_array().unwrap().iter();
    let expected: String = expected.map(|row| format!("{}\n", row["peers"])).collect();
    assert_eq!(fans, expected);

    // The values in CSV are the same.
    let csv = printed(&["export", "--agent", &at, "--format", "csv", "-i", "s.pcap"]);
    let rows = rows(&csv);
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        for (column, value) in row {
            let expected = match &line[column] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(*value, expected, "{column} of {line}");
        }
    }
    let wrong = agent(&["export", "--agent", &at, "-i", "eth9"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        stderr(&wrong).contains("interface=eth9"),
        "{}",
        stderr(&wrong)
    );
    let (status, body) = get(port, "/api/v1/export?format=xml").unwrap();
    assert!(
        status.contains("400") && body.contains("jsonl or csv"),
        "{body}"
    );

    // Answers to questions have the same columns.
    let ask = [
        "query",
        "--agent",
        &at,
        "--src",
        "10.0.0.0/8",
        "--dst",
        "*",
        "--both",
    ];
    let answer = json(&agent(&[&ask[..], &["--format", "json"]].concat()));
    let flow = self::rows(&printed(&[&ask[..], &["--format", "csv"]].concat()));
    let value = |row: &[(String, String)], name: &str| {
        row.iter()
            .find(|(column, _)| column == name)
            .unwrap()
            .1
            .clone()
    };
    for (row, direction, src) in [
        (&flow[0], "estimate", "10.0.0.0/8"),
        (&flow[1], "back", "*"),
    ] {
        assert_eq!(value(row, "list"), "flow");
        assert_eq!(value(row, "src"), src);
        let expected = &answer["interfaces"][0][direction];
        for column in ["packets", "at_most", "bytes", "bytes_high"] {
            assert_eq!(
                value(row, column),
                expected[column].to_string(),
                "{direction} {column}"
            );
        }
    }
    let node = printed(&[
        "query", "--agent", &at, "--node", "10.0.1.8", "--format", "csv",
    ]);
    let lists: Vec<String> = self::rows(&node)
        .iter()
        .map(|row| value(row, "list"))
        .collect();
    assert_eq!(lists[..4], ["sent", "received", "fan_out", "fan_in"]);
    let services = ["sent_services", "received_services"];
    assert!(
        lists[4..]
            .iter()
            .all(|list| services.contains(&list.as_str()))
    );
    assert!(lists.len() > 4, "{lists:?}");
    let top = printed(&["top", "--agent", &at, "--format", "csv", "--by", "bytes"]);
    let top = self::rows(&top);
    let pair = top
        .iter()
        .find(|row| value(row, "list") == "pairs")
        .unwrap();
    assert_eq!(value(pair, "rank_bytes"), "1");
    assert_eq!(
        value(pair, "bytes"),
        by_bytes["pairs"][0]["bytes"].to_string()
    );
}

#[test]
fn a_replay_writes_the_lines_of_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("s.pcap");
    let capture = capture.to_str().unwrap();
    printed(&["sample", capture, "--packets", "6000"]);
    let replay = |args: &[&str]| rows(&printed(&[&["replay", capture], args].concat()));
    let csv = |args: &[&str]| replay(&[args, &["--format", "csv"]].concat());
    let value = |row: &[(String, String)], name: &str| {
        row.iter()
            .find(|(column, _)| column == name)
            .unwrap()
            .1
            .clone()
    };
    let number = |row: &[(String, String)], name: &str| value(row, name).parse::<u64>().unwrap();
    let of = |rows: &[Vec<(String, String)>], list: &str| -> Vec<Vec<(String, String)>> {
        let found = rows.iter().filter(|row| value(row, "list") == list);
        found.cloned().collect()
    };
    let report = json(&agent(&["replay", capture, "--format", "json"]));
    let report = &report["captures"][0];
    let whole = csv(&["--ask", "10.0.1.8"]);
    let window = &of(&whole, "window")[0];
    assert_eq!(number(window, "packets"), report["edges"].as_u64().unwrap());
    assert_eq!(value(window, "end"), report["end"].to_string());
    let pairs = of(&whole, "pairs");
    assert_eq!(
        value(&pairs[0], "src"),
        report["top"][0]["src"].as_str().unwrap()
    );
    assert_eq!(of(&whole, "sent").len(), 1);
    let windows = csv(&["--window", "1s"]);
    let windows = of(&windows, "window");
    assert_eq!(windows.len(), 6);
    let sum: u64 = windows.iter().map(|row| number(row, "packets")).sum();
    assert_eq!(sum, report["edges"].as_u64().unwrap());
    for pair in windows.windows(2) {
        assert_eq!(value(&pair[0], "end"), value(&pair[1], "start"));
    }
}
