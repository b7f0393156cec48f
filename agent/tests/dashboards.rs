//! The dashboards: the rules of the published linter of Grafana (named where they are
//! checked), and every query on a real Prometheus. No Grafana server has loaded them;
//! `make test-dashboards` reads them with the library of Grafana.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::process::Stdio;

use common::dashboards::{NAMES, dashboards, list, panels, queries, variable, word};
use common::net::{AGENT_PORT, Cable, LEFT, PROMETHEUS_PORT, Prometheus, RIGHT};
use common::{AGENT, Running, address, eventually, frame, write_pcap};
use serde_json::Value;

/// The units of the linter's list that are used.
const UNITS: [&str; 9] = [
    "bps",
    "pps",
    "percentunit",
    "short",
    "bytes",
    "s",
    "ops",
    "bool_yes_no",
    "dateTimeFromNow",
];
/// Panels that are empty while there is no problem, and why.
const MAY_BE_EMPTY: [(&str, &str); 1] = [("Firing alerts", "nothing is wrong")];

/// template-datasource-rule, template-job-rule, template-instance-rule,
/// template-on-time-change-reload-rule, uneditable-dashboard.
#[test]
fn variables_choose_among_agents_and_interfaces() {
    let mut uids = HashSet::new();
    for (dashboard, name) in dashboards().iter().zip(NAMES) {
        assert_eq!(
            dashboard["uid"],
            format!("crane-{name}"),
            "links stay valid"
        );
        assert!(uids.insert(word(&dashboard["title"]).to_owned()));
        assert_eq!(dashboard["editable"], false);
        let source = variable(dashboard, "datasource");
        assert_eq!(source["type"], "datasource");
        assert_eq!(
            (&source["query"], &source["label"]),
            (&"prometheus".into(), &"Data source".into())
        );
        for (name, label) in [
            ("job", "Job"),
            ("instance", "Instance"),
            ("interface", "Interface"),
        ] {
            let variable = variable(dashboard, name);
            assert_eq!(variable["type"], "query");
            assert_eq!(variable["label"], label);
            assert_eq!(variable["datasource"]["uid"], "${datasource}");
            assert_eq!(variable["refresh"], 2);
            assert_eq!(
                (&variable["multi"], &variable["includeAll"]),
                (&true.into(), &true.into())
            );
            assert_eq!(variable["allValue"], ".+");
        }
        // Each variable offers only values that match the variables before it.
        let interface = word(&variable(dashboard, "interface")["query"]["query"]);
        assert!(interface.contains("{job=~\"$job\",instance=~\"$instance\"}"));
        let instance = word(&variable(dashboard, "instance")["query"]["query"]);
        assert!(instance.contains("{job=~\"$job\"}"));
        // Each dashboard has links to all others that keep the selection.
        let link = &dashboard["links"][0];
        assert_eq!(
            (&link["type"], &link["includeVars"]),
            (&"dashboards".into(), &true.into())
        );
        assert!(list(&dashboard["tags"]).contains(&link["tags"][0]));
        assert!(word(&dashboard["description"]).contains("no Grafana server has loaded it"));
    }
}

/// panel-datasource-rule, panel-title-description-rule, panel-units-rule,
/// panel-no-targets-rule.
#[test]
fn panels_have_titles_descriptions_and_units() {
    for dashboard in dashboards() {
        let mut titles = HashSet::new();
        for panel in panels(std::slice::from_ref(&dashboard)) {
            let title = word(&panel["title"]);
            assert!(titles.insert(title), "twice: {title}");
            assert!(word(&panel["description"]).len() > 20, "{title}");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
            assert!(!list(&panel["targets"]).is_empty(), "{title}");
            let overrides = list(&panel["fieldConfig"]["overrides"]).iter();
            let properties = overrides.flat_map(|over| list(&over["properties"]));
            let units = properties.filter(|property| property["id"] == "unit");
            let units = units.map(|property| &property["value"]);
            for unit in units.chain([&panel["fieldConfig"]["defaults"]["unit"]]) {
                assert!(UNITS.contains(&word(unit)), "{title}: {unit}");
            }
        }
    }
}

