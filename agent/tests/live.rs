//! Live capture on a real cable, scraped by a real Prometheus.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::{Command, Stdio};
use std::time::Duration;

use common::net::{Cable, LEFT, Prometheus, RIGHT, fetch, ip};
use common::{AGENT, Running, eventually, series, workspace};

/// Ports in a namespace of our own: nobody else is there.
const AGENT_PORT: u16 = 9732;
const PROMETHEUS_PORT: u16 = 9090;

fn capture(cable: &Cable) -> Running {
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable"]).stderr(Stdio::piped());
    let mut agent = Running::start(&mut command);
    agent.wait_for_line("metrics are at http://127.0.0.1:9732/metrics");
    agent
}

fn metrics(cable: &Cable) -> String {
    eventually("metrics", || {
        fetch(Some(&cable.left), AGENT_PORT, "/metrics")
    })
}

#[test]
fn what_was_sent_is_what_prometheus_shows() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = capture(&cable);
    let prometheus = Prometheus::start(AGENT_PORT, PROMETHEUS_PORT, Some(&cable.left));
    cable.ping(50);

    let there = format!("crane_heavy_hitter_packets{{src=\"{RIGHT}\",dst=\"{LEFT}\"}}");
    let back = format!("crane_heavy_hitter_packets{{src=\"{LEFT}\",dst=\"{RIGHT}\"}}");
    prometheus.wait_for(&there, |packets| packets == 50.0);
    prometheus.wait_for(&back, |packets| packets == 50.0);
    prometheus.wait_for("crane_sketch_edges_total", |edges| edges == 100.0);
    prometheus.wait_for("crane_interface_up", |up| up == 1.0);
    let books = "crane_capture_packets_total - crane_sketch_edges_total - on (interface) \
                 sum by (interface) (crane_capture_ignored_packets_total) - on (interface) \
                 sum by (interface) (crane_capture_dropped_packets_total{reason=\"ring_full\"})";
    prometheus.wait_for(books, |outstanding| outstanding == 0.0);

    every_panel_has_data(&prometheus);
    let (code, took) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Every expression of every dashboard is understood and finds something.
fn every_panel_has_data(prometheus: &Prometheus) {
    let mut expressions = 0;
    for file in std::fs::read_dir(workspace().join("dashboards")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let dashboard: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expression = target["expr"].as_str().unwrap();
                let expression = expression
                    .replace("$__rate_interval", "10s")
                    .replace("$instance", ".*")
                    .replace("$interface", ".*");
                eventually(&expression, || {
                    Some(!prometheus.query(&expression)?.is_empty()).filter(|found| *found)
                });
                expressions += 1;
            }
        }
    }
    assert!(expressions >= 6);
}

#[test]
fn the_text_is_what_prometheus_expects() {
    let Some(cable) = Cable::lay() else { return };
    let _agent = capture(&cable);
    cable.ping(5);
    let text = eventually("heavy hitters", || {
        Some(metrics(&cable)).filter(|text| text.contains("crane_heavy_hitter_packets{"))
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("metrics.txt");
    std::fs::write(&file, &text).unwrap();
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&check.stderr).into_owned()
        + &String::from_utf8_lossy(&check.stdout);
    assert!(
        check.status.success() && said.trim().is_empty(),
        "{said}\n{text}"
    );
    // Counters are there from the start, also those that count nothing.
    for reason in ["ring_full", "kernel", "interface"] {
        let labels = [("interface", "cable"), ("reason", reason)];
        assert_eq!(
            series(&text, "crane_capture_dropped_packets_total", &labels),
            Some(0.0)
        );
    }
}

#[test]
fn an_idle_link_stops_at_once_on_either_signal() {
    let Some(cable) = Cable::lay() else { return };
    for signal in ["-INT", "-TERM"] {
        let mut agent = capture(&cable);
        let (code, took) = agent.stop(signal);
        assert_eq!(code, Some(0), "{signal}");
        assert!(took < Duration::from_secs(2), "{signal} took {took:?}");
    }
}

#[test]
fn an_interface_that_goes_away_and_comes_back_is_captured_again() {
    let Some(cable) = Cable::lay() else { return };
    let _agent = capture(&cable);
    let up = |text: &str| series(text, "crane_interface_up", &[("interface", "cable")]);
    ip(&["-n", &cable.left, "link", "delete", "cable"]);
    eventually("the interface to be down", || {
        Some(up(&metrics(&cable)) == Some(0.0)).filter(|down| *down)
    });
    cable.plug();
    eventually("the interface to be back", || {
        Some(up(&metrics(&cable)) == Some(1.0)).filter(|up| *up)
    });
    cable.ping(3);
    eventually("its packets", || {
        let labels = [("src", RIGHT), ("dst", LEFT)];
        series(&metrics(&cable), "crane_heavy_hitter_packets", &labels)
            .filter(|packets| *packets == 3.0)
    });
}
