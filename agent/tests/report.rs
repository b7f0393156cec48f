//! The report of `crane-agent replay`: lists, answers to queries, shares, units.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use common::{AGENT, address, agent, arp, frame, json, stderr, write_pcap};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

/// Three hosts and an ARP packet first, a millisecond apart: 101 packets.
fn office(folder: &Path) -> String {
    let path = folder.join("office.pcap");
    let mut frames = vec![arp()];
    for n in 0..100 {
        frames.push(match n {
            0..60 => frame(address(1), address(2), 0),
            60..90 => frame(address(2), address(1), 1000),
            _ => frame(address(3), address(1), 0),
        });
    }
    write_pcap(&path, &frames);
    path.to_str().unwrap().to_owned()
}

fn replay(path: &str, args: &[&str]) -> Value {
    let all = [&["replay", "-q", "--format", "json", path], args].concat();
    json(&agent(&all))["captures"][0].clone()
}

fn table(args: &[&str]) -> String {
    let output = agent(&[&["replay", "-q"], args].concat());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn json_contains_the_lists_times_and_rates() {
    let folder = tempfile::tempdir().unwrap();
    let path = office(folder.path());
    let capture = replay(&path, &[]);
    let row = |list: &str, at: usize| {
        let row = &capture[list][at];
        (
            row["ip"].clone(),
            row["packets"].clone(),
            row["bytes"].clone(),
        )
    };
    let (a, b) = (json!("10.0.0.1"), json!("10.0.0.2"));
    assert_eq!(row("sources", 0), (a.clone(), json!(60), json!(60 * 42)));
    let heavy = (b.clone(), json!(30), json!(30 * 1042));
    assert_eq!(row("sources_bytes", 0), heavy);
    assert_eq!(row("destinations", 0), (b, json!(60), json!(60 * 42)));
    let bytes = json!(30 * 1042 + 10 * 42);
    assert_eq!(row("destinations_bytes", 0), (a, json!(40), bytes));
    assert_eq!(capture["top"][0]["src"], "10.0.0.1");
    assert_eq!(capture["top_bytes"][0]["src"], "10.0.0.2");
    assert_eq!(capture["top_bytes"][0]["high"], 30);
    // Times begin with the first packet, even if it is not an IP packet.
    assert_eq!(capture["start"], 1_700_000_000.0);
    assert_eq!(capture["end"], 1_700_000_000.1);
    assert_eq!(capture["seconds"], 0.1);
    assert_eq!(capture["packets_per_second"], 1010.0);
    let bits = 8.0 * capture["bytes"].as_f64().unwrap() / 0.1;
    assert_eq!(capture["bits_per_second"], bits);
    assert_eq!(
        (&capture["pairs"], &capture["exact"]),
        (&json!(3), &json!(true))
    );

    let single = folder.path().join("single.pcap");
    write_pcap(&single, &[frame(address(1), address(2), 0)]);
    let single = replay(single.to_str().unwrap(), &[]);
    assert_eq!(
        (&single["start"], &single["seconds"]),
        (&json!(1_700_000_000.0), &json!(0.0))
    );
    assert!(single["packets_per_second"].is_null() && single["bits_per_second"].is_null());
}

#[test]
fn any_pair_and_any_address_can_be_queried() {
    let folder = tempfile::tempdir().unwrap();
    let path = office(folder.path());
    let ask = [
        "--ask",
        "10.0.0.3,10.0.0.1",
        "--ask",
        "10.0.0.2",
        "--ask",
        "::1,::2",
    ];
    let capture = replay(
        &path,
        &[&ask[..], &["--top", "1", "--window", "100ms"]].concat(),
    );
    let asked = &capture["asked"];
    assert_eq!(
        (&asked[0]["src"], &asked[0]["packets"]),
        (&json!("10.0.0.3"), &json!(10))
    );
    assert_eq!(asked[1]["ip"], "10.0.0.2");
    assert_eq!(asked[1]["sent"]["packets"], 30);
    assert_eq!(asked[1]["received"]["packets"], 60);
    assert_eq!(
        (&asked[2]["packets"], &asked[2]["bytes"]),
        (&json!(0), &json!(0))
    );
    // Answers of a window are about that window; answers of the capture are about all of
    // it.
    assert_eq!(capture["windows"][0]["asked"][0]["packets"], 10);
    let text = table(&[&[path.as_str()], &ask[..]].concat());
    for part in ["10.0.0.3 → 10.0.0.1", "10.0.0.2 sent", "10.0.0.2 received"] {
        assert!(text.contains(part), "{text}");
    }
    for (wrong, said) in [
        ("10.0.0.1,me", "no network is called \"me\""),
        (
            "10.0.0",
            "`10.0.0` is no address: write one like 2001:db8::1, a pair like 10.0.0.1,10.0.0.2",
        ),
        ("10.0.0.1,::1", "no packet goes from an IPv4"),
    ] {
        let output = agent(&["replay", &path, "--ask", wrong]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

#[test]
fn no_pair_is_listed_while_a_heavier_one_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.pcap");
    // Pairs with 1 to 40 packets, more than fit.
    let pairs = |n: u32| 1 + 40_000 / (n + 1000);
    let mut frames = Vec::new();
    for round in 0..41 {
        let sends = (0..3000).filter(|n| round < pairs(*n));
        frames.extend(sends.map(|n| frame(address(n), address(n ^ 1), 0)));
    }
    write_pcap(&path, &frames);
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"128KiB\"\n").unwrap();
    let (path, config) = (path.to_str().unwrap(), config.to_str().unwrap());
    let capture = replay(path, &["--top", "5000", "-c", config]);
    assert_eq!(capture["exact"], false);
    let known = capture["pairs"].as_u64().unwrap();
    assert!((2500..3500).contains(&known), "{known}");
    let above = capture["complete_above"].as_u64().unwrap();
    let listed = capture["top"].as_array().unwrap();
    let heavier = (0..3000).filter(|n| u64::from(pairs(*n)) > above).count();
    assert!(listed.len() >= heavier, "{} of {heavier}", listed.len());
    assert!(
        listed
            .iter()
            .all(|row| row["at_most"].as_u64().unwrap() > above)
    );
    let text = table(&[path, "-c", config, "--top", "5000", "--sort", "packets"]);
    let said = format!(
        "listed: {} pairs; any other has {above} packets at most",
        listed.len()
    );
    assert!(text.contains(&said), "{text}");
    assert!(text.contains("estimates: about "), "{text}");
    // A sample gives no guaranteed bound for packets outside of it.
    let sampled = folder.path().join("sampled.toml");
    std::fs::write(&sampled, "[capture]\nsample = 10\n").unwrap();
    let sampled = sampled.to_str().unwrap();
    let capture = replay(path, &["--top", "5000", "-c", sampled]);
    assert_eq!(
        (&capture["exact"], &capture["complete_above"]),
        (&json!(false), &json!(50))
    );
    let text = table(&[path, "-c", sampled, "--top", "5000", "--sort", "packets"]);
    let said = "any other most likely has 50 packets at most";
    assert!(text.contains(said), "{text}");
    // If all pairs fit, the list has the requested length.
    let capture = replay(path, &["--top", "7"]);
    assert_eq!(
        (&capture["exact"], &capture["pairs"]),
        (&json!(true), &json!(3000))
    );
    assert_eq!(capture["complete_above"], capture["top"][6]["packets"]);
}

/// Packets and bytes of every pair in some frames.
fn counted(frames: &[Vec<u8>]) -> HashMap<(String, String), (u64, u64)> {
    let mut counts: HashMap<_, (u64, u64)> = HashMap::new();
    for frame in frames {
        let at = |from: usize| Ipv4Addr::from(*frame[from..].first_chunk().unwrap()).to_string();
        let (packets, bytes) = counts.entry((at(26), at(30))).or_default();
        (*packets, *bytes) = (*packets + 1, *bytes + frame.len() as u64);
    }
    counts
}

/// Checks rows against the truth, and that no pair is missing that exceeds the bound of
/// all pairs that are not listed.
fn check_lists(capture: &Value, truth: &HashMap<(String, String), (u64, u64)>) {
    let number = |value: &Value| value.as_u64().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pair = |row: &Value| (text(&row["src"]), text(&row["dst"]));
    for (list, above) in [
        ("top", "complete_above"),
        ("top_bytes", "complete_above_bytes"),
    ] {
        let rows = capture[list].as_array().unwrap();
        for row in rows {
            let (packets, bytes) = truth[&pair(row)];
            let ends = number(&row["at_least"])..=number(&row["at_most"]);
            assert!(ends.contains(&packets), "{packets}: {row}");
            let ends = number(&row["bytes_at_least"])..=number(&row["bytes_at_most"]);
            assert!(ends.contains(&bytes), "{bytes}: {row}");
        }
        let listed: HashSet<_> = rows.iter().map(pair).collect();
        let above = number(&capture[above]);
        for (pair, (packets, bytes)) in truth {
            let has = if list == "top" { *packets } else { *bytes };
            assert!(
                has <= above || listed.contains(pair),
                "{list}: {has} > {above}"
            );
        }
    }
}

#[test]
fn pairs_that_outgrow_many_equal_ones_late_are_listed_and_no_other_is_heavier() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.pcap");
    let pair = |n: u32| frame(address(n), address(n ^ 1), 0);
    let mut frames = Vec::new();
    let many: Vec<_> = (0..900).map(pair).collect();
    for _ in 0..300 {
        frames.extend_from_slice(&many);
    }
    frames.extend((100_000..105_000).map(pair));
    for _ in 0..2 {
        for late in 900_000..900_010 {
            frames.extend(vec![pair(late); 285]);
        }
    }
    write_pcap(&path, &frames);
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"128KiB\"\n").unwrap();
    let args = ["-c", config.to_str().unwrap()];
    let capture = replay(path.to_str().unwrap(), &args);
    assert_eq!(capture["exact"], false);
    check_lists(&capture, &counted(&frames));
    let late = |row: &&Value| {
        let src: Ipv4Addr = row["src"].as_str().unwrap().parse().unwrap();
        (address(900_000)..address(900_010)).contains(&src)
    };
    let listed = capture["top"].as_array().unwrap();
    assert_eq!(listed.iter().filter(late).count(), 10, "{listed:?}");
    let above = capture["complete_above"].as_u64().unwrap();
    assert!(
        (300..330).contains(&above),
        "{above}: the bound is too high"
    );
}

