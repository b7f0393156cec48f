//! The report for people.

use std::io::{self, Write};

use super::rows::{AskedRow, PairRow};
use super::verify::Verify;
use super::{CaptureReport, Report, Span, answer, fans, groups};
use crate::columns::Columns;
use crate::names::show;
use crate::plain;
use crate::sketch::answer::By;
use crate::sketch::estimate::Estimate;
use crate::tally::Ignored;
use crate::units::{self, Units};

/// How a table is written.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// How numbers are shown.
    pub units: Units,
    /// What lists are ordered by.
    pub by: By,
    /// Whether the figures of the sketch are shown, too.
    pub sketch: bool,
}

impl Report {
    /// Tables for people.
    pub fn write_table(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        for capture in self.captures.iter().filter(|one| one.is_readable()) {
            capture.write_table(out, style)?;
        }
        let total = &self.total;
        if total.captures > 1 {
            writeln!(out, "total: {} captures", total.captures)?;
            write_traffic(out, &total.span, total.packets, total.bytes, style.units)?;
        }
        if total.captures > 0 {
            let (seconds, rate) = (self.elapsed_seconds, self.packets_per_second);
            let rate = style.units.packets_per_second(rate);
            writeln!(out, "read in {seconds:.2} s, {rate}")?;
        }
        Ok(())
    }
}

/// When it was, then packets and bytes, with rates where time has passed.
fn write_traffic(
    out: &mut impl Write,
    span: &Span,
    packets: u64,
    bytes: u64,
    units: Units,
) -> io::Result<()> {
    if let Some((start, seconds)) = span.start.zip(span.seconds) {
        let (start, seconds) = (units::time(start), units::duration(seconds));
        writeln!(out, "  {start}, {seconds}")?;
    } else if packets > 0 {
        writeln!(out, "  packets without time stamps")?;
    }
    let (count, size) = (units.count(packets), units.bytes(bytes));
    match span.rate(packets).zip(span.rate(bytes)) {
        Some((packets, bytes)) => {
            let rate = units.packets_per_second(packets);
            let bits = units.bits_per_second(8.0 * bytes);
            writeln!(out, "  {count} packets ({rate}), {size} ({bits})")
        }
        None => writeln!(out, "  {count} packets, {size}"),
    }
}

impl CaptureReport {
    fn write_table(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        let interface = self
            .interface
            .iter()
            .map(|name| format!(", interface {name}"));
        let head = interface.fold(self.path.clone(), |path, name| path + &name);
        writeln!(out, "{}", plain::text(&head))?;
        let units = style.units;
        write_traffic(out, &self.span, self.packets, self.bytes, units)?;
        for (what, counts) in [("ignored", &self.ignored), ("dropped", &self.dropped)] {
            for (reason, count) in counts {
                writeln!(out, "  {what}: {} {reason}", units.count(*count))?;
            }
        }
        if self.edges > 0 {
            self.write_trust(out, style)?;
            let (packets, bytes) = self.stored;
            let (packets, bytes) = (units.count(packets), units.bytes(bytes));
            writeln!(out, "  shares: of the {packets} IP packets, {bytes}")?;
        }
        if style.sketch {
            let bytes = units.bytes(self.memory_bytes as u64);
            let (layers, expansions) = (self.layers, self.expansions);
            writeln!(
                out,
                "  sketch: {bytes}, layers: {layers}, grown: {expansions} times"
            )?;
        }
        if self.saturated {
            writeln!(
                out,
                "  memory is full: counts of light pairs may be too low"
            )?;
        }
        if let Some(verify) = &self.verify {
            verify.write(out)?;
        }
        self.write_lists(out, style)?;
        fans::write(out, &self.fans, style.units)?;
        self.write_conversations(out, style)?;
        self.write_asked(out, style)?;
        groups::write_protocols(out, &self.protocols, style.units)?;
        groups::write_groups(out, self.groups.as_deref().unwrap_or_default(), style.units)?;
        self.write_windows(out, style)?;
        writeln!(out)
    }

