//! The dashboards, as Grafana would read them.

use serde_json::Value;

use super::workspace;

pub const NAMES: [&str; 5] = ["fleet", "graph", "heavy-hitters", "overview", "sketch"];

pub fn dashboards() -> Vec<Value> {
    let folder = workspace().join("dashboards");
    let files = std::fs::read_dir(&folder).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = files
        .filter_map(|file| Some(file.strip_suffix(".json")?.to_owned()))
        .collect();
    names.sort();
    assert_eq!(names, NAMES);
    let read = |name| std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let parsed = names
        .iter()
        .map(|name| serde_json::from_slice(&read(name)).unwrap());
    parsed.collect()
}

pub fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value}"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// All panels that have queries.
pub fn panels(dashboards: &[Value]) -> impl Iterator<Item = &Value> {
    let all = dashboards.iter().flat_map(|board| list(&board["panels"]));
    all.filter(|panel| panel["type"] != "row")
}

/// Every expression, with its panel and the unit of its values.
pub fn queries(dashboards: &[Value]) -> Vec<(&Value, &str, &str)> {
    let mut queries = Vec::new();
    for panel in panels(dashboards) {
        let targets = list(&panel["targets"]);
        for target in targets {
            let unit = unit(panel, target, targets.len());
            queries.push((panel, unit, word(&target["expr"])));
        }
    }
    queries
}

/// The unit of a column, or that of the panel.
fn unit<'a>(panel: &'a Value, target: &Value, targets: usize) -> &'a str {
    let column = match targets {
        1 => "Value".to_owned(),
        _ => format!("Value #{}", word(&target["refId"])),
    };
    let transformations = list(&panel["transformations"]).iter();
    let name = transformations
        .filter_map(|step| step["options"]["renameByName"].get(&column))
        .next();
    let overrides = list(&panel["fieldConfig"]["overrides"]).iter();
    let mut of_column = overrides.filter(|over| Some(&over["matcher"]["options"]) == name);
    let properties = of_column
        .next()
        .map_or(&[][..], |over| list(&over["properties"]));
    let unit = properties.iter().find(|property| property["id"] == "unit");
    let default = &panel["fieldConfig"]["defaults"]["unit"];
    word(unit.map_or(default, |unit| &unit["value"]))
}

pub fn variable<'a>(dashboard: &'a Value, name: &str) -> &'a Value {
    let all = list(&dashboard["templating"]["list"]);
    let found = all.iter().find(|variable| variable["name"] == name);
    found.unwrap_or_else(|| panic!("{}: no {name}", dashboard["title"]))
}