/// target-job-rule, target-instance-rule, target-rate-interval-rule,
/// target-counter-agg-rule.
#[test]
fn queries_use_the_selected_job_and_instance() {
    let dashboards = dashboards();
    for (panel, _, expression) in queries(&dashboards) {
        let about = format!("{}: {expression}", panel["title"]);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let mut selectors = 0;
        let mut rest = expression;
        while let Some(start) = rest.find(is_name) {
            let before = &expression[..expression.len() - rest.len() + start];
            let length = rest[start..]
                .find(|c| !is_name(c))
                .unwrap_or(rest.len() - start);
            let (name, behind) = rest[start..].split_at(length);
            rest = behind;
            let metric = ["crane_", "process_"]
                .iter()
                .any(|start| name.starts_with(start));
            if !metric && !["up", "ALERTS"].contains(&name) {
                continue;
            }
            selectors += 1;
            let (labels, behind) = behind.strip_prefix('{').unwrap().split_once('}').unwrap();
            for needed in ["job=~\"$job\"", "instance=~\"$instance\""] {
                assert!(labels.contains(needed), "{about}");
            }
            let counter = ["_total", "_bucket", "_sum", "_count"];
            let counter = counter.iter().any(|end| name.ends_with(end));
            let rate = before.ends_with("rate(");
            assert_eq!(counter, rate, "{about}: {name}");
            assert_eq!(
                rate,
                behind.starts_with("[$__rate_interval]"),
                "{about}: {name}"
            );
            rest = behind;
        }
        assert!(selectors > 0, "{about}");
    }
}

#[test]
fn traffic_is_shown_in_bits_per_second_everywhere() {
    let dashboards = dashboards();
    for (panel, unit, expression) in queries(&dashboards) {
        let about = format!("{}: {expression}", panel["title"]);
        assert_eq!(unit == "bps", expression.contains("8 * "), "{about}");
        let window = expression.contains("crane_window_seconds");
        assert!(!window || ["bps", "pps"].contains(&unit), "{about}: {unit}");
    }
    let titles: Vec<_> = panels(&dashboards)
        .map(|panel| word(&panel["title"]))
        .collect();
    for who in ["pairs", "sources", "destinations", "services"] {
        for what in ["packets", "traffic"] {
            let title = format!("Top {who} by {what}");
            assert!(titles.contains(&title.as_str()), "{title}");
        }
    }
}

/// Every metric that is queried is exported, and nearly every exported metric is queried.
#[test]
fn dashboards_query_metrics_that_the_agent_exports() {
    let golden = include_str!("golden/metrics.txt");
    let served = golden
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let served = served.filter_map(|line| line.split(' ').next());
    // These have series only if networks have names; `names.rs` checks them.
    let groups = ["crane_group_bytes_total", "crane_group_packets_total"];
    let served: HashSet<_> = served.chain(groups).collect();
    let dashboards = dashboards();
    let mut asked = HashSet::new();
    for (panel, _, expression) in queries(&dashboards) {
        for metric in expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let ends = ["_bucket", "_sum", "_count"];
            let family = ends
                .iter()
                .find_map(|end| metric.strip_suffix(end))
                .unwrap_or(metric);
            if metric.starts_with("crane_") {
                assert!(served.contains(family), "{}: {metric}", panel["title"]);
                asked.insert(family);
            }
        }
    }
    let left: HashSet<_> = served.difference(&asked).copied().collect();
    let left: Vec<_> = left
        .into_iter()
        .filter(|name| name.starts_with("crane_"))
        .collect();
    assert!(left.len() <= 11, "not on any dashboard: {left:?}");
}

#[test]
fn panels_do_not_overlap() {
    for dashboard in dashboards() {
        let (mut taken, mut ids) = (HashSet::new(), HashSet::new());
        for panel in list(&dashboard["panels"]) {
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
            let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            let [x, y, w, h] = ["x", "y", "w", "h"].map(place);
            let large_enough = panel["type"] == "row" || w >= 4 && h >= 4;
            assert!(x + w <= 24 && h <= 12 && large_enough, "{}", panel["title"]);
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(taken.insert(cell), "{}", panel["title"]);
            }
        }
    }
}

/// The help of gauges of a window says how they become rates. `golden.rs` checks that
/// this is the text that is exported.
#[test]
fn the_help_of_gauges_of_a_window_says_how_they_become_rates() {
    let golden = include_str!("golden/metrics.txt");
    let mut count = 0;
    for line in golden
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "))
    {
        let (name, help) = line.split_once(' ').unwrap();
        let of_window = ["_top_", "heavy_hitter", "flow_estimate", "window_packets"];
        let of_window = of_window.iter().any(|part| name.contains(part));
        if of_window || name == "crane_window_bytes" {
            assert!(help.contains("divide by crane_window_seconds"), "{line}");
            count += 1;
        }
    }
    assert_eq!(count, 18);
}

/// Whether Grafana puts values of all these answers into one row of a table. It does so
/// if the labels that all of them have are equal, including the name of the metric.
fn share_a_row(answers: &[Vec<Value>]) -> bool {
    let labels = |answer: &Vec<Value>| -> Option<HashSet<String>> {
        Some(
            answer.first()?["metric"]
                .as_object()?
                .keys()
                .cloned()
                .collect(),
        )
    };
    let shared = answers.iter().map(labels).reduce(|a, b| Some(&a? & &b?));
    let Some(Some(shared)) = shared else {
        return answers.len() == 1;
    };
    let rows = |answer: &Vec<Value>| -> HashSet<Vec<String>> {
        let row = |series: &Value| {
            let label = |label| series["metric"][label].to_string();
            shared.iter().map(label).collect()
        };
        answer.iter().map(row).collect()
    };
    let common = answers.iter().map(rows).reduce(|a, b| &a & &b);
    common.is_some_and(|common| !common.is_empty())
}