#[test]
fn bounds_of_lists_by_bytes_hold_when_packet_sizes_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sizes.pcap");
    let config = folder.path().join("small.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"128KiB\"\n").unwrap();
    let args = ["-c", config.to_str().unwrap()];
    for seed in 0..6u32 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed.into());
        let mut pairs: Vec<u32> = (0..3000u32)
            .flat_map(|n| vec![n; 1 + (rng.random_range(1..600) / (n + 1)) as usize])
            .collect();
        // Pairs that are heavy by bytes. Their packets shrink or grow more than those of
        // others.
        pairs.extend((5000..5040).flat_map(|n| vec![n; 40]));
        pairs.shuffle(&mut rng);
        let all = pairs.len();
        let frames = pairs.iter().enumerate().map(|(at, n)| {
            let shrinks = seed % 2 == 0;
            let payload = match (n, shrinks == (at < all / 2)) {
                (5000.., true) => 1400,
                (5000.., false) => 0,
                _ => rng.random_range(0..200),
            };
            frame(address(*n), address(n ^ 1), payload)
        });
        let frames: Vec<_> = frames.collect();
        write_pcap(&path, &frames);
        let path = path.to_str().unwrap();
        let capture = replay(path, &args);
        assert_eq!(capture["exact"], false);
        check_lists(&capture, &counted(&frames));
        let above = capture["complete_above_bytes"].as_u64().unwrap();
        assert!(above < 200_000, "{above}: the bound is too high");
        let text = table(&[path, args[0], args[1], "--sort", "bytes", "--exact"]);
        let said = format!("any other has {above} B at most");
        assert!(text.contains(&said), "{text}");
    }
}

