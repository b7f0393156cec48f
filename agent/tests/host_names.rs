//! Host names of addresses: looked up in the background and never while addresses are hidden. A
//! running agent waits neither for names nor for databases, which a reload reads again.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::lookup::{LOOKUP, ONE, THREE, folder, replay, row};
use common::mmdb::{Layout, database, geolite_asn};
use common::net::{AGENT_PORT, Cable, RIGHT, fetch};
use common::{AGENT, Running, eventually, get, json, serving};
use serde_json::Value;

#[test]
fn anonymised_addresses_have_no_host_name_and_keyed_ones_no_as() {
    for (anonymise, asn) in [("prefix", true), ("keyed", false)] {
        let (server, asked) = name_server(true);
        let config = format!(
            "[export]\nanonymise = {anonymise:?}\n{LOOKUP}resolve = true\nname_servers = [{server:?}]\n"
        );
        let folder = folder(&config);
        let (_running, port) = serving(folder.path(), "small.pcap", &["-c", "agent.toml"]);
        let seen = [
            "/metrics",
            "/api/v1/heavy-hitters",
            "/api/v1/heavy-hitters?interface=small.pcap&top=50",
        ]
        .map(|path| get(port, path).unwrap().1);
        assert!(!seen.concat().contains("host1.example"));
        for text in &seen {
            assert_eq!(text.contains("64496"), asn, "{anonymise}: {text}");
            let has_country = text.contains("\"country\":\"DE\"");
            assert_eq!(
                has_country,
                asn && !text.contains("# HELP"),
                "{anonymise}: {text}"
            );
        }
        let (status, body) = get(port, "/api/v1/flow?src=AS64496&dst=*").unwrap();
        assert!(
            status.contains("403") && body.contains("no question about an AS"),
            "{body}"
        );
        let lists: Value = serde_json::from_str(&seen[1]).unwrap();
        let source = &lists["interfaces"][0]["sources"][0]["ip"];
        get(
            port,
            &format!("/api/v1/node?ip={}", source.as_str().unwrap()),
        )
        .unwrap();
        thread::sleep(Duration::from_millis(300));
        assert_eq!(
            asked.load(Relaxed),
            0,
            "no question was sent to the name server"
        );
    }
}

/// Starts a name server on loopback. If it `answers`, the name of every address is hostN.example,
/// where N is the last byte. Returns its address and the number of questions.
fn name_server(answers: bool) -> (String, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (at, asked) = (
        socket.local_addr().unwrap().to_string(),
        Arc::new(AtomicUsize::new(0)),
    );
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut message) {
            count.fetch_add(1, Relaxed);
            if answers {
                socket.send_to(&reply(&message[..length]), from).unwrap();
            }
        }
    });
    (at, asked)
}

fn reply(question: &[u8]) -> Vec<u8> {
    let length = usize::from(question[12]);
    let digit = String::from_utf8(question[13..13 + length].to_vec()).unwrap();
    let mut message = question.to_vec();
    (message[2], message[3], message[7]) = (0x81, 0x80, 1);
    let host = format!("host{digit}");
    let name = [&[host.len() as u8], host.as_bytes(), &[7], b"example", &[0]].concat();
    message.extend([0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 60, 0, name.len() as u8]);
    message.extend(name);
    message
}

