//! Tests of `crane-lab device` as a program.
#![allow(clippy::unwrap_used)]

mod common;

use common::{json, lab, stderr};

#[test]
fn both_profiles_are_measured_on_each_device() {
    let args = ["device", "--time", "100ms", "--batch", "256"];
    let output = lab(&[&args[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&output);
    let results = report["results"].as_array().unwrap();
    let found: Vec<(&str, &str)> = results
        .iter()
        .map(|row| {
            for field in ["store_per_second", "query_per_second", "memory_bytes"] {
                assert!(row[field].as_f64().unwrap() > 0.0, "{row}");
            }
            (
                row["device"].as_str().unwrap(),
                row["profile"].as_str().unwrap(),
            )
        })
        .collect();
    for device in ["cpu", "cpu-tensor"] {
        for profile in ["packed", "paper"] {
            assert!(found.contains(&(device, profile)), "{found:?}");
        }
    }
    let output = lab(&[&args[..], &["--device", "cpu"]].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("M stores/s") && !table.contains("cpu-tensor"));
}

#[test]
fn an_unavailable_device_has_an_error_in_its_row() {
    let output = lab(&["device", "--device", "cuda:99", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = json(&output);
    for row in report["results"].as_array().unwrap() {
        let error = row["error"].as_str().unwrap();
        assert!(error.contains("cuda:99"), "{error}");
        assert!(row["store_per_second"].is_null());
    }
    let output = lab(&["device", "--device", "gpu"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
