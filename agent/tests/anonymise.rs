//! Anonymised addresses: what metrics, answers and clients show of them.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use common::{Running, agent, frame, get, json, series, stderr, write_pcap};
use etherparse::PacketBuilder;
use serde_json::Value;

/// Packets between hosts of few networks, so that several pairs become one.
const FLOWS: [([u8; 4], [u8; 4], usize); 5] = [
    ([10, 1, 2, 3], [192, 0, 2, 10], 40),
    ([10, 1, 2, 4], [192, 0, 2, 10], 20),
    ([10, 1, 2, 4], [192, 0, 2, 11], 7),
    ([10, 1, 3, 3], [192, 0, 2, 10], 5),
    ([10, 9, 9, 9], [198, 51, 100, 1], 3),
];
const V6: [&str; 2] = ["2001:db8:5:6::1", "2001:db8:7:8::2"];

fn v6_frame() -> Vec<u8> {
    let [src, dst] = V6.map(|text| text.parse::<Ipv6Addr>().unwrap().octets());
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6(src, dst, 64);
    let mut bytes = Vec::new();
    builder.udp(1, 2).write(&mut bytes, &[0; 20]).unwrap();
    bytes
}

/// All addresses that must not be shown.
fn secrets() -> Vec<String> {
    let v4 = FLOWS.iter().flat_map(|(src, dst, _)| [*src, *dst]);
    let v4 = v4.map(|address| IpAddr::from(address).to_string());
    v4.chain(V6.map(str::to_owned)).collect()
}

fn serving(folder: &Path, anonymise: &str) -> (Running, u16) {
    let mut frames = vec![v6_frame()];
    for (src, dst, count) in FLOWS {
        let one = frame(src.into(), dst.into(), 100);
        frames.extend(std::iter::repeat_n(one, count));
    }
    write_pcap(&folder.join("small.pcap"), &frames);
    let config = format!(
        "[[names]]\nprefix = \"10.1.0.0/16\"\nname = \"office\"\n[export]\n\
         anonymise = {anonymise:?}\nwatch = [{{src = \"10.1.2.3\", dst = \"192.0.2.10\"}}, \
         {{src = \"10.1.2.4\", dst = \"192.0.2.10\"}}]\n"
    );
    std::fs::write(folder.join("agent.toml"), config).unwrap();
    common::serving(folder, "small.pcap", &["-c", "agent.toml"])
}

/// Checks that no answer without parameters shows a real address and that no series is
/// exported twice. Returns the metrics and the lists.
fn checked_answers(port: u16) -> (String, Value) {
    let metrics = get(port, "/metrics").unwrap().1;
    let lists = get(port, "/api/v1/heavy-hitters").unwrap().1;
    let interfaces = get(port, "/api/v1/interfaces").unwrap().1;
    for secret in secrets() {
        for text in [&metrics, &lists, &interfaces] {
            let quoted = format!("\"{secret}\"");
            assert!(!text.contains(&quoted), "{secret} in {text}");
        }
    }
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let mut seen = BTreeSet::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let name = line.rsplit_once(' ').unwrap().0;
        assert!(seen.insert(name), "twice: {name}");
    }
    (metrics.clone(), serde_json::from_str(&lists).unwrap())
}

fn client(port: u16, args: &[&str]) -> std::process::Output {
    let at = format!("127.0.0.1:{port}");
    agent(&[args, &["--agent", &at, "--format", "json"]].concat())
}

