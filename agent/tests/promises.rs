//! What lists say of entries that they do not have.
#![allow(clippy::unwrap_used)]

mod common;

use common::{address, agent, frame, json, write_pcap};

/// 40,000 pairs with one small packet, and one with 3,000 large ones.
#[test]
fn a_list_has_no_entry_that_an_unlisted_one_certainly_exceeds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"256KiB\"\n").unwrap();
    let small = (0..40_000).map(|n| frame(address(1), address(1000 + n), 32));
    let large = frame(address(2), address(3), 972);
    let frames: Vec<Vec<u8>> = small
        .enumerate()
        .flat_map(|(n, small)| std::iter::once(small).chain((n % 13 == 0).then(|| large.clone())))
        .collect();
    write_pcap(&path, &frames);
    let (path, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let report = ["replay", "-q", path, "-c", config];
    let json = json(&agent(&[&report[..], &["--format", "json"]].concat()));
    let capture = &json["captures"][0];
    assert_eq!(capture["exact"], false);
    for (list, most, promise) in [
        ("top", "at_most", "complete_above"),
        ("top_bytes", "bytes_at_most", "complete_above_bytes"),
        ("destinations", "at_most", "destinations_others_at_most"),
        (
            "destinations_bytes",
            "bytes_at_most",
            "destinations_bytes_others_at_most",
        ),
    ] {
        let rows = capture[list].as_array().unwrap();
        let promise = capture[promise].as_u64().unwrap();
        assert!(!rows.is_empty() && promise > 0, "{list}");
        for row in rows {
            assert!(row[most].as_u64().unwrap() > promise, "{list}: {row}");
        }
    }
    let text = agent(&report);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("  any other address has "), "{text}");
}
