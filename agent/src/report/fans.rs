//! Who talked with most others, as a table.

use std::io::{self, Write};

use crate::columns::Columns;
use crate::names::show;
use crate::sketch::fan_rows::{FanNode, FanRows};
use crate::units::Units;

/// Both lists, each with what the addresses have at most that are not in it.
pub fn write(out: &mut impl Write, rows: &FanRows, units: Units) -> io::Result<()> {
    let (fan_out, most_out) = (&rows.fan_out, rows.fan_out_others_at_most);
    let (fan_in, most_in) = (&rows.fan_in, rows.fan_in_others_at_most);
    write_list(out, ["fan-out", "destinations"], fan_out, most_out, units)?;
    write_list(out, ["fan-in", "sources"], fan_in, most_in, units)
}

fn write_list(
    out: &mut impl Write,
    [title, peers]: [&str; 2],
    nodes: &[FanNode],
    others_at_most: Option<u64>,
    units: Units,
) -> io::Result<()> {
    let others = others_at_most.filter(|most| *most > 0);
    let others = others.map(|most| units.count(most));
    if nodes.is_empty() {
        return match others {
            Some(most) => writeln!(
                out,
                "\n  {title}: nobody stands out; no address has more than {most} {peers}"
            ),
            None => Ok(()),
        };
    }
    let mut table = Columns::new(&[title], &[peers, "90 %"]);
    for FanNode { ip, name, peers } in nodes {
        let count = units.count(peers.peers);
        table.push(vec![
            show(*ip, name.as_deref()),
            count,
            peers.between(units),
        ]);
    }
    writeln!(out)?;
    table.write(out)?;
    match others {
        Some(most) => writeln!(out, "  any other address has {most} {peers} at most"),
        None => Ok(()),
    }
}