    /// One line on how sure the answers are, and one on what the list leaves out.
    fn write_trust(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        let units = style.units;
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
        let off =
            |row: &Estimate| (row.high - row.packets).max(row.packets - row.low.min(row.packets));
        let widest = self.top.iter().map(|row| off(&row.counts)).max();
        write!(out, "  estimates: {pairs}")?;
        let is_exact = |row: &PairRow| row.counts.is_exact();
        match widest.map(|off| units.count(off)) {
            Some(_) if self.top.iter().all(is_exact) => writeln!(out, "; those listed are exact")?,
            Some(off) => writeln!(out, "; 90 of 100 listed are within {off} packets")?,
            None => writeln!(out)?,
        }
        let (listed, most) = match style.by {
            By::Packets => {
                let most = units.count(self.complete_above);
                (self.top.len(), format!("{most} packets"))
            }
            By::Bytes => (self.top_bytes.len(), units.bytes(self.complete_above_bytes)),
        };
        // Of a sample nobody knows what was not seen, and not every profile guarantees.
        let is_sample = self.ignored.contains_key(Ignored::Sampled.name());
        let guaranteed = self.top.iter().all(|row| row.counts.at_most.is_some());
        let has = match guaranteed && !is_sample {
            true => "has",
            false => "most likely has",
        };
        writeln!(
            out,
            "  listed: {listed} pairs; any other {has} {most} at most"
        )
    }

    fn write_lists(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        let (pairs, sources, destinations, services) = match style.by {
            By::Packets => (&self.top, &self.sources, &self.destinations, &self.services),
            By::Bytes => (
                &self.top_bytes,
                &self.sources_bytes,
                &self.destinations_bytes,
                &self.services_bytes,
            ),
        };
        self.write_pairs(out, style, pairs)?;
        for (title, nodes) in [("source", sources), ("destination", destinations)] {
            let rows = nodes.iter().map(|row| {
                let node = show(row.ip, row.name.as_deref());
                (vec![node], &row.counts)
            });
            self.write_list(out, style, &[title], rows)?;
        }
        let rows = services.iter();
        let rows = rows.map(|row| (vec![row.service.to_string()], &row.counts));
        self.write_list(out, style, &["service"], rows)
    }

    /// For what they talk stands where others have a rate: 80 columns are enough.
    fn write_pairs(
        &self,
        out: &mut impl Write,
        style: &Style,
        pairs: &[PairRow],
    ) -> io::Result<()> {
        if pairs.is_empty() {
            return Ok(());
        }
        let numbers = ["packets", "bytes", "share"];
        let mut table = Columns::new(&["source", "destination"], &numbers);
        table.add_name("service");
        for row in pairs {
            let mut cells = row.ends().to_vec();
            let [packets, bytes, share, _] = self.cells(&row.counts, style);
            let service = row.service.map_or_else(String::new, |one| one.to_string());
            cells.extend([packets, bytes, share, service]);
            table.push(cells);
        }
        writeln!(out)?;
        table.write(out)
    }

    fn write_list<'a>(
        &self,
        out: &mut impl Write,
        style: &Style,
        names: &[&str],
        rows: impl ExactSizeIterator<Item = (Vec<String>, &'a Estimate)>,
    ) -> io::Result<()> {
        if rows.len() == 0 {
            return Ok(());
        }
        let mut table = Columns::new(names, &["packets", "bytes", "share", "rate"]);
        for (mut cells, counts) in rows {
            cells.extend(self.cells(counts, style));
            table.push(cells);
        }
        writeln!(out)?;
        table.write(out)
    }

    /// Packets, bytes, share and rate.
    fn cells(&self, counts: &Estimate, style: &Style) -> [String; 4] {
        let Estimate { packets, bytes, .. } = *counts;
        let rate = self.span.rate(bytes);
        let rate = rate.map(|bytes| style.units.bits_per_second(8.0 * bytes));
        let share = match style.by {
            By::Packets => share(packets, self.stored.0),
            By::Bytes => share(bytes, self.stored.1),
        };
        [
            style.units.count(packets),
            style.units.bytes(bytes),
            share,
            rate.unwrap_or_else(|| "–".into()),
        ]
    }

    fn write_conversations(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        if self.conversations.is_empty() {
            return Ok(());
        }
        let numbers = ["packets", "a → b", "b → a", "bytes", "share"];
        let mut table = Columns::new(&["a", "b"], &numbers);
        for row in &self.conversations {
            let back = row.b_to_a.map(|back| style.units.count(back.packets));
            let share = match style.by {
                By::Packets => share(row.packets, self.stored.0),
                By::Bytes => share(row.bytes, self.stored.1),
            };
            table.push(vec![
                show(row.a, row.a_name.as_deref()),
                show(row.b, row.b_name.as_deref()),
                style.units.count(row.packets),
                style.units.count(row.a_to_b.packets),
                back.unwrap_or_else(|| "–".into()),
                style.units.bytes(row.bytes),
                share,
            ]);
        }
        writeln!(out)?;
        table.write(out)
    }