/// Every expression of every panel, variable and rule, with a real agent, a real
/// Prometheus and traffic in which new addresses keep appearing.
#[test]
fn every_query_is_answered_with_data() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let names = folder.path().join("names.csv");
    std::fs::write(&names, format!("{LEFT}/32,left\n{RIGHT}/32,right\n")).unwrap();
    let mut command = Cable::command(&cable.left, "env");
    command
        .arg(format!(
            "CRANE_EXPORT_WATCH=[{{src = \"{RIGHT}\", dst = \"{LEFT}\"}}]"
        ))
        .arg(format!("CRANE_NAMES_FILE={}", names.display()))
        .args([AGENT, "run", "-i", "cable", "--window", "2s"])
        .stderr(Stdio::piped());
    let mut agent = Running::start(&mut command);
    agent.wait_for_line("metrics are at");
    let job = format!(
        "  - job_name: crane\n    static_configs: [{{targets: ['127.0.0.1:{AGENT_PORT}']}}]\n"
    );
    let prometheus = Prometheus::with_rules(&job, PROMETHEUS_PORT, Some(&cable.left));

    // One pair sends all the time, one of its ends has many peers, and other addresses
    // appear and disappear.
    let [left, right] = [LEFT, RIGHT].map(|ip| ip.parse::<Ipv4Addr>().unwrap());
    let frames = (0..1000).flat_map(|n| {
        let other = address(n / 20);
        [
            frame(right, left, 400),
            frame(right, other, 100),
            frame(other, left, 200),
        ]
    });
    let capture = folder.path().join("traffic.pcap");
    write_pcap(&capture, &frames.collect::<Vec<_>>());
    let _traffic = cable.send("cable", &capture, 60, 10);
    prometheus.wait_for("count(crane_fan_out_peers)", |count| count > 0.0);
    prometheus.wait_for("count(crane_fan_out_peers offset 5s)", |count| count > 0.0);

    let fill = |text: &str| {
        let all = ["$job", "$instance", "$interface"];
        let all = all
            .iter()
            .fold(text.to_owned(), |text, name| text.replace(name, ".+"));
        all.replace("$__rate_interval", "10s").replace("$ago", "5s")
    };
    let dashboards = dashboards();
    let queries = queries(&dashboards);
    assert!(queries.len() > 90, "{}", queries.len());
    for (panel, _, expression) in queries {
        let expression = fill(expression);
        assert!(!expression.contains('$'), "{expression}");
        let empty = MAY_BE_EMPTY
            .iter()
            .any(|(title, _)| panel["title"] == *title);
        eventually(&expression, || {
            let found = prometheus.query(&expression)?;
            (empty || !found.is_empty()).then_some(())
        });
    }
    for panel in panels(&dashboards).filter(|panel| panel["type"] == "table") {
        let targets = list(&panel["targets"]).iter();
        let expressions: Vec<_> = targets.map(|target| fill(word(&target["expr"]))).collect();
        eventually(&format!("{} in one row", panel["title"]), || {
            let asked = expressions
                .iter()
                .map(|expression| prometheus.query(expression));
            share_a_row(&asked.collect::<Option<Vec<_>>>()?).then_some(())
        });
    }
    for dashboard in &dashboards {
        for name in ["job", "instance", "interface"] {
            // template-label-promql-rule.
            let query = fill(word(&variable(dashboard, name)["query"]["query"]));
            let inside = query
                .strip_prefix("label_values(")
                .unwrap()
                .strip_suffix(')')
                .unwrap();
            let (series, label) = inside.rsplit_once(", ").unwrap();
            assert_eq!(label, name);
            let values = prometheus.label_values(series, label);
            assert_eq!(values.len(), 1, "{query}: {values:?}");
        }
    }

    // Rules are evaluated every second, and the series that they record exist.
    let rules = eventually("all rules to be evaluated", || {
        let rules = prometheus.rules()?;
        let known = rules.iter().all(|rule| rule["health"] != "unknown");
        (!rules.is_empty() && known).then_some(rules)
    });
    assert!(rules.len() >= 29, "{}", rules.len());
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        if rule["type"] == "recording" {
            let name = word(&rule["name"]);
            eventually(name, || {
                Some(!prometheus.query(name)?.is_empty()).filter(|found| *found)
            });
        } else {
            assert_ne!(rule["state"], "firing", "{rule}");
        }
    }
    assert_eq!(agent.stop("-TERM").0, Some(0));
}
