//! AS and country of addresses: shown in every list and answer, exported, used in questions and
//! names of networks; and errors of the configuration.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::Ipv4Addr;

use common::lookup::{LOOKUP, ONE, PRIVATE, SENT, THREE, TWO, asns, folder, replay, row, run_in};
use common::mmdb::{Layout, database, ipinfo};
use common::{agent, frame, get, json, series, serving, stderr, write_pcap};
use serde_json::{Value, json};

/// Packets of the capture that an AS sent, received, and both together without counting any twice.
fn truth(is_in: impl Fn(Ipv4Addr) -> bool) -> [usize; 3] {
    let sum = |matches: &dyn Fn(Ipv4Addr, Ipv4Addr) -> bool| {
        let all = SENT.iter().filter(|(src, dst, _)| matches(*src, *dst));
        all.map(|(.., count)| count).sum()
    };
    [
        sum(&|src, _| is_in(src)),
        sum(&|_, dst| is_in(dst)),
        sum(&|src, dst| is_in(src) || is_in(dst)),
    ]
}

#[test]
fn a_replay_shows_as_and_country_of_addresses() {
    let folder = folder(LOOKUP);
    let ask = [
        "--ask=192.0.2.1",
        "--ask=192.0.2.1,203.0.113.3",
        "--ask=AS64496,*",
        "--ask=*,as64496",
    ];
    let report = json(&replay(
        folder.path(),
        &[&ask[..], &["--format", "json"]].concat(),
    ));
    let capture = &report["captures"][0];
    let source = row(&capture["sources"], "ip", ONE);
    assert_eq!(
        [&source["asn"], &source["as_name"], &source["country"]],
        [&json!(64496), &json!("Example One"), &json!("DE")]
    );
    assert!(source.get("host").is_none());
    let private = row(&capture["sources"], "ip", PRIVATE);
    assert!(private.get("asn").is_none() && private.get("country").is_none());
    let pair = row(&capture["top"], "dst", THREE);
    assert_eq!(
        [
            &pair["src_asn"],
            &pair["dst_asn"],
            &pair["src_country"],
            &pair["dst_country"]
        ],
        [&json!(64496), &json!(64497), &json!("DE"), &json!("FR")]
    );
    let talk = row(&capture["conversations"], "b", THREE);
    assert_eq!([&talk["a_asn"], &talk["b_asn"]], [64496, 64497]);
    assert_eq!(row(&capture["fan_out"], "ip", ONE)["asn"], 64496);

    let asked = &capture["asked"];
    assert_eq!(
        [&asked[0]["asn"], &asked[0]["country"]],
        [&json!(64496), &json!("DE")]
    );
    assert_eq!([&asked[1]["src_asn"], &asked[1]["dst_asn"]], [64496, 64497]);
    let [sent, received, both] = truth(|ip| ip == ONE || ip == TWO);
    for (at, packets) in [(2, sent), (3, received)] {
        for end in ["packets", "low", "high", "at_least", "at_most"] {
            assert_eq!(asked[at][end], packets, "{}", asked[at]);
        }
    }
    assert_eq!(
        (&asked[2]["src"], &asked[3]["dst"]),
        (&json!("AS64496"), &json!("AS64496"))
    );
    assert_eq!(asked[2]["src_as_name"], "Example One");

    // A packet with both addresses in one AS counts once.
    let [.., others] = truth(|ip| ip == THREE);
    let listed = |list: &Value| -> Vec<(Value, Value)> {
        let rows = list.as_array().unwrap().iter();
        rows.map(|row| (row["asn"].clone(), row["at_least"].clone()))
            .collect()
    };
    let expected = [(json!(64496), json!(both)), (json!(64497), json!(others))];
    assert_eq!(listed(&capture["asns"]), expected);
    assert_eq!(listed(&capture["asns_bytes"]), expected);

    let text = String::from_utf8(replay(folder.path(), &ask).stdout).unwrap();
    for shown in [
        "192.0.2.1 (AS64496 Example One, DE)",
        "203.0.113.3 (AS64497 Three \"x\", FR)",
        "autonomous system",
        "AS64496 Example One ",
        "asked: AS64496 (Example One) → *",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let without = replay(folder.path(), &["--format", "json"]);
    assert!(
        !String::from_utf8(without.stdout)
            .unwrap()
            .contains("\"host\"")
    );
    std::fs::write(folder.path().join("agent.toml"), "").unwrap();
    let without = replay(folder.path(), &["--format", "json"]);
    let without = String::from_utf8(without.stdout).unwrap();
    assert!(
        !without.contains("asn") && !without.contains("country"),
        "{without}"
    );
}

#[test]
fn a_running_agent_shows_as_and_country_in_answers_and_metrics() {
    let folder = folder(LOOKUP);
    let (_running, port) = serving(folder.path(), "small.pcap", &["-c", "agent.toml"]);
    let at = format!("127.0.0.1:{port}");
    let [sent, _, both] = truth(|ip| ip == ONE || ip == TWO);
    let query = |args: &[&str]| agent(&[&["query", "--agent", &at], args].concat());
    let answer = json(&query(&["--src", "AS64496", "--format", "json"]));
    assert_eq!(answer["interfaces"][0]["estimate"]["packets"], sent);
    assert_eq!(
        (&answer["src"], &answer["dst"]),
        (&json!("AS64496"), &json!("*"))
    );
    let text =
        String::from_utf8(query(&["--src", "as64496", "--dst", "203.0.113.3"]).stdout).unwrap();
    assert!(
        text.contains("AS64496 (Example One) → 203.0.113.3 (AS64497 Three \"x\", FR)"),
        "{text}"
    );
    let text = String::from_utf8(query(&["--node", "192.0.2.1"]).stdout).unwrap();
    assert!(
        text.contains("192.0.2.1 (AS64496 Example One, DE)"),
        "{text}"
    );
    let unknown = query(&["--src", "AS65551"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("lookup.asn has no network of AS65551"));

    let lists: Value =
        serde_json::from_str(&get(port, "/api/v1/heavy-hitters").unwrap().1).unwrap();
    let lists = &lists["interfaces"][0];
    assert_eq!(
        (&lists["asns"][0]["asn"], &lists["asns"][0]["packets"]),
        (&json!(64496), &json!(both))
    );
    assert_eq!(lists["asns_others_at_most"], 0);
    assert_eq!(
        row(&lists["destinations"], "ip", THREE)["as_name"],
        "Three \"x\""
    );
    let once = agent(&["top", "--once", "--agent", &at]);
    let once = String::from_utf8(once.stdout).unwrap();
    assert!(
        once.contains("192.0.2.1 (AS64496 Example One, DE)"),
        "{once}"
    );

    let metrics = get(port, "/metrics").unwrap().1;
    let labels = [
        ("interface", "small.pcap"),
        ("asn", "64496"),
        ("as_name", "Example One"),
    ];
    assert_eq!(
        series(&metrics, "crane_top_asn_packets", &labels),
        Some(both as f64)
    );
    assert!(metrics.contains("as_name=\"Three \\\"x\\\"\""), "{metrics}");
    let count = metrics
        .lines()
        .filter(|line| line.starts_with("crane_top_asn_"))
        .count();
    assert_eq!(count, 4, "two AS, each by packets and by bytes");
}

/// With more pairs than fit into memory, lists and questions give bounds that contain the true
/// number and agree with each other.
#[test]
fn bounds_of_an_as_hold_if_pairs_do_not_fit() {
    let folder = folder(LOOKUP);
    let in_one = |n: u32| Ipv4Addr::from(0xc000_0200 + n % 256);
    let mut frames = Vec::new();
    for n in 0..20_000 {
        // A fifth to AS64497, a tenth to AS64496, the rest to addresses without an AS.
        let dst = match n % 10 {
            0 | 1 => Ipv4Addr::from(0xcb00_7100 + n / 10 % 256),
            2 => in_one(n / 10),
            _ => common::address(1_000_000 + n),
        };
        frames.push(frame(common::address(n / 3), dst, 100));
    }
    // A heavy pair within one AS.
    frames.extend(vec![frame(in_one(1), in_one(2), 100); 500]);
    write_pcap(&folder.path().join("small.pcap"), &frames);
    let config = format!("[sketch]\nmemory = \"128KiB\"\n{LOOKUP}");
    std::fs::write(folder.path().join("agent.toml"), config).unwrap();
    let ask = ["--ask=AS64496,*", "--ask=*,AS64496", "--format=json"];
    let report = json(&replay(folder.path(), &ask));
    let capture = &report["captures"][0];
    assert_eq!(capture["exact"], false);
    let number = |value: &Value| value.as_u64().unwrap();
    let rows = capture["asns"].as_array().unwrap();
    for (asn, truth) in [(64496, 2500), (64497, 4000)] {
        let row = rows.iter().find(|row| row["asn"] == asn).unwrap();
        let ends = ["at_least", "low", "packets", "high", "at_most"].map(|end| number(&row[end]));
        assert!(ends.is_sorted(), "{row}");
        assert!(
            ends[0] <= truth && truth <= ends[4] && ends[0] < ends[4],
            "{row}"
        );
        assert!(ends[2].abs_diff(truth) < truth / 2, "{row}");
    }
    let row = rows.iter().find(|row| row["asn"] == 64496).unwrap();
    let asked = capture["asked"].as_array().unwrap();
    let most: u64 = asked.iter().map(|one| number(&one["at_most"])).sum();
    assert!(
        asked
            .iter()
            .all(|one| number(&one["at_least"]) <= number(&row["at_least"]))
    );
    assert!(number(&row["at_most"]) <= most, "{row} {asked:?}");
    let incomplete = capture["incomplete"].as_array().unwrap();
    assert!(incomplete.contains(&json!("asns")), "{incomplete:?}");
}

#[test]
fn an_ipinfo_file_has_as_and_country_and_names_can_refer_to_an_as() {
    let names = "[[names]]\nasn = 64496\nname = \"partner\"\n[[names]]\nasn = \"AS64497\"\n\
                 name = \"partner\"\n[[names]]\nprefix = \"198.51.100.0/25\"\nname = \"branch\"\n";
    let lookup = "[lookup]\nasn = \"lite.mmdb\"\ncountry = \"lite.mmdb\"\n";
    let folder = folder(&format!("{names}{lookup}"));
    let layout = Layout {
        kind: "ipinfo generic_lite",
        record_size: 32,
        ip_version: 6,
    };
    let networks = [
        ("192.0.2.0/24", ipinfo("AS64496", "Example One", "DE")),
        ("198.51.100.0/26", ipinfo("AS64496", "Example One", "DE")),
        ("203.0.112.0/23", ipinfo("AS64497", "Three", "FR")),
    ];
    let lite = folder.path().join("lite.mmdb");
    std::fs::write(&lite, database(layout, &networks)).unwrap();
    let report = json(&replay(
        folder.path(),
        &["--format", "json", "--ask=partner,*", "--both"],
    ));
    let capture = &report["captures"][0];
    let name = |ip| row(&capture["sources"], "ip", ip)["name"].clone();
    assert_eq!(
        [name(ONE), name(TWO), name(PRIVATE)],
        ["partner", "branch", "other"]
    );
    assert_eq!(
        row(&capture["destinations"], "ip", THREE)["name"],
        "partner"
    );
    assert_eq!(row(&capture["sources"], "ip", TWO)["country"], "DE");
    let is_partner = |ip| ip == ONE || ip == THREE;
    let [sent, received, _] = truth(is_partner);
    assert_eq!(capture["asked"][0]["packets"], sent);
    assert_eq!(capture["asked"][0]["back"]["packets"], received);
    let groups = capture["groups"].as_array().unwrap();
    let group = groups
        .iter()
        .find(|group| group["src"] == "partner" && group["dst"] == "partner");
    assert_eq!(group.unwrap()["packets"], 20);
}

#[test]
fn errors_of_the_configuration_name_key_file_and_cause() {
    let folder = folder("");
    let check = |config: &str| {
        std::fs::write(folder.path().join("agent.toml"), config).unwrap();
        run_in(folder.path(), &["check-config", "agent.toml"])
    };
    let good = check(LOOKUP);
    assert!(good.status.success(), "{}", stderr(&good));
    let whole = asns("x");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("cut.mmdb", &whole[..whole.len() / 2]);
    write("text.mmdb", b"not a database");
    let huge = std::fs::File::create(folder.path().join("huge.mmdb")).unwrap();
    huge.set_len((256 << 20) + 1).unwrap();
    for (config, says) in [
        (
            "[lookup]\nasn = \"none.mmdb\"\n",
            vec!["line 2", "lookup.asn", "none.mmdb", "cannot be read"],
        ),
        (
            "[lookup]\nasn = \".\"\n",
            vec!["lookup.asn", "not a regular file"],
        ),
        (
            "[lookup]\nasn = \"cut.mmdb\"\n",
            vec!["lookup.asn", "cut.mmdb", "damaged"],
        ),
        (
            "[lookup]\n\ncountry = \"text.mmdb\"\n",
            vec!["line 3", "lookup.country", "text.mmdb", "no MaxMind DB"],
        ),
        (
            "[lookup]\nasn = \"country.mmdb\"\n",
            vec!["lookup.asn", "no AS number", "GeoLite2-Country"],
        ),
        (
            "[lookup]\ncountry = \"asn.mmdb\"\n",
            vec!["lookup.country", "no country", "GeoLite2-ASN"],
        ),
        (
            "[lookup]\nasn = \"huge.mmdb\"\n",
            vec!["huge.mmdb", "larger than 256MiB"],
        ),
        (
            "[lookup]\nresolve = 1\n",
            vec!["line 2", "resolve", "true or false"],
        ),
        (
            "[lookup]\nname_servers = [\"ns.example\"]\n",
            vec!["line 2", "name_servers", "ns.example", "10.0.0.53"],
        ),
        (
            "[[names]]\nasn = 64496\nname = \"x\"\n",
            vec!["line 1", "64496", "set lookup.asn"],
        ),
        (
            "[[names]]\nasn = \"x\"\nname = \"x\"\n",
            vec!["line 2", "asn", "like 64496"],
        ),
        (
            "[[names]]\nname = \"x\"\n",
            vec!["line 1", "a prefix or an asn"],
        ),
        (
            "[[names]]\nname = \"x\"\nasn = 1\nprefix = \"10.0.0.0/8\"\n",
            vec!["line 1", "an entry for each"],
        ),
    ] {
        let output = check(config);
        assert_eq!(output.status.code(), Some(78), "{config}");
        let message = stderr(&output);
        for part in says {
            assert!(message.contains(part), "{config}: {part} not in {message}");
        }
    }
    let names = "[[names]]\nasn = 65551\nname = \"x\"\n";
    let output = check(&format!("{names}{LOOKUP}"));
    assert!(
        stderr(&output).contains("no network of AS65551"),
        "{}",
        stderr(&output)
    );
    let asked = run_in(
        folder.path(),
        &["replay", "-q", "small.pcap", "--ask=AS64496,*"],
    );
    assert_eq!(asked.status.code(), Some(2));
    assert!(
        stderr(&asked).contains("lookup.asn names one"),
        "{}",
        stderr(&asked)
    );
}
