//! Tests of `crane-lab eval` as a program.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};

use common::{json, lab, stderr};
use serde_json::Value;

/// 2,000 edges; edge n occurs 1 + 2000/n times, in a mixed order.
fn stream(folder: &Path) -> PathBuf {
    let mut arrivals: Vec<u32> = (1..=2000u32)
        .flat_map(|n| vec![n; 1 + 2000 / n as usize])
        .collect();
    arrivals.sort_by_key(|n| n.wrapping_mul(2_654_435_761).rotate_left(n % 32));
    let text: String = arrivals
        .iter()
        .map(|n| format!("{} 10.0.0.{}\n", n % 977, n % 251))
        .collect();
    let path = folder.join("stream.txt");
    std::fs::write(&path, text).unwrap();
    path
}

fn eval(args: &[&str]) -> Value {
    let output = lab(&[&["eval", "--format", "json"], args].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    json(&output)
}

fn row<'a>(report: &'a Value, method: &str) -> &'a Value {
    let rows = report["results"].as_array().unwrap();
    rows.iter().find(|row| row["method"] == method).unwrap()
}

#[test]
fn every_method_has_every_figure_within_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let path = stream(folder.path());
    let report = eval(&[path.to_str().unwrap(), "--memory", "16KiB"]);
    let distinct = report["distinct"].as_u64().unwrap();
    assert!(distinct > 1500, "{distinct}");
    for method in [
        "crane-packed",
        "crane-paper",
        "tcm",
        "gss",
        "auxo",
        "cms",
        "cu",
        "exact",
        "one",
    ] {
        let row = row(&report, method);
        for field in [
            "are",
            "aae",
            "top100_recall",
            "top100_are",
            "estimate_cv",
            "absent_mean",
            "node_are",
        ] {
            assert!(row[field].is_number(), "{method} has no {field}: {row}");
        }
        for band in ["1", "2-9", "10-99", "100-999", "1000+"] {
            assert!(row["bands"].get(band).is_some(), "{method} {band}");
        }
        for field in ["store_per_second", "query_per_second"] {
            assert!(row[field].as_f64().unwrap() > 0.0);
        }
        for field in [
            "coverage90",
            "coverage_bands",
            "interval_score",
            "median_width",
            "rank_correlation_top1000",
        ] {
            assert!(row.get(field).is_some(), "{method} {field}");
        }
        if method != "exact" {
            assert!(row["memory_bytes"].as_u64().unwrap() <= 16384, "{method}");
        }
    }
    let packed = row(&report, "crane-packed");
    assert!(packed["coverage90"].as_f64().unwrap() >= 0.9, "{packed}");
    assert!(packed["median_width"].is_number());
    for field in ["below_at_least", "above_at_most"] {
        assert_eq!(packed[field], 0, "guaranteed: {packed}");
    }
    for (band, held) in packed["coverage_bands"].as_object().unwrap() {
        let held = held.as_f64().unwrap_or(1.0);
        assert!(held >= 0.87, "{band}: {packed}");
    }
    let guarantee = packed["guarantee_score"].as_f64().unwrap();
    assert!(packed["interval_score"].as_f64().unwrap() < guarantee);
    for recall in packed["node_recall"].as_array().unwrap() {
        assert!(recall.as_f64().unwrap() > 0.9, "{packed}");
    }
    let exact = row(&report, "exact");
    assert_eq!(
        (&exact["are"], &exact["absent_mean"], &exact["node_are"]),
        (&0.0.into(), &0.0.into(), &0.0.into())
    );
    assert!(row(&report, "crane-paper")["node_are_summed"].is_number());
    let aae = |method: &str| row(&report, method)["aae"].as_f64().unwrap();
    assert!(aae("cu") <= aae("cms"));
    assert!(aae("crane-packed") < 0.5 * aae("cu"));
}

/// 3,000 sources, of which source n sends to 1 + 6000/n destinations, often twice, and as
/// many destinations that receive from a few sources.
#[test]
fn nodes_with_most_peers_are_found_by_methods_that_estimate_peers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers.txt");
    let pairs = (1..=3000u32).flat_map(|n| (0..=6000 / n).map(move |peer| (n, peer)));
    let line = |(n, peer): (u32, u32)| {
        let peer = (n.wrapping_mul(2_654_435_761) >> 20) * (peer % 3) + peer;
        format!("{n} {peer}\n{n} {peer}\n")
    };
    std::fs::write(&path, pairs.map(line).collect::<String>()).unwrap();
    let path = path.to_str().unwrap();
    let report = eval(&[
        path,
        "--methods",
        "crane-packed,exact,cu",
        "--memory",
        "64KiB",
    ]);
    let exact = row(&report, "exact");
    assert_eq!(exact["fan_recall"], 1.0);
    assert_eq!(exact["fan_are"], 0.0);
    let packed = row(&report, "crane-packed");
    // Only nodes above the noise can be found, and many of the 100 have too few peers.
    assert!(packed["fan_recall"].as_f64().unwrap() > 0.4, "{packed}");
    let are = packed["fan_are"].as_f64().unwrap();
    assert!(are > 0.0 && are < 0.35, "{packed}");
    let cu = row(&report, "cu").as_object().unwrap();
    assert!(cu["fan_recall"].is_null() && cu["fan_are"].is_null());
    // Exact while all pairs fit; no figures if the memory is too small.
    let packed = |memory| {
        let args = [path, "--methods", "crane-packed", "--memory", memory];
        row(&eval(&args), "crane-packed").clone()
    };
    let large = packed("4MiB");
    assert_eq!(
        (&large["fan_recall"], &large["fan_are"]),
        (&1.0.into(), &0.0.into())
    );
    assert!(packed("8KiB")["fan_are"].is_null());
    let output = lab(&["eval", path, "--methods", "crane-packed"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("fan recall"));
}