#[test]
fn host_names_are_looked_up_in_the_background() {
    let (server, asked) = name_server(true);
    let config = format!("[lookup]\nresolve = true\nname_servers = [{server:?}]\n");
    let folder = folder(&config);
    // A replay waits for host names before its report.
    let report = json(&replay(
        folder.path(),
        &["--format", "json", "--ask=192.0.2.1"],
    ));
    let capture = &report["captures"][0];
    assert_eq!(row(&capture["sources"], "ip", ONE)["host"], "host1.example");
    assert_eq!(capture["asked"][0]["host"], "host1.example");
    let pair = row(&capture["top"], "dst", THREE);
    assert_eq!(
        [&pair["src_host"], &pair["dst_host"]],
        ["host1.example", "host3.example"]
    );
    assert_eq!(asked.load(Relaxed), 4, "each address is asked for once");

    let (_running, port) = serving(folder.path(), "small.pcap", &["-c", "agent.toml"]);
    let host = || {
        let answer = get(port, "/api/v1/node?ip=198.51.100.2").unwrap().1;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer.get("host").cloned()
    };
    assert_eq!(eventually("a name", host), "host2.example");
    assert_eq!(
        asked.load(Relaxed),
        8,
        "asked for again by the second agent"
    );

    // Without lookup.resolve, nothing is sent to the name server.
    std::fs::write(
        folder.path().join("agent.toml"),
        format!("[lookup]\nname_servers = [{server:?}]\n"),
    )
    .unwrap();
    let report = replay(folder.path(), &["--format", "json"]);
    assert!(
        !String::from_utf8(report.stdout)
            .unwrap()
            .contains("example")
    );
    assert_eq!(asked.load(Relaxed), 8);
}

/// A live agent with a name server that never answers still answers, reloads and stops in time.
#[test]
fn a_running_agent_does_not_wait_for_names_and_reloads_databases() {
    let Some(cable) = Cable::lay() else { return };
    let folder = folder("");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let layout = Layout {
        kind: "GeoLite2-ASN",
        record_size: 24,
        ip_version: 4,
    };
    let asns = |name| database(layout, &[("10.200.0.0/16", geolite_asn(64496, name))]);
    write("asn.mmdb", &asns("before"));
    let servers = format!("resolve = true\nname_servers = [\"{RIGHT}:5353\"]\n");
    let config =
        format!("[capture]\ninterfaces = [\"cable\"]\n[lookup]\nasn = \"asn.mmdb\"\n{servers}");
    write("agent.toml", config.as_bytes());
    // A name server that never answers.
    let silent = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                  s.bind(('10.200.0.2', 5353)); time.sleep(600)";
    let _silent = Running::start(Cable::command(&cable.right, "python3").args(["-c", silent]));
    let mut command = Cable::command(&cable.left, AGENT);
    command
        .args(["run", "--window=366d", "--config", "agent.toml"])
        .current_dir(folder.path())
        .stderr(Stdio::piped());
    let mut process = Running::start(&mut command);
    process.wait_for_line("metrics are at");
    cable.ping(10);
    let lists = || -> Value {
        let path = "/api/v1/heavy-hitters?window=current";
        let text = fetch(Some(&cable.left), AGENT_PORT, path).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let name = || {
        let start = Instant::now();
        let lists = lists();
        assert!(
            start.elapsed() < Duration::from_secs(2),
            "{:?}",
            start.elapsed()
        );
        let row = lists["interfaces"][0]["sources"][0].clone();
        row.get("as_name").cloned()
    };
    assert_eq!(eventually("a list", name), "before");

    // If the file is missing or damaged, the previous content stays in use.
    std::fs::remove_file(folder.path().join("asn.mmdb")).unwrap();
    process.signal("-HUP");
    let line = process.wait_for_line("configuration");
    assert!(
        line.contains("not reloaded") && line.contains("lookup.asn"),
        "{line}"
    );
    assert_eq!(name().unwrap(), "before");
    write("asn.mmdb", &asns("after")[..100]);
    process.signal("-HUP");
    let line = process.wait_for_line("configuration");
    assert!(line.contains("damaged"), "{line}");
    assert_eq!(name().unwrap(), "before");
    write("asn.mmdb", &asns("after"));
    process.signal("-HUP");
    let line = process.wait_for_line("configuration reloaded");
    assert!(
        line.contains("lookup.asn") && !line.contains("lookup.country"),
        "{line}"
    );
    assert_eq!(eventually("the other name", name), "after");

    let (code, took) = process.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}
