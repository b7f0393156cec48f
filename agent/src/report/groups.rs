//! What was sent by each protocol, and between networks that have names.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::names::Group;
use crate::plain;
use crate::tally::Tally;

/// Packets and bytes that were counted.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Traffic {
    packets: u64,
    bytes: u64,
}

/// What was sent from one network to another.
#[derive(Debug, Serialize)]
pub struct GroupRow {
    src: String,
    dst: String,
    #[serde(flatten)]
    traffic: Traffic,
}

/// Protocols, all of them, by their names.
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

/// Protocols that were seen, those with most packets first.
pub fn write_protocols(out: &mut impl Write, protocols: &Protocols) -> io::Result<()> {
    let mut seen: Vec<(&str, Traffic)> = protocols
        .iter()
        .map(|(name, traffic)| (*name, *traffic))
        .filter(|(_, traffic)| traffic.packets > 0)
        .collect();
    seen.sort_by_key(|(_, traffic)| std::cmp::Reverse(traffic.packets));
    if seen.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n  {:<40} {:>14} {:>16}",
        "protocol", "packets", "bytes"
    )?;
    for (name, Traffic { packets, bytes }) in seen {
        writeln!(out, "  {name:<40} {packets:>14} {bytes:>16}")?;
    }
    Ok(())
}

/// All groups.
pub fn write_groups(out: &mut impl Write, groups: &[GroupRow]) -> io::Result<()> {
    if groups.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n  {:<40} {:<40} {:>14} {:>16}",
        "from", "to", "packets", "bytes"
    )?;
    for GroupRow { src, dst, traffic } in groups {
        let (src, dst) = (plain::text(src), plain::text(dst));
        let Traffic { packets, bytes } = traffic;
        writeln!(out, "  {src:<40} {dst:<40} {packets:>14} {bytes:>16}")?;
    }
    Ok(())
}
