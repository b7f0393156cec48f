//! Rates on a veth pair: within a tenth of the true rate two seconds after a flow has
//! begun or stopped, also across the end of a window.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use common::net::{AGENT_PORT, Cable, fetch, wait_for_window};
use common::{address, frame, write_pcap};
use serde_json::Value;

/// Packets a second, and bytes of each.
const FLOOD: (u32, u32) = (2000, 1000);
const STEADY: (u32, u32) = (200, 100);

/// The lists of the current window, with these parameters.
fn ask(cable: &Cable, parameters: &str) -> Value {
    let path = format!("/api/v1/heavy-hitters?interface=cable&window=current&{parameters}");
    let body = fetch(Some(&cable.left), AGENT_PORT, &path).unwrap();
    let answer: Value = serde_json::from_str(&body).unwrap();
    answer["interfaces"][0].clone()
}

/// The first row of a list that contains this text.
fn row(answer: &Value, list: &str, part: &str) -> Value {
    let rows = answer[list].as_array().unwrap();
    let row = rows.iter().find(|row| row.to_string().contains(part));
    row.cloned().unwrap_or_default()
}

/// Packets a second of a row.
fn speed(row: &Value, rate: &str) -> Option<f64> {
    row[rate]["packets_per_second"].as_f64()
}

/// Whether packets and bits are within a tenth of this flow. A low rate is allowed a
/// fifth, because the sender itself varies while the machine is busy.
fn is_about(row: &Value, rate: &str, (packets, bytes): (u32, u32)) -> bool {
    let off = if packets < 1000 { 0.2 } else { 0.1 };
    let near = |seen: Option<f64>, truth: f64| {
        seen.is_some_and(|seen| (seen - truth).abs() <= off * truth)
    };
    let bits = row[rate]["bits_per_second"].as_f64();
    let bits_sent = 8.0 * f64::from(packets) * f64::from(bytes);
    near(speed(row, rate), packets.into()) && near(bits, bits_sent)
}

/// Counts how often rates were right. They are not always, because the sender pauses now and
/// then while the machine is busy.
#[derive(Default)]
struct Score {
    right: u32,
    all: u32,
    wrong: String,
}

impl Score {
    fn add(&mut self, is_right: bool, at: &str) {
        self.right += u32::from(is_right);
        self.all += 1;
        if !is_right {
            self.wrong = at.to_owned();
        }
    }

    fn check(&self, share: f64) {
        let Self { right, all, wrong } = self;
        let enough = f64::from(*right) >= share * f64::from(*all);
        assert!(
            enough && *all > 0,
            "{right} of {all}; one that is wrong: {wrong}"
        );
    }
}

fn capture(folder: &Path, name: &str, [src, dst]: [u32; 2], bytes: u32) -> std::path::PathBuf {
    let path = folder.join(name);
    // `frame` has headers of 42 bytes.
    let payload = bytes as usize - frame(address(src), address(dst), 0).len();
    write_pcap(
        &path,
        &vec![frame(address(src), address(dst), payload); 100],
    );
    path
}

#[test]
fn rates_follow_a_flood_within_two_seconds() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let small = capture(folder.path(), "steady.pcap", [11, 12], STEADY.1);
    let flood = capture(folder.path(), "flood.pcap", [21, 22], FLOOD.1);
    wait_for_window(5);
    let _agent = cable.capture(&["-i", "cable", "--window", "5s"]);
    let _steady = cable.send("cable", &small, STEADY.0, 1000);
    let flow = ["10.0.0.21", "10.0.0.22"];

    let first = ask(&cable, "rates=true");
    assert!(first["rate_seconds"]["rate_2s"].is_null(), "{first}");
    let plain = ask(&cable, "by=bytes");
    assert!(plain.get("rate_seconds").is_none() && !plain.to_string().contains("rate_2s"));
    thread::sleep(Duration::from_secs(3));

    let (mut flooded, mut steady) = (Score::default(), Score::default());
    let begun = Instant::now();
    let mut flooding = cable.send("cable", &flood, FLOOD.0, 1000);
    thread::sleep(Duration::from_secs(2));
    let mut most: f64 = 0.0;
    let mut looked = 0;
    while begun.elapsed() < Duration::from_secs(13) {
        // The fastest pair is first, even if others had more packets in the window.
        let answer = ask(&cable, "by=rate_2s&top=20");
        let at = format!("after {:?}: {answer}", begun.elapsed());
        for (list, part) in [
            ("pairs", flow[0]),
            ("conversations", flow[0]),
            ("sources", flow[0]),
            ("destinations", flow[1]),
            ("services", "udp"),
        ] {
            let row = &answer[list][0];
            assert!(row.to_string().contains(part), "{list} {at}");
            if list != "services" {
                flooded.add(is_about(row, "rate_2s", FLOOD), &format!("{list} {at}"));
            }
        }
        let pair = row(&answer, "pairs", flow[0]);
        most = most.max(speed(&pair, "rate_10s").unwrap_or(0.0));
        if begun.elapsed() > Duration::from_secs(10) {
            flooded.add(is_about(&pair, "rate_10s", FLOOD), &at);
        }
        let other = row(&answer, "pairs", "10.0.0.11");
        steady.add(is_about(&other, "rate_2s", STEADY), &at);
        looked += 1;
        thread::sleep(Duration::from_millis(100));
    }
    assert!(looked > 20, "{looked} checks");
    assert!(most < 1.1 * f64::from(FLOOD.0), "{most}");

    flooding.stop("-KILL");
    let stopped = Instant::now();
    thread::sleep(Duration::from_secs(2));
    while stopped.elapsed() < Duration::from_secs(11) {
        let answer = ask(&cable, "by=rate_10s&top=20");
        let at = format!("{:?} after the stop: {answer}", stopped.elapsed());
        let pair = row(&answer, "pairs", flow[0]);
        if !pair.is_null() {
            assert_eq!(speed(&pair, "rate_2s"), Some(0.0), "{at}");
        }
        if stopped.elapsed() > Duration::from_secs(10) {
            assert!(matches!(speed(&pair, "rate_10s"), None | Some(0.0)), "{at}");
        } else {
            assert!(
                speed(&pair, "rate_10s") > Some(0.0) || stopped.elapsed().as_secs() > 8,
                "{at}"
            );
        }
        let other = row(&answer, "pairs", "10.0.0.11");
        steady.add(is_about(&other, "rate_2s", STEADY), &at);
        steady.add(is_about(&other, "rate_10s", STEADY), &at);
        thread::sleep(Duration::from_millis(300));
    }
    flooded.check(0.9);
    steady.check(0.75);
}