#[test]
fn shares_are_of_ip_packets_everywhere_and_windows_count_from_the_first_packet() {
    let folder = tempfile::tempdir().unwrap();
    let path = office(folder.path());
    let text = table(&[&path, "--window", "1s", "--sort", "packets"]);
    assert!(text.contains("shares: of the 100 IP packets"), "{text}");
    let line = |part: &str| {
        let found = text.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("{part}: {text}")).to_owned()
    };
    assert!(line("10.0.0.1  10.0.0.2").contains(" 60.00%"), "{text}");
    let window = line("10.0.0.1 → 10.0.0.2");
    assert!(window.contains("60.00%"), "{text}");
    // The ARP packet arrived a millisecond before the first window. The window ends with
    // the last packet.
    assert!(window.trim_start().starts_with("+0.001s"), "{text}");
    assert!(window.contains(" 0.099 "), "{text}");
}

#[test]
fn lists_are_ordered_as_requested_and_conversations_have_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let path = office(folder.path());
    let first = |args: &[&str]| {
        let text = table(&[&[path.as_str()], args].concat());
        let mut rows = text
            .lines()
            .skip_while(|line| !line.contains("destination"));
        rows.nth(1).unwrap().to_owned()
    };
    assert!(first(&["--sort", "packets"]).contains("10.0.0.1  10.0.0.2"));
    assert!(first(&[]).contains("10.0.0.2  10.0.0.1"), "by bytes");
    let heavy = first(&["--sort", "bytes"]);
    assert!(
        heavy.contains("10.0.0.2  10.0.0.1") && heavy.contains("91."),
        "{heavy}"
    );
    let windows = replay(&path, &["--sort", "bytes", "--window", "1s"]);
    assert_eq!(windows["windows"][0]["top"][0]["src"], "10.0.0.2");

    let capture = replay(&path, &[]);
    let row = &capture["conversations"][0];
    assert_eq!(
        (&row["a"], &row["b"]),
        (&json!("10.0.0.1"), &json!("10.0.0.2"))
    );
    assert_eq!(
        (&row["packets"], &row["bytes"]),
        (&json!(90), &json!(60 * 42 + 30 * 1042))
    );
    assert_eq!(row["a_to_b"]["packets"], 60);
    assert_eq!(row["b_to_a"]["packets"], 30);
    assert_eq!(capture["conversations"][1]["a_to_b"]["packets"], 0);
    assert!(!table(&[&path]).contains("a → b"));
    let text = table(&[&path, "--both"]);
    let head = text.lines().find(|line| line.contains("a → b")).unwrap();
    assert!(head.contains("b → a"), "{text}");
}