#[test]
fn pairs_between_networks_are_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let (_agent, port) = serving(folder.path(), "prefix");
    let (metrics, lists) = checked_answers(port);
    let of = |name, labels: &[(&str, &str)]| series(&metrics, name, labels);
    let pair = [("src", "10.1.2.0"), ("dst", "192.0.2.0")];
    assert_eq!(of("crane_heavy_hitter_packets", &pair), Some(67.0));
    assert_eq!(of("crane_heavy_hitter_bytes", &pair), Some(67.0 * 142.0));
    assert_eq!(of("crane_flow_estimate_packets", &pair), Some(60.0));
    let to = [("ip", "192.0.2.0")];
    assert_eq!(of("crane_top_destination_packets", &to), Some(72.0));
    let v6 = [("src", "2001:db8:5::"), ("dst", "2001:db8:7::")];
    assert_eq!(of("crane_heavy_hitter_packets", &v6), Some(1.0));

    let pairs = lists["interfaces"][0]["pairs"].as_array().unwrap();
    let first = &pairs[0];
    assert_eq!(
        (&first["src"], &first["packets"]),
        (&"10.1.2.0".into(), &67.into())
    );
    assert_eq!(
        (&first["src_name"], &first["dst_name"]),
        (&"office".into(), &"other".into())
    );
    assert_eq!(pairs.len(), 4);
    // A list of length 1 has the heaviest network, not its heaviest host.
    let longer = "/api/v1/heavy-hitters?interface=small.pcap&top=1";
    let longer: Value = serde_json::from_str(&get(port, longer).unwrap().1).unwrap();
    let longer = longer["interfaces"][0]["pairs"].as_array().unwrap();
    assert_eq!((longer.len(), &longer[0]["packets"]), (1, &67.into()));

    let paths = [
        "/api/v1/flow?src=10.1.2.3&dst=192.0.2.10",
        "/api/v1/node?ip=10.1.2.0",
    ];
    for path in paths {
        let (status, body) = get(port, path).unwrap();
        assert!(
            status.contains("403") && body.contains("export.anonymise"),
            "{body}"
        );
    }
    let refused = client(port, &["query", "--node", "10.1.2.3"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("no question about an address"));
    assert_eq!(json(&client(port, &["top"])), lists);
}

#[test]
fn pseudonyms_distinguish_networks_and_can_be_queried() {
    let folder = tempfile::tempdir().unwrap();
    let (_agent, port) = serving(folder.path(), "keyed");
    let (metrics, lists) = checked_answers(port);
    let pairs = lists["interfaces"][0]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), FLOWS.len() + 1, "no two pairs are merged");
    let text = |pair: &Value, key: &str| pair[key].as_str().unwrap().to_owned();
    for (pair, (_, _, count)) in pairs.iter().zip(FLOWS) {
        let (src, dst) = (text(pair, "src"), text(pair, "dst"));
        let labels = [("src", src.as_str()), ("dst", &dst)];
        let exported = series(&metrics, "crane_heavy_hitter_packets", &labels);
        assert_eq!(exported, Some(count as f64));
        // A query with the pseudonyms of the list finds the pair.
        let answer = json(&client(port, &["query", "--src", &src, "--dst", &dst]));
        assert_eq!(answer["interfaces"][0]["estimate"]["packets"], count);
        // The list of its peers has the same pseudonyms.
        let node = get(
            port,
            &format!("/api/v1/node?ip={src}&interface=small.pcap&top=20"),
        )
        .unwrap()
        .1;
        let node: Value = serde_json::from_str(&node).unwrap();
        let peers = node["interfaces"][0]["pairs"].as_array().unwrap();
        let is_same = |peer: &Value| text(peer, "src") == src && text(peer, "dst") == dst;
        assert!(peers.iter().any(is_same), "{node}");
        assert_eq!(
            (text(&answer, "src"), text(&answer, "dst")),
            (src.clone(), dst)
        );
        assert_eq!(answer["src_name"], pair["src_name"]);
        let node = json(&client(port, &["query", "--node", &src]));
        assert!(node["interfaces"][0]["sent"]["packets"].as_u64() >= Some(count as u64));
    }
    // 10.1.2.3 and 10.1.2.4 are in one network, of the same name.
    let network = |at: usize| {
        text(&pairs[at], "src")
            .rsplit_once('.')
            .unwrap()
            .0
            .to_owned()
    };
    assert_eq!(network(0), network(1));
    assert_ne!(network(0), network(3));
    assert_eq!(
        (&pairs[0]["src_name"], &pairs[4]["src_name"]),
        (&"office".into(), &"other".into())
    );

    // Its network and its name can be queried as well: 40 + 20 + 7 packets, and 5 more of
    // the name.
    let network = format!("{}.0/24", network(0));
    for (src, packets) in [(network.as_str(), 67), ("office", 72)] {
        let sum = json(&client(port, &["query", "--src", src, "--dst", "*"]));
        assert_eq!(sum["interfaces"][0]["estimate"]["packets"], packets);
        assert_eq!(text(&sum, "src"), src);
    }

    // A query with real addresses is about other pseudonyms and finds nothing.
    let real = json(&client(
        port,
        &["query", "--src", "10.1.2.3", "--dst", "192.0.2.10"],
    ));
    assert_eq!(real["interfaces"][0]["estimate"]["packets"], 0);

    // Another run has other pseudonyms.
    let (_second, port) = serving(folder.path(), "keyed");
    let (_, again) = checked_answers(port);
    assert_ne!(again["interfaces"][0]["pairs"][0]["src"], pairs[0]["src"]);
}
