//! Services by protocol and port of the server, in files, metrics, answers and tables,
//! and the main service of a pair.
#![allow(clippy::unwrap_used)]

mod common;

use common::frame::{IPV4, IPV6, UDP, ethernet, fragment, ip};
use common::packets::{v4, v6};
use common::{agent, get, json, series, serving, write_pcap};
use serde_json::{Value, json};

const TCP: u8 = 6;
const ICMP: u8 = 1;

/// The first bytes of a header with ports.
fn ports(source: u16, destination: u16) -> Vec<u8> {
    [
        &source.to_be_bytes()[..],
        &destination.to_be_bytes(),
        &[0; 16],
    ]
    .concat()
}

/// Packets of several services.
fn frames() -> Vec<Vec<u8>> {
    let https = ethernet(IPV4, &ip(v4(1), TCP, &ports(50_000, 443)));
    let back = ethernet(IPV4, &ip(v4(2), TCP, &ports(443, 50_000)));
    let mysql = ethernet(IPV4, &ip(v4(1), TCP, &ports(1050, 3306)));
    let quic = ethernet(IPV6, &ip(v6(1), UDP, &ports(443, 60_000)));
    let first = ethernet(IPV4, &fragment(v4(3), 0, true, UDP, &ports(2049, 700)));
    let later = ethernet(IPV4, &fragment(v4(3), 100, false, UDP, &ports(1, 2)));
    let later_v6 = ethernet(IPV6, &fragment(v6(3), 100, false, UDP, &ports(1, 2)));
    let ping = ethernet(IPV4, &ip(v4(4), ICMP, &ports(1, 2)));
    // Cut off before the ports.
    let cut = ethernet(IPV4, &ip(v4(5), TCP, &[1, 187]));
    [
        vec![https; 8],
        vec![back; 6],
        vec![mysql; 5],
        vec![quic; 4],
        vec![first; 3],
        vec![later; 1],
        vec![later_v6; 1],
        vec![ping; 7],
        vec![cut; 1],
    ]
    .concat()
}

fn expected() -> Vec<(Value, u64)> {
    let service = |protocol: &str, port: Option<u16>| json!([protocol, port]);
    vec![
        (service("tcp", Some(443)), 14),
        (service("icmp", None), 7),
        (service("tcp", Some(3306)), 5),
        (service("udp", Some(443)), 4),
        (service("udp", Some(700)), 3),
        (service("fragment", None), 2),
        (service("tcp", None), 1),
    ]
}

fn listed(list: &Value) -> Vec<(Value, u64)> {
    let row = |row: &Value| {
        let service = json!([row["protocol"], row["port"]]);
        (service, row["packets"].as_u64().unwrap())
    };
    list.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn services_are_in_reports_metrics_answers_and_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.pcap");
    write_pcap(&path, &frames());
    let path = path.to_str().unwrap();
    let capture = &json(&agent(&["replay", "-q", path, "--format", "json"]))["captures"][0];
    assert_eq!(listed(&capture["services"]), expected());
    let all = capture["services"].as_array().unwrap().iter();
    let bytes: u64 = all.map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, capture["bytes"]);
    // The first pair has https eight times and mysql five times.
    let main = json!({"protocol": "tcp", "port": 443});
    assert_eq!(capture["top"][0]["service"], main);
    // Later fragments have no ports.
    let fragmented = capture["top"].as_array().unwrap().iter();
    let mut fragmented =
        fragmented.filter(|row| row["packets"] == 4 && row["service"]["port"] == 700);
    assert!(fragmented.next().is_some(), "{}", capture["top"]);
    let table = String::from_utf8(agent(&["replay", "-q", path]).stdout).unwrap();
    for words in ["tcp/443 https", "tcp/3306 mysql", "icmp ", "fragment"] {
        assert!(table.contains(words), "{words}: {table}");
    }

    let (_running, port) = serving(folder.path(), path, &[]);
    let metrics = get(port, "/metrics").unwrap().1;
    for (service, packets) in expected() {
        let number = service[1].as_u64().map(|port| port.to_string());
        let labels = [
            ("protocol", service[0].as_str().unwrap()),
            ("port", number.as_deref().unwrap_or_default()),
        ];
        let value = series(&metrics, "crane_top_service_packets", &labels);
        assert_eq!(value, Some(packets as f64), "{labels:?}");
        assert!(series(&metrics, "crane_top_service_bytes", &labels).is_some());
    }
    let hitters = get(port, "/api/v1/heavy-hitters").unwrap().1;
    let hitters: Value = serde_json::from_str(&hitters).unwrap();
    let hitters = &hitters["interfaces"][0];
    assert_eq!(listed(&hitters["services"]), expected());
    assert_eq!(hitters["pairs"][0]["service"], main);
    let top = agent(&["top", "--agent", &format!("127.0.0.1:{port}")]);
    let top = String::from_utf8(top.stdout).unwrap();
    assert!(
        top.contains("service") && top.contains("tcp/443 https"),
        "{top}"
    );
}

/// Every port of a scan is a service; heavy services are still found.
#[test]
fn heavy_services_are_found_in_a_scan_of_all_ports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.pcap");
    let scan = (1024..60_000u16).map(|port| ethernet(IPV4, &ip(v4(1), TCP, &ports(61_000, port))));
    let heavy = ethernet(IPV4, &ip(v4(2), UDP, &ports(53, 40_000)));
    let frames: Vec<Vec<u8>> = scan.chain(vec![heavy; 2000]).collect();
    write_pcap(&path, &frames);
    let path = path.to_str().unwrap();
    let capture = &json(&agent(&["replay", "-q", path, "--format", "json"]))["captures"][0];
    let first = &capture["services"][0];
    assert_eq!(
        json!([first["protocol"], first["port"]]),
        json!(["udp", 53])
    );
    let packets = |end: &str| first[end].as_u64().unwrap();
    assert!(
        packets("at_least") <= 2000 && packets("at_most") >= 2000,
        "{first}"
    );
    assert!(packets("packets").abs_diff(2000) <= 20, "{first}");
    assert!(capture["memory_bytes"].as_u64().unwrap() <= 8 << 20);
}
