//! Services of an answer as text.

use std::io::{self, Write};

use crate::text::table::Table;
use crate::text::units::{self, Units};
use crate::traffic::question::By;
use crate::traffic::service::Service;
use crate::window::estimate::Estimate;
use crate::window::list::{List, Numbers, Row};
use crate::window::services::ServiceEstimate;

/// A service and the estimate of its traffic.
pub type ServiceRow = Row<Service>;

/// The heaviest services in one line, if any is known, with packets or bytes.
pub fn line(services: &[ServiceRow], by: By, units: Units) -> Option<String> {
    let size = |row: &ServiceRow| match by {
        By::Packets => units.count(row.value.packets),
        By::Bytes => units.bytes(row.value.bytes),
    };
    let one = |row: &ServiceRow| format!("{} ({})", row.key, size(row));
    let all: Vec<String> = services.iter().take(3).map(one).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A line for each known service of the traffic `all`, and one for the most that other services
/// may have.
pub fn lines(services: &[Row<Service>], all: &Estimate, units: Units) -> Vec<String> {
    let names: Vec<String> = services.iter().map(|row| row.key.to_string()).collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let line = |(name, row): (&String, &Row<Service>)| {
        let (value, bytes) = (&row.value, units.bytes(row.value.bytes));
        let packets = units.count(value.packets);
        let noun = units::noun(value.packets, "packets");
        match value.is_exact() {
            true => format!("{name:width$}  {packets} {noun}, exact, {bytes}"),
            false => {
                let (low, high) = (units.count(value.low), units.count(value.high));
                format!("{name:width$}  {packets} {noun}, {low} to {high} (90 %), {bytes}")
            }
        }
    };
    let mut lines: Vec<String> = names.iter().zip(services).map(line).collect();
    let guaranteed: u64 = services
        .iter()
        .map(|row| row.value.at_least.unwrap_or(0))
        .sum();
    let others = all
        .at_most
        .map_or(0, |most| most.saturating_sub(guaranteed));
    if !lines.is_empty() && others > 0 {
        let (most, noun) = (units.count(others), units::noun(others, "packets"));
        lines.push(format!("{:width$}  {most} {noun} at most", "others"));
    }
    lines
}

/// The table of the pairs with the most traffic of a service. It has no column of main services,
/// because its numbers are those of the service asked for.
pub fn pairs_table(service: &ServiceEstimate, numbers: &Numbers) -> Table {
    let list = List {
        rows: service.pairs.clone(),
        others_at_most: service.others_at_most,
        incomplete: service.incomplete,
    };
    let mut table = list.table(numbers, &["source", "destination"], "packets");
    table.columns.pop();
    for row in &mut table.rows {
        row.cells.pop();
    }
    table
}

/// Writes the pairs with the most traffic of a service.
pub fn write_pairs(
    out: &mut impl Write,
    service: &ServiceEstimate,
    numbers: &Numbers,
) -> io::Result<()> {
    pairs_table(service, numbers).write(out)?;
    match others(service, numbers.by, numbers.units) {
        Some(others) => writeln!(out, "  {others}"),
        None => Ok(()),
    }
}

/// The upper bound for pairs that are not listed. `None` if there are none or it is unknown.
pub fn others(service: &ServiceEstimate, by: By, units: Units) -> Option<String> {
    if service.incomplete {
        return Some("the heaviest that are known; heavier ones may be missing".into());
    }
    let most = service.others_at_most.filter(|most| *most > 0)?;
    let most = match by {
        By::Packets => format!("{} {}", units.count(most), units::noun(most, "packets")),
        By::Bytes => units.bytes(most),
    };
    Some(format!("any other pair has {most} at most"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An agent of an older version answers with the main service of a pair.
    #[test]
    fn pairs_of_a_service_are_shown_without_another_service() {
        let mut row = json!({
            "packets": 5, "low": 5, "high": 5, "at_least": 5, "at_most": 5, "bytes": 700,
            "bytes_low": 700, "bytes_high": 700, "bytes_at_least": 700, "bytes_at_most": 700,
        });
        let estimate = row.clone();
        row["src"] = json!("10.0.0.1");
        row["dst"] = json!("10.0.0.2");
        row["service"] = json!({ "protocol": "tcp", "port": 80 });
        let answer = json!({
            "estimate": estimate, "pairs": [row], "others_at_most": 0, "incomplete": false,
        });
        let numbers = Numbers {
            units: Units::Readable,
            by: By::Bytes,
            total: [5, 700],
            seconds: None,
        };
        let mut text = Vec::new();
        write_pairs(
            &mut text,
            &serde_json::from_value(answer).unwrap(),
            &numbers,
        )
        .unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("10.0.0.2") && text.contains("100.00%"),
            "{text}"
        );
        assert!(
            !text.contains("service") && !text.contains("tcp/80"),
            "{text}"
        );
    }
}
