//! Traffic by protocol, and between networks with names.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::text::columns::Columns;
use crate::text::plain;
use crate::text::units::Units;
use crate::traffic::names::Group;
use crate::traffic::tally::Tally;

#[derive(Debug, Clone, Copy, Serialize)]
pub struct Traffic {
    packets: u64,
    bytes: u64,
}

/// Traffic from one network to another.
#[derive(Debug, Clone, Serialize)]
pub struct GroupRow {
    src: String,
    dst: String,
    #[serde(flatten)]
    traffic: Traffic,
}

/// All protocols by name.
pub type Protocols = BTreeMap<&'static str, Traffic>;

/// The protocols of a capture.
pub fn protocols(tally: &Tally) -> Protocols {
    let protocols = tally.protocols().into_iter();
    let entry = |(name, packets, bytes)| (name, Traffic { packets, bytes });
    protocols.map(entry).collect()
}

impl From<&Group> for GroupRow {
    fn from(group: &Group) -> Self {
        let (packets, bytes) = (group.packets, group.bytes);
        Self {
            src: group.src.to_string(),
            dst: group.dst.to_string(),
            traffic: Traffic { packets, bytes },
        }
    }
}

/// Writes the protocols with packets, most packets first.
pub fn write_protocols(
    out: &mut impl Write,
    protocols: &Protocols,
    units: Units,
) -> io::Result<()> {
    let seen = protocols.iter().filter(|(_, traffic)| traffic.packets > 0);
    let mut seen: Vec<_> = seen.collect();
    if seen.is_empty() {
        return Ok(());
    }
    seen.sort_by_key(|(_, traffic)| Reverse(traffic.packets));
    let mut table = Columns::new(&["protocol"], &["packets", "bytes"]);
    for (name, traffic) in seen {
        let [packets, bytes] = traffic.cells(units);
        table.push(vec![(*name).into(), packets, bytes]);
    }
    writeln!(out)?;
    table.write(out)
}

pub fn write_groups(out: &mut impl Write, groups: &[GroupRow], units: Units) -> io::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    let mut table = Columns::new(&["from", "to"], &["packets", "bytes"]);
    for group in groups {
        let [src, dst] = [&group.src, &group.dst].map(|name| plain::text(name).into_owned());
        let [packets, bytes] = group.traffic.cells(units);
        table.push(vec![src, dst, packets, bytes]);
    }
    writeln!(out)?;
    table.write(out)
}

impl Traffic {
    fn cells(&self, units: Units) -> [String; 2] {
        [units.count(self.packets), units.bytes(self.bytes)]
    }
}
