//! `replay --jobs`: answers do not depend on the number of threads.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::path::Path;

use common::{agent, json};
use serde_json::Value;

/// The report without what depends on the time of day.
fn report(file: &Path, jobs: &str, more: &[&str]) -> Value {
    let file = file.to_str().unwrap();
    let args = [
        "replay", "-q", file, "--format", "json", "--top", "50", "-j", jobs,
    ];
    let mut report = json(&agent(&[&args[..], more].concat()));
    for key in ["elapsed_seconds", "packets_per_second"] {
        report.as_object_mut().unwrap().remove(key);
    }
    report
}

#[test]
fn answers_do_not_depend_on_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"1MiB\"\nbatch = 1024\n").unwrap();
    let config = ["-c", config.to_str().unwrap()];
    for kind in ["office", "forged"] {
        let path = folder.path().join(kind).with_extension("pcap");
        let args = ["sample", path.to_str().unwrap(), "--kind", kind];
        assert!(agent(&args).status.success());
        for window in [&[][..], &["--window", "7s"], &["--verify"]] {
            let more = [&config[..], window].concat();
            let one = report(&path, "1", &more);
            let captured = &one["captures"][0];
            assert_eq!(captured["packets"], 60_000);
            assert!(captured["top"].as_array().unwrap().len() >= 10);
            for jobs in ["2", "8"] {
                assert_eq!(
                    report(&path, jobs, &more),
                    one,
                    "{kind} {window:?} -j {jobs}"
                );
            }
        }
    }
}

/// A file that is read ahead gives the packets before its damage and says where that is.
#[test]
fn a_damaged_file_says_the_same_with_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let args = ["sample", path.to_str().unwrap(), "--kind", "skewed"];
    assert!(agent(&args).status.success());
    let whole = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.pcap");
    std::fs::write(&cut, &whole[..whole.len() - 7]).unwrap();
    let packed = folder.path().join("packed.pcap.gz");
    let mut packer = flate2::write::GzEncoder::new(
        std::fs::File::create(&packed).unwrap(),
        flate2::Compression::none(),
    );
    packer.write_all(&whole[..whole.len() - 7]).unwrap();
    packer.finish().unwrap();
    for file in [&cut, &packed] {
        let said = ["1", "2"].map(|jobs| {
            let args = ["replay", "-q", file.to_str().unwrap(), "-j", jobs];
            let output = agent(&args);
            assert!(!output.status.success());
            String::from_utf8(output.stderr).unwrap()
        });
        let last = format!("in packet {}", 60_000);
        assert!(said[0].contains(&last), "{}", said[0]);
        let error = |text: &str| text.lines().last().map(str::to_owned);
        assert_eq!(error(&said[0]), error(&said[1]));
    }
}