    fn write_asked(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        let units = style.units;
        let mut push = |name: String, never: &str, counts: &Estimate, peers: Option<String>| {
            let share = share(counts.packets, self.stored.0);
            writeln!(out, "\n  asked: {name}")?;
            let lines = answer::lines(counts, Some(&share), never, units);
            let mut lines = lines.into_iter().chain(peers);
            lines.try_for_each(|line| writeln!(out, "    {line}"))
        };
        for row in &self.asked {
            match row {
                AskedRow::Flow {
                    ends,
                    names,
                    counts,
                    back,
                    ..
                } => {
                    let never = "never occurred";
                    push(ends.show(names), never, counts, None)?;
                    if let Some(back) = back {
                        let ends = ends.reversed().show(&names.reversed());
                        push(ends, never, back, None)?;
                    }
                }
                AskedRow::Node {
                    ip,
                    name,
                    sent,
                    received,
                    fan_out,
                    fan_in,
                } => {
                    let node = show(*ip, name.as_deref());
                    let never = "nothing, for certain";
                    let to = answer::peers("to", fan_out, units);
                    push(format!("{node} sent"), never, sent, to)?;
                    let from = answer::peers("from", fan_in, units);
                    push(format!("{node} received"), never, received, from)?;
                }
            }
        }
        Ok(())
    }

    fn write_windows(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        let Some(first) = self.windows.first() else {
            return Ok(());
        };
        let units = style.units;
        // Of the first packet, whether it is an IP packet or not.
        let start = self.span.start.unwrap_or(first.start);
        let numbers = ["window", "seconds", "packets", "bytes", "share"];
        let mut table = Columns::new(&[], &numbers);
        table.add_name("heaviest pair");
        for window in &self.windows {
            // Milliseconds are enough, and the noise of floats is below them.
            let millis = ((window.start - start) * 1000.0).round() / 1000.0;
            let seconds = (window.seconds * 1000.0).round() / 1000.0;
            let heaviest = window.top.first();
            let share = heaviest.map(|heavy| match style.by {
                By::Packets => share(heavy.counts.packets, window.packets),
                By::Bytes => share(heavy.counts.bytes, window.bytes),
            });
            let pair = heaviest.map(|heavy| heavy.ends().join(" → "));
            table.push(vec![
                format!("+{millis}s"),
                seconds.to_string(),
                units.count(window.packets),
                units.bytes(window.bytes),
                share.unwrap_or_default(),
                pair.unwrap_or_default(),
            ]);
        }
        writeln!(out)?;
        table.write(out)
    }
}

impl Verify {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let percent = |value: Option<f64>| match value {
            Some(value) => format!("{:.1} %", 100.0 * value),
            None => "–".into(),
        };
        let packets = self
            .aae
            .map_or_else(|| "–".into(), |packets| format!("{packets:.2}"));
        writeln!(
            out,
            "  verified: {} pairs, counted exactly as well",
            units::grouped(self.distinct as u64)
        )?;
        let (share, found) = (percent(self.are), percent(self.top100_recall));
        writeln!(
            out,
            "    off by {packets} packets or {share} in the mean (AAE, ARE)"
        )?;
        if let Some((largest, far)) = self.largest_error.zip(self.off_by_more_than_25) {
            let (largest, far) = (units::grouped(largest as u64), units::grouped(far as u64));
            writeln!(
                out,
                "    off by {largest} packets at most; {far} pairs by more than 25"
            )?;
        }
        let off = percent(self.top100_are);
        writeln!(out, "    of the 100 heaviest {found} found, off by {off}")?;
        let held = percent(self.intervals.coverage90);
        let of_bytes = percent(self.bytes_coverage90);
        writeln!(
            out,
            "    90 % intervals that hold: {held} of packets, {of_bytes} of bytes"
        )
    }
}

fn share(part: u64, total: u64) -> String {
    format!("{:.2}%", 100.0 * part as f64 / total.max(1) as f64)
}
