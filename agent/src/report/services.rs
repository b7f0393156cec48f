//! Services of an answer as text.

use std::io::{self, Write};

use crate::text::units::{self, Units};
use crate::traffic::question::By;
use crate::traffic::service::Service;
use crate::window::estimate::Estimate;
use crate::window::list::{List, Numbers, Row};
use crate::window::services::ServiceEstimate;

/// A service and the estimate of its traffic.
pub type ServiceRow = Row<Service>;

/// The heaviest services in one line, if any is known.
pub fn line(services: &[ServiceRow], units: Units) -> Option<String> {
    let one = |row: &ServiceRow| format!("{} ({})", row.key, units.count(row.value.packets));
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

/// Writes the pairs with the most traffic of a service.
pub fn write_pairs(
    out: &mut impl Write,
    service: &ServiceEstimate,
    numbers: &Numbers,
) -> io::Result<()> {
    let list = List {
        rows: service.pairs.clone(),
        others_at_most: service.others_at_most,
        incomplete: service.incomplete,
    };
    list.table(numbers, &["source", "destination"], "packets")
        .write(out)?;
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
