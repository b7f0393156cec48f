//! The rules for Prometheus: which alerts fire (by `promtool`, with the files in
//! `tests/rules`), their runbooks (docs/operations.md), and two agents scraped by one
//! Prometheus.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::net::{Cable, PROMETHEUS_PORT, Prometheus, RIGHT, ip};
use common::{AGENT, Running, address, eventually, frame, workspace, write_pcap};
use serde_json::Value;

/// The files of a folder, by name.
fn files(folder: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn rules() -> Vec<PathBuf> {
    files(workspace().join("dashboards/rules"))
}

fn tests() -> Vec<PathBuf> {
    files(workspace().join("agent/tests/rules"))
}

/// The values after `key: ` in these lines.
fn after<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches("- "));
    let values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    values.collect()
}

fn promtool(args: &[&str], files: &[PathBuf]) {
    let ran = Command::new("promtool").args(args).args(files).output();
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let said = said + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("SUCCESS"), "{said}");
}

#[test]
fn prometheus_accepts_the_rules() {
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &rules());
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    promtool(&["test", "rules"], &tests());
}

/// Every group has a file of tests, in which every rule is tested. Samples are compared
/// exactly, so no other alert may fire.
#[test]
fn every_rule_is_tested() {
    let names = |paths: Vec<PathBuf>| -> BTreeSet<_> {
        let names = paths
            .into_iter()
            .map(|path| path.file_name().map(|name| name.to_owned()));
        names.collect()
    };
    assert_eq!(names(rules()), names(tests()));
    for (rules, tests) in rules().into_iter().zip(tests()) {
        let [rules, tests] = [rules, tests].map(|path| std::fs::read_to_string(path).unwrap());
        for record in after(&rules, "record") {
            assert!(
                after(&tests, "expr")
                    .iter()
                    .any(|expr| expr.contains(record)),
                "{record}"
            );
        }
        for alert in after(&rules, "alert") {
            let fires = format!("ALERTS{{alertname=\"{alert}\", alertstate=\"firing\", severity=");
            assert!(tests.contains(&fires), "{alert} never fires");
        }
    }
}

/// Every alert has a summary, a description and a link to its runbook.
#[test]
fn every_alert_has_a_runbook() {
    let operations = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let headings = operations
        .lines()
        .filter_map(|line| line.strip_prefix("### "));
    let headings: BTreeSet<_> = headings.collect();
    let mut alerts = 0;
    for path in rules() {
        let text = std::fs::read_to_string(path).unwrap();
        for alert in text.split("- alert: ").skip(1) {
            let name = alert.lines().next().unwrap();
            let anchor = format!("docs/operations.md#{}", name.to_lowercase());
            assert_eq!(after(alert, "runbook_url"), [anchor], "{name}");
            assert!(headings.contains(name), "no runbook for {name}");
            let severity = after(alert, "severity");
            assert!(
                ["info", "warning", "critical"].contains(&severity[0]),
                "{name}"
            );
            for key in ["summary", "description"] {
                assert_eq!(after(alert, key).len(), 1, "{name}: {key}");
            }
            // Also in the table of metrics.
            let link = format!("[{name}](#{})", name.to_lowercase());
            assert!(operations.contains(&link), "{link}");
            alerts += 1;
        }
    }
    assert!(alerts >= 15, "{alerts}");
}

/// Every metric is in the table of metrics in docs/operations.md.
#[test]
fn every_metric_is_in_the_operations_page() {
    let operations = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let (_, table) = operations.split_once("\n## Metrics\n").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let golden = include_str!("golden/metrics.txt");
    for help in golden
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
    {
        let name = help.split(' ').next().unwrap();
        assert!(table.contains(&format!("`{name}`")), "{name}");
    }
}

/// Two agents, one at each end of a cable, and a second cable that only one of them
/// captures. The heaviest pair is seen by both and is not counted twice.
#[test]
fn two_agents_give_the_heaviest_pair_of_all() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let agent = |side: &str, interfaces: &[&str], listen: &str| {
        let mut command = Cable::command(side, AGENT);
        command.args(["run", "--window", "2s", "--listen", listen]);
        for interface in interfaces {
            command.args(["-i", interface]);
        }
        let mut agent = Running::start(command.stderr(Stdio::piped()));
        agent.wait_for_line("metrics are at");
        agent
    };
    let [there, here] = [RIGHT, "127.0.0.1"].map(|ip| format!("{ip}:9732"));
    let _here = agent(&cable.left, &["cable", "second"], &here);
    let mut other = agent(&cable.right, &["cable"], &there);
    let job =
        format!("  - job_name: crane\n    static_configs: [{{targets: ['{here}', '{there}']}}]\n");
    let prometheus = Prometheus::with_rules(&job, PROMETHEUS_PORT, Some(&cable.left));

    let folder = tempfile::tempdir().unwrap();
    let send = |name: &str, src: u32, rate: u32| {
        let capture = folder.path().join(name);
        let packet = frame(address(src), address(100), 1358);
        write_pcap(&capture, &vec![packet; 100]);
        cable.send(name, &capture, rate, 600)
    };
    let _both = send("cable", 1, 600);
    let _one = send("second", 2, 300);

    // The scrapes of the agent at the other end are on the cable as well, and far
    // lighter.
    let top = "topk(2, src_dst:crane_heavy_hitter_bytes_per_second:max)";
    eventually("the heaviest of all", || {
        let mut top = prometheus.query(top)?;
        let bytes = |pair: &Value| pair["value"][1].as_str()?.parse::<f64>().ok();
        top.sort_by(|a, b| bytes(b).partial_cmp(&bytes(a)).unwrap());
        let sources: Vec<_> = top.iter().map(|pair| &pair["metric"]["src"]).collect();
        (sources == ["10.0.0.1", "10.0.0.2"]).then_some(())
    });

    // The sum over both agents is twice as much; for the other pair it is not.
    let places = |src: u32| {
        let pair = format!("{{src=\"{}\"}}", address(src));
        format!(
            "src_dst:crane_heavy_hitter_bytes_per_second:sum{pair} \
             / src_dst:crane_heavy_hitter_bytes_per_second:max{pair}"
        )
    };
    prometheus.wait_for(&places(1), |times| (1.7..=2.0).contains(&times));
    prometheus.wait_for(&places(2), |times| times == 1.0);
    let agents =
        "count by (src) (group by (instance, src) (crane_heavy_hitter_bytes{src=\"10.0.0.1\"}))";
    prometheus.wait_for(agents, |agents| agents == 2.0);

    // The alerts are pending, because the condition has not lasted long enough to fire.
    ip(&["-n", &cable.left, "link", "set", "second", "down"]);
    other.stop("-TERM");
    for (alert, summary) in [
        (
            "CraneInterfaceDown",
            format!("second on {here} is not captured"),
        ),
        (
            "CraneAgentDown",
            format!("The agent {there} does not answer"),
        ),
    ] {
        eventually(&summary, || {
            let rules = prometheus.rules()?;
            let rule = rules.iter().find(|rule| rule["name"] == alert)?;
            let pending = rule["state"] == "pending";
            let found = &rule["alerts"][0]["annotations"]["summary"];
            (pending && *found == summary.as_str()).then_some(())
        });
    }
}
