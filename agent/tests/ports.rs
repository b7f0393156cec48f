//! Queries about services: of a pair, of networks, of an address, and the pairs of a
//! service; from files, over HTTP and on the command line.
#![allow(clippy::unwrap_used)]

mod common;

use common::frame::{IPV4, IPV6, UDP, ethernet, fragment, ip};
use common::packets::v6;
use common::{address, agent, get, json, serving, stderr, write_pcap};
use serde_json::{Value, json};
use std::net::IpAddr;

const TCP: u8 = 6;

fn ports(source: u16, destination: u16) -> Vec<u8> {
    [
        &source.to_be_bytes()[..],
        &destination.to_be_bytes(),
        &[0; 16],
    ]
    .concat()
}

/// Source and destination of a pair.
fn v4(pair: u32) -> (IpAddr, IpAddr) {
    (address(pair).into(), address(0x10_0000 + pair).into())
}

fn to(pair: u32, protocol: u8, port: u16) -> Vec<u8> {
    ethernet(IPV4, &ip(v4(pair), protocol, &ports(50_000, port)))
}

/// A pair with five services, the last of which has nine tenths of its packets; a pair with
/// a scan of all ports; a pair of IPv6; fragments.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (port, count) in [(22, 20), (80, 30), (443, 40), (25, 5)] {
        frames.extend(vec![to(1, TCP, port); count]);
    }
    frames.extend((1..10_000u16).map(|port| to(2, TCP, port)));
    frames.extend(vec![to(1, UDP, 4444); 900]);
    let quic = ethernet(IPV6, &ip(v6(1), UDP, &ports(50_000, 443)));
    frames.extend(vec![quic; 7]);
    let later = ethernet(IPV4, &fragment(v4(3), 100, false, UDP, &ports(1, 2)));
    frames.extend(vec![later; 3]);
    frames.extend(vec![to(3, UDP, 53); 2]);
    frames
}

fn capture(folder: &std::path::Path) -> String {
    let path = folder.join("small.pcap");
    write_pcap(&path, &frames());
    path.to_str().unwrap().to_owned()
}

fn ends(row: &Value) -> [u64; 3] {
    ["at_least", "packets", "at_most"].map(|name| row[name].as_u64().unwrap())
}

#[test]
fn a_replay_answers_queries_about_services() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path());
    let (a, b) = (v4(1).0, v4(1).1);
    let questions = [
        format!("{a},{b},4444"),
        format!("{a},{b},udp/4444"),
        format!("{a},{b},tcp/4444"),
        format!("{a},{b},443"),
        format!("{a},{b},https"),
        format!("{a},{b},22"),
        "*,*,443".into(),
        "*,*,tcp/443".into(),
        "*,::/0,443".into(),
        "*,*,fragment".into(),
        format!("{a},{b}"),
        a.to_string(),
    ];
    let asked = questions.iter().flat_map(|one| ["--ask", one]);
    let args = ["replay", "-q", &path, "--format", "json"];
    let args: Vec<&str> = args.into_iter().chain(asked).collect();
    let report = json(&agent(&args));
    let capture = &report["captures"][0];
    assert_eq!(capture["exact"], true);
    let rows = capture["asked"].as_array().unwrap();
    let asked = |at: usize| ends(&rows[at]);
    // The service with nine tenths of the packets, which arrived last.
    assert_eq!(
        (rows[0]["service"].as_str(), asked(0)[1]),
        (Some("4444"), 900)
    );
    assert!(asked(0)[0] >= 880 && asked(0)[2] <= 930, "{}", rows[0]);
    assert_eq!(asked(1)[1], 900);
    assert!(asked(1)[2] <= asked(0)[2], "{}", rows[1]);
    assert!(asked(2)[0] == 0 && asked(2)[2] <= 30, "{}", rows[2]);
    // According to the stored counts, one packet of the other protocol may have belonged
    // to this pair.
    assert_eq!((asked(3)[0], asked(3)[1]), (40, 40));
    assert!(asked(3)[2] <= 41, "{}", rows[3]);
    assert_eq!(asked(4), asked(3));
    // 22 was the lightest of three when a fourth service arrived.
    assert!(asked(5)[0] <= 20 && asked(5)[2] >= 20, "{}", rows[5]);
    // 40 of TCP, 7 of UDP, and 1 of the scan.
    assert_eq!(asked(6), [48, 48, 48]);
    assert_eq!(asked(7), [41, 41, 41]);
    assert_eq!(asked(8), [7, 7, 7]);
    assert_eq!(asked(9), [3, 3, 3]);
    assert_eq!(asked(10), [995, 995, 995]);
    let listed = rows[10]["services"].as_array().unwrap();
    assert_eq!(listed.len(), 3);
    assert_eq!(
        (&listed[0]["protocol"], &listed[0]["port"]),
        (&json!("udp"), &json!(4444))
    );
    assert_eq!(ends(&listed[0]), asked(1), "the list agrees with the query");
    let sent = &rows[11]["services"]["sent"];
    assert_eq!(sent[0]["port"], 4444);
    let table = String::from_utf8(agent(&["replay", "-q", &path, "--ask", &questions[10]]).stdout);
    let table = table.unwrap();
    assert!(table.contains("udp/4444"), "{table}");
    assert!(table.contains("others"), "{table}");
}