#[test]
fn the_table_has_units_start_and_accuracy_in_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.pcap");
    let (src, dst) = ([192, 168, 100, 200].into(), [192, 168, 100, 201].into());
    write_pcap(&path, &vec![frame(src, dst, 1000); 12_345]);
    let table = |args: &[&str]| {
        let mut command = Command::new(AGENT);
        command.arg("replay").args(args).current_dir(&folder);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let text = table(&[
        "long.pcap",
        "--window",
        "10s",
        "--both",
        "--ask",
        "192.168.100.200",
    ]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "long.pcap");
    assert!(
        lines[1].starts_with("  2023-11-14T22:13:20.000Z, 12.3 s"),
        "{text}"
    );
    for part in [
        "12.3 k packets",
        "12.3 MiB",
        "8.3 Mbit/s",
        "exact: the only pair fits",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let widest = lines.iter().map(|line| line.chars().count()).max();
    assert!(widest.unwrap() <= 80, "{text}");
    let exact = table(&["long.pcap", "--exact"]);
    for part in ["12345 packets", "12863490 B"] {
        assert!(exact.contains(part), "{part}: {exact}");
    }
    for word in ["crown", "layers", "added on the way", "sketch"] {
        assert!(!text.contains(word), "{text}");
    }
    assert!(table(&["-v", "long.pcap"]).contains("layers: 1"));
}

#[test]
fn an_answer_has_the_interval_and_the_guaranteed_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crowd.pcap");
    let path = path.to_str().unwrap();
    let sample = ["sample", path, "--kind", "hostile", "--packets", "60000"];
    assert!(agent(&sample).status.success());
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, "[sketch]\nmemory = \"128KiB\"\n").unwrap();
    let config = ["-c", config.to_str().unwrap()];
    // A light pair, found with more memory.
    let all = replay(path, &["--top", "1000"]);
    let pair = all["top"].as_array().unwrap().last().unwrap();
    let [src, dst] = ["src", "dst"].map(|end| pair[end].as_str().unwrap());
    let known = format!("{src},{dst}");
    let never = "255.255.255.254,255.255.255.255";
    let asked = ["--ask", &known, "--ask", never, "--ask", src];
    let shown = table(&[&[path, "--verify"], &config[..], &asked].concat());
    let head = format!("asked: {src} → {dst}\n");
    assert!(shown.contains(&head), "{shown}");
    assert!(shown.contains("(90 %), guaranteed "), "{shown}");
    assert!(shown.contains("  verified: "), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // "No packets (exact)" is printed only if the upper bound is 0.
    let asked = replay(path, &[&config[..], &["--ask", never]].concat());
    let is_zero = asked["asked"][0]["at_most"] == 0;
    assert_eq!(shown.contains("no packets (exact)"), is_zero, "{shown}");
    let shown = table(&[&office(folder.path()), "--ask", "10.0.0.1,10.9.9.9"]);
    let expected = "\n  asked: 10.0.0.1 → 10.9.9.9\n    no packets (exact)\n";
    assert!(shown.contains(expected), "{shown}");
}