#[test]
fn a_saved_state_answers_the_same_in_a_new_process_and_is_no_larger_than_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = stream(folder.path());
    let (path, state) = (path.to_str().unwrap(), folder.path().join("state"));
    let state = state.to_str().unwrap();
    for method in [
        "crane-packed",
        "crane-paper",
        "cu",
        "gss",
        "auxo",
        "tcm",
        "exact",
    ] {
        let saved = eval(&[path, "--methods", method, "--save-state", state]);
        let size = std::fs::metadata(state).unwrap().len();
        let reported = row(&saved, method)["memory_bytes"].as_u64().unwrap();
        assert!(
            size <= reported + 4096,
            "{method}: {size} bytes for {reported}"
        );
        let loaded = eval(&[path, "--methods", method, "--load-state", state]);
        for field in ["are", "aae", "bands", "top100_recall", "absent_mean"] {
            assert_eq!(
                row(&saved, method)[field],
                row(&loaded, method)[field],
                "{method} {field}"
            );
        }
        if method == "crane-packed" {
            for field in ["coverage90", "median_width", "once_mean"] {
                assert_eq!(row(&saved, method)[field], row(&loaded, method)[field]);
            }
        }
        let other = if method == "cu" { "cms" } else { "cu" };
        let output = lab(&["eval", path, "--methods", other, "--load-state", state]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains(&format!("not a state of {other}")),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn compressed_streams_give_the_same_figures() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..3000u32)
        .flat_map(|n| [n % 300, n % 7])
        .flat_map(u32::to_le_bytes)
        .collect();
    let mut expected = None;
    for name in ["s.u32", "s.u32.gz", "s.u32.zst"] {
        let path = folder.path().join(name);
        let content = match name.rsplit('.').next().unwrap() {
            "gz" => {
                let mut packer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packer.write_all(&bytes).unwrap();
                packer.finish().unwrap()
            }
            "zst" => zstd::encode_all(&bytes[..], 1).unwrap(),
            _ => bytes.clone(),
        };
        std::fs::write(&path, content).unwrap();
        let report = eval(&[
            path.to_str().unwrap(),
            "--methods",
            "one",
            "--edges",
            "2000",
        ]);
        assert_eq!(report["edges"], 2000);
        let are = row(&report, "one")["are"].clone();
        assert_eq!(*expected.get_or_insert(are.clone()), are);
    }
}

