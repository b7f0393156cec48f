//! The dashboard and the texts of the metrics agree on units.
#![allow(clippy::unwrap_used)]

mod common;

use common::workspace;
use serde_json::Value;

/// All panels: title, unit and expression.
fn panels() -> Vec<(String, String, String)> {
    let text = std::fs::read(workspace().join("dashboards/traffic.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&text).unwrap();
    let panel = |panel: &Value| {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        (
            word(&panel["title"]),
            word(&panel["fieldConfig"]["defaults"]["unit"]),
            word(&panel["targets"][0]["expr"]),
        )
    };
    dashboard["panels"]
        .as_array()
        .unwrap()
        .iter()
        .map(panel)
        .collect()
}

#[test]
fn traffic_is_bits_a_second_everywhere() {
    for (title, unit, expression) in panels() {
        let traffic = [
            "capture_bytes",
            "hitter_bytes",
            "source_bytes",
            "destination_bytes",
            "group_bytes",
            "service_bytes",
        ];
        let traffic = traffic.iter().any(|name| expression.contains(name));
        assert_eq!(traffic, unit == "bps", "{title}: {unit}");
        assert_eq!(
            traffic,
            expression.contains("8 * "),
            "{title}: {expression}"
        );
        assert_ne!(unit, "Bps", "{title}");
    }
    for who in ["pairs", "sources", "destinations", "services"] {
        for what in ["packets", "traffic"] {
            let title = format!("Top {who} by {what}");
            assert!(panels().iter().any(|panel| panel.0 == title), "{title}");
        }
    }
}

/// What is asked for most has a panel, and what a panel asks for is served.
#[test]
fn fans_and_named_networks_are_shown() {
    let golden = include_str!("golden/metrics.txt");
    for family in ["crane_fan_out_peers", "crane_fan_in_peers"] {
        let shown = |(_, unit, expression): &(String, String, String)| {
            expression.contains(family) && unit == "short"
        };
        assert_eq!(panels().iter().filter(|panel| shown(panel)).count(), 1);
        assert!(golden.contains(&format!("# TYPE {family} gauge")));
    }
    // It has series only where networks have names: `names.rs` holds them.
    let groups = panels();
    let mut groups = groups
        .iter()
        .filter(|panel| panel.2.contains("group_bytes"));
    assert!(groups.next().unwrap().2.contains("src, dst"));
}

#[test]
fn panels_do_not_lie_on_each_other() {
    let text = std::fs::read(workspace().join("dashboards/traffic.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&text).unwrap();
    let mut taken = std::collections::HashSet::new();
    let mut ids = std::collections::HashSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{}", panel["title"]);
        }
    }
}

/// What belongs to a window says how it becomes a rate. `golden.rs` holds that
/// this is the text that is served.
#[test]
fn gauges_of_a_window_say_how_they_become_rates() {
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
    assert_eq!(count, 16);
}
