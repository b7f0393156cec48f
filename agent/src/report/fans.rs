//! Who talked with most others.

use std::io::{self, Write};
use std::net::IpAddr;

use crane_model::fan::Peers;
use serde::Serialize;

use crate::columns::Columns;
use crate::names::{Names, name_of, show};
use crate::sketch::estimate::PeerEstimate;
use crate::units::Units;

/// An address and with how many others it talked.
#[derive(Debug, Serialize)]
pub struct FanRow {
    ip: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(flatten)]
    peers: PeerEstimate,
}

impl FanRow {
    /// The row of an address, with the name of its network if there are any.
    pub fn new(ip: IpAddr, peers: Peers, names: Option<&Names>) -> Self {
        Self {
            ip,
            name: name_of(names, ip),
            peers: peers.into(),
        }
    }
}

/// A list; `title` says in which direction, `peers` what the others are.
pub fn write(
    out: &mut impl Write,
    rows: &[FanRow],
    title: &str,
    peers: &str,
    units: Units,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = Columns::new(&[title], &[peers, "90 %"]);
    for row in rows {
        let node = show(row.ip, row.name.as_deref());
        let between = row.peers.between(units);
        table.push(vec![node, units.count(row.peers.peers), between]);
    }
    writeln!(out)?;
    table.write(out)
}
