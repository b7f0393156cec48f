//! The lists of a window as text, for `replay` and `top --once`.

use std::io::{self, Write};

use crate::text::units;
use crate::traffic::question::By;
use crate::window::estimate::Estimate;
use crate::window::keys::PairKey;
use crate::window::list::{Key, List, Numbers, Row, Value};
use crate::window::lists::{ListName, Lists, Visitor};

/// How accurate the numbers of a window are.
pub struct Accuracy {
    /// Whether every pair and address is counted exactly.
    pub exact: bool,
    /// Number of pairs, an estimate unless exact.
    pub pairs: Option<u64>,
    /// Whether only a sample is stored.
    pub sampled: bool,
}

impl Accuracy {
    /// Writes one line on the accuracy of answers, and one on the pairs that are not listed.
    pub fn write(&self, out: &mut impl Write, lists: &Lists, numbers: &Numbers) -> io::Result<()> {
        let units = numbers.units;
        let pairs = self.pairs.map(units::grouped);
        if self.exact {
            return match (self.pairs, pairs) {
                (Some(1), _) => writeln!(out, "  exact: the only pair fits"),
                (_, pairs) => {
                    let pairs = pairs.unwrap_or_default();
                    writeln!(out, "  exact: all {pairs} pairs fit")
                }
            };
        }
        let pairs = pairs.map_or("many pairs".into(), |pairs| format!("about {pairs} pairs"));
        write!(out, "  estimates: {pairs}")?;
        let rows = &lists.pairs.rows;
        let off = |row: &Row<PairKey>| {
            let Estimate {
                packets, low, high, ..
            } = row.value;
            (high - packets).max(packets - low.min(packets))
        };
        let is_exact = |row: &Row<PairKey>| row.value.is_exact();
        match rows.iter().map(off).max().map(|off| units.count(off)) {
            Some(_) if rows.iter().all(is_exact) => writeln!(out, "; those listed are exact")?,
            Some(off) => writeln!(out, "; 90 of 100 listed are within {off} packets")?,
            None => writeln!(out)?,
        }
        let Some(most) = lists.pairs.others_at_most else {
            return Ok(());
        };
        let most = match lists.by {
            By::Packets => format!("{} {}", units.count(most), units::noun(most, "packets")),
            By::Bytes => units.bytes(most),
        };
        // Nothing is guaranteed about packets that sampling skipped, nor in the paper profile.
        let guaranteed = rows.iter().all(|row| row.value.at_most.is_some());
        let has = match guaranteed && !self.sampled {
            true => "has",
            false => "most likely has",
        };
        let listed = match lists.pairs.incomplete {
            true => "the heaviest that are known; heavier ones may be missing".into(),
            false => format!("{} pairs", rows.len()),
        };
        writeln!(out, "  listed: {listed}; any other {has} {most} at most")
    }
}

/// Writes all lists as tables, except the one named `hidden`. `exact` says that every pair and
/// address is counted exactly.
pub fn write(
    out: &mut impl Write,
    lists: &Lists,
    numbers: &Numbers,
    exact: bool,
    hidden: Option<&str>,
) -> io::Result<()> {
    lists.visit(&mut Tables {
        out,
        numbers,
        by: lists.by,
        exact,
        hidden,
    })
}

struct Tables<'a, W> {
    out: &'a mut W,
    numbers: &'a Numbers,
    by: By,
    exact: bool,
    hidden: Option<&'a str>,
}

impl<W: Write> Visitor for Tables<'_, W> {
    type Error = io::Error;

    fn visit<K: Key, V: Value>(
        &mut self,
        name: &'static ListName,
        list: &List<K, V>,
    ) -> io::Result<()> {
        let (out, numbers) = (&mut *self.out, self.numbers);
        let [title, ..] = name.heads else {
            return Ok(());
        };
        if self.hidden == Some(name.name) {
            return Ok(());
        }
        list.table(numbers, name.heads, name.counts).write(out)?;
        if list.incomplete && name.name != "pairs" {
            writeln!(
                out,
                "  the heaviest that are known; heavier ones may be missing"
            )?;
        }
        // That of pairs is written before the lists.
        let Some(most) = list.others_at_most.filter(|most| *most > 0) else {
            return Ok(());
        };
        if V::HAS_BYTES {
            let most = match self.by {
                By::Packets => format!("{} packets", numbers.units.count(most)),
                By::Bytes => numbers.units.bytes(most),
            };
            return match self.exact || name.name == "pairs" {
                true => Ok(()),
                false => writeln!(out, "  any other {} has {most} at most", name.noun),
            };
        }
        let shown = numbers.units.count(most);
        let (noun, counts) = (name.noun, units::noun(most, name.counts));
        match list.rows.is_empty() {
            true => writeln!(out, "\n  {title}: {}", name.none_stands_out(most, &shown)),
            false => writeln!(out, "  any other {noun} has {shown} {counts} at most"),
        }
    }
}