#[test]
fn bad_streams_and_budgets_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let bad_line = file("bad.txt", b"1 2\n1 two\n");
    let odd = file("odd.u32", &[1; 12]);
    let endless = file("endless.txt", b"1 2 4611686018427387904\n1 3 1\n");
    let empty = file("empty.txt", b"# nothing\n");
    let foreign = file("foreign.safetensors", b"no weights");
    let paper = concat!(env!("CARGO_MANIFEST_DIR"), "/../weights/paper.safetensors");
    let good = file("good.txt", b"1 2\n1 2\n3 4\n");
    let capture = file("a.pcap", b"\xd4\xc3\xb2\xa1\x02\0\x04\0");
    // A file that is too large, and a pipe without a writer.
    let vast = folder.path().join("vast.safetensors");
    let sparse = std::fs::File::create(&vast).unwrap();
    sparse.set_len(100 << 30).unwrap();
    let vast = vast.to_str().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (&[&bad_line], &["bad.txt", "line 2", "two"]),
        (&[&odd], &["odd.u32", "12 bytes"]),
        (&[&endless], &["endless.txt", "line 2", "add up"]),
        (&[&empty], &["empty.txt", "empty"]),
        (&["/no/such"], &["/no/such"]),
        (&["\x1b[2Jgone"], &["\\u{1b}[2Jgone"]),
        (&[&capture], &["line 1", "crane-agent replay"]),
        (
            &[&good, "--weights", vast],
            &["vast.safetensors", "larger than 64MiB"],
        ),
        (
            &[&good, "--methods", "cu", "--load-state", pipe],
            &["pipe", "not a regular file"],
        ),
        (
            &[&good, "--weights", &foreign],
            &["foreign.safetensors", "safetensors"],
        ),
        (
            &[&good, "--methods", "crane-packed", "--weights", paper],
            &["\"paper\", not \"packed\""],
        ),
        (&[&good, "--save-state", "x"], &["--methods"]),
    ];
    for (args, parts) in cases {
        let output = lab(&[&["eval"], *args].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for part in *parts {
            assert!(said.contains(part), "{said}");
        }
    }
    // If the budget is too small for one method, its row says so; the others are measured.
    let report = eval(&[&good, "--memory", "1KiB"]);
    assert!(
        row(&report, "crane-paper")["error"]
            .as_str()
            .unwrap()
            .contains("16384")
    );
    let packed = row(&report, "crane-packed")["error"].as_str();
    assert!(packed.unwrap().contains("4096 bytes or more"));
    assert_eq!(row(&report, "cu")["are"], 0.0);
    let output = lab(&["eval", &good, "--memory", "1KiB"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("16384 bytes or more, for a layer"));
}

#[test]
fn a_sketch_that_grows_is_as_good_as_one_that_had_its_size_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = stream(folder.path());
    let path = path.to_str().unwrap();
    let packed = |more: &[&str]| {
        let args = [&[path, "--methods", "crane-packed"], more].concat();
        row(&eval(&args), "crane-packed").clone()
    };
    // 2,000 edges fit a table, which is exact and takes no more memory than it needs.
    let small = packed(&["--memory", "1MiB", "--start", "4KiB"]);
    assert_eq!(small["are"], 0.0);
    assert!(
        small["memory_bytes"].as_u64().unwrap() <= 64 << 10,
        "{small}"
    );
    let (fixed, grown) = (
        packed(&["--memory", "8KiB"]),
        packed(&["--memory", "8KiB", "--start", "4KiB"]),
    );
    let are = |figures: &Value| figures["are"].as_f64().unwrap();
    assert!(are(&grown) <= 1.3 * are(&fixed), "{fixed} {grown}");
}

#[test]
fn every_part_of_the_packed_profile_can_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = stream(folder.path());
    let overload = folder.path().join("overload.txt");
    let edge = |n: u32| format!("{} {}\n", n.wrapping_mul(2_654_435_761), n);
    std::fs::write(&overload, (0..20_000).map(edge).collect::<String>()).unwrap();
    let are_of = |path: &std::path::Path, more: &[&str]| {
        let path = path.to_str().unwrap();
        let args = [
            &[path, "--memory", "4KiB", "--methods", "crane-packed"],
            more,
        ]
        .concat();
        row(&eval(&args), "crane-packed")["are"].as_f64().unwrap()
    };
    let are = |more: &[&str]| are_of(&path, more);
    let whole = are(&[]);
    let without = are(&["--without", "narrow"]);
    assert!(without > whole, "{without}, with it {whole}");
    // The decoder changes answers only under overload.
    let (decoded, bound) = (
        are_of(&overload, &[]),
        are_of(&overload, &["--without", "decoder"]),
    );
    assert!(bound > 2.0 * decoded, "{bound}, with it {decoded}");
    // The crown improves the heavy edges, not the mean error.
    are(&["--without", "heavy,witnesses"]);
    let learned = are(&["--codes", "learned"]);
    assert!(learned < 1.5 * whole, "{learned}, hashed {whole}");
}

/// Weights far beyond the limit of a cell, and more memory than the machine has.
#[test]
fn huge_weights_take_bounded_time_and_huge_budgets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.txt");
    let heavy = (1..=5).map(|n| format!("{n} 9 100000000000000\n{n} 8\n"));
    std::fs::write(&path, heavy.collect::<String>()).unwrap();
    let path = path.to_str().unwrap();
    let start = std::time::Instant::now();
    let report = eval(&[path]);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    let exact = row(&report, "exact")["are"].clone();
    assert_eq!(exact, 0.0);
    assert!(row(&report, "crane-paper")["are"].is_number());

    for size in ["2GiB", "100GiB", "17179869183GiB"] {
        let output = lab(&["eval", path, "--memory", size]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in ["--memory", size, "must be"] {
            assert!(said.contains(part), "{said}");
        }
    }
    let output = lab(&["eval", path, "--methods", "two"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn tables_fit_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = stream(folder.path());
    let output = lab(&["eval", path.to_str().unwrap(), "--memory", "64KiB"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().count() > 20, "{text}");
    // The first line contains the path.
    for line in text.lines().skip(1) {
        assert!(line.chars().count() <= 80, "{line}\n{text}");
        assert_eq!(line, line.trim_end(), "spaces at the end:\n{text}");
    }
}