#[test]
fn a_running_agent_answers_queries_about_services() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path());
    let (_running, port) = serving(folder.path(), &path, &[]);
    let (a, b) = (v4(1).0, v4(1).1);
    let ask = |path: &str| {
        let (status, body) = get(port, path).unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        (status, body)
    };
    let flow = |rest: &str| ask(&format!("/api/v1/flow?src={a}&dst={b}{rest}")).1;
    assert_eq!(flow("&port=443")["service"], "443");
    let answer = flow("&service=tcp/443");
    assert_eq!(answer["service"], "tcp/443");
    assert_eq!(ends(&answer["interfaces"][0]["estimate"]), [40, 40, 40]);
    assert!(answer["interfaces"][0]["services"].is_null());
    let both = flow("&service=udp%2F4444&both=true");
    assert_eq!(both["interfaces"][0]["back"]["at_most"], 0);
    let services = flow("&services=true");
    let services = services["interfaces"][0]["services"].as_array().unwrap();
    assert_eq!(services.len(), 3);
    assert!(
        flow("")["interfaces"][0]["services"].is_null(),
        "not asked for"
    );

    let heaviest = ask("/api/v1/service?service=https").1;
    let heaviest = &heaviest["interfaces"][0];
    assert_eq!(ends(&heaviest["estimate"]), [48, 48, 48]);
    let pairs = heaviest["pairs"].as_array().unwrap();
    assert_eq!(pairs[0]["packets"], 40);
    assert_eq!(pairs[0]["src"], a.to_string());
    assert_eq!(pairs[1]["packets"], 7);
    // The main service of the first pair is udp/4444.
    assert!(pairs[0]["service"].is_null(), "{}", pairs[0]);
    assert!(heaviest["others_at_most"].as_u64().unwrap() >= 1);
    let node = ask(&format!("/api/v1/node?ip={b}&services=true")).1;
    let node = &node["interfaces"][0]["services"];
    assert_eq!(node["received"][0]["port"], 4444);
    assert_eq!(node["sent"], json!([]));
    for (answer, path) in [
        (
            "/services",
            format!("flow?src={a}&dst=*&services=true&by=bytes"),
        ),
        (
            "/services/received",
            format!("node?ip={b}&services=true&by=bytes"),
        ),
    ] {
        let answer = ask(&format!("/api/v1/{path}")).1["interfaces"][0]
            .pointer(answer)
            .cloned();
        let rows = answer.unwrap();
        let bytes = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["bytes"].as_u64().unwrap());
        assert!(bytes.rev().is_sorted(), "{rows}");
    }

    for (rest, says) in [
        ("port=70000", "0 to 65535"),
        ("port=80&service=http", "give one of them"),
        ("service=nonsense", "is no service"),
        ("service=icmp/80", "has no ports"),
        ("", "service is missing"),
        ("service=80&top=0&interface=x", "1 to 500"),
        ("service=80&top=5", "give interface, too"),
    ] {
        let (status, body) = ask(&format!("/api/v1/service?{rest}"));
        let error = body["error"].as_str().unwrap();
        assert!(
            status.contains("400") && error.contains(says),
            "{rest}: {error}"
        );
    }

    let at = format!("127.0.0.1:{port}");
    let query = |args: &[&str]| agent(&[&["query", "--agent", &at], args].concat());
    let text = |args: &[&str]| String::from_utf8(query(args).stdout).unwrap();
    let (src, dst) = (a.to_string(), b.to_string());
    let pair = ["--src", &src, "--dst", &dst];
    // A service that is no longer kept may have had one packet to port 443 with another
    // protocol.
    let shown = text(&[&pair[..], &["--port", "443"]].concat());
    assert!(
        shown.contains("pair, 443") && shown.contains("guaranteed 40 to 41"),
        "{shown}"
    );
    let shown = text(&[&pair[..], &["--service", "tcp/443"]].concat());
    assert!(
        shown.contains("tcp/443") && shown.contains("40 packets, exact"),
        "{shown}"
    );
    let shown = text(&[&pair[..], &["--service", "tcp/22"]].concat());
    assert!(shown.contains("tcp/22"), "{shown}");
    let shown = text(&pair);
    assert!(
        shown.contains("udp/4444") && shown.contains("others"),
        "{shown}"
    );
    let shown = text(&["--service", "tcp/443"]);
    assert!(shown.contains("tcp/443") && shown.contains(&src), "{shown}");
    assert!(
        shown.contains("pairs by bytes") && !shown.contains("4444"),
        "{shown}"
    );
    let shown = text(&["--service", "tcp/443", "--sort", "packets"]);
    assert!(shown.contains("pairs by packets"), "{shown}");
    let shown = text(&["--service", "tcp/443", "--format", "csv"]);
    let lines: Vec<&str> = shown.lines().skip(1).collect();
    assert!(
        lines[0].starts_with("service,") && lines[1].starts_with("pairs_of_service,"),
        "{shown}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.contains("tcp/443") && line.contains(",tcp,443,")),
        "{shown}"
    );
    let shown = text(&["--node", &dst]);
    assert!(shown.contains("udp/4444"), "{shown}");
    for (args, says) in [
        (
            &["--port", "443", "--service", "https"][..],
            "cannot be used with",
        ),
        (
            &["--node", "10.0.0.1", "--port", "443"],
            "cannot be used with",
        ),
        (&["--service", "nonsense"], "is no service"),
        (&["--port", "443", "--both"], "--src"),
        (&[], "required"),
    ] {
        let refused = query(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&refused).contains(says),
            "{args:?}: {}",
            stderr(&refused)
        );
    }
}

/// A scan of all ports affects one pair only, and light pairs keep their services.
#[test]
fn a_scan_of_all_ports_displaces_no_service_of_other_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.pcap");
    let others = (10..8010u32).map(|pair| to(pair, TCP, 443));
    let scan = (0..=u16::MAX).map(|port| to(2, UDP, port));
    let frames: Vec<Vec<u8>> = others.chain(scan).collect();
    write_pcap(&path, &frames);
    let path = path.to_str().unwrap();
    let args = [
        "replay",
        "-q",
        path,
        "--format",
        "json",
        "--top",
        "9000",
        "--ask",
        "*,*,tcp/443",
    ];
    let report = json(&agent(&args));
    let capture = &report["captures"][0];
    assert_eq!(capture["exact"], true);
    for list in ["top", "conversations"] {
        let rows = capture[list].as_array().unwrap();
        let light = rows.iter().filter(|row| row["packets"] == 1);
        let https = light.filter(|row| row["service"] == json!({"protocol": "tcp", "port": 443}));
        assert_eq!(https.count(), 8000, "{list}");
    }
    assert_eq!(ends(&capture["asked"][0]), [8000, 8000, 8000]);
}
