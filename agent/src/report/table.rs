//! The report as text.

use std::io::{self, Write};

use super::asked::AskedRow;
use super::lists::{self, Accuracy};
use super::verify::Verify;
use super::{CaptureReport, Report, Span, answer, groups, services};
use crate::text::columns::Columns;
use crate::text::plain;
use crate::text::units::{self, Units};
use crate::traffic::question::By;
use crate::traffic::tally::Ignored;
use crate::window::answer::NodeEstimate;
use crate::window::estimate::Estimate;
use crate::window::list::{Numbers, share};

#[derive(Debug, Clone, Copy)]
pub struct Style {
    pub units: Units,
    /// Order of the lists.
    pub by: By,
    /// Whether figures of the sketch are written.
    pub sketch: bool,
}

impl Report {
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

/// Writes the time span, packets and bytes, with rates if time has passed.
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
        let numbers = Numbers {
            units,
            by: style.by,
            total: [self.stored.0, self.stored.1],
            seconds: self.span.seconds,
        };
        let lists = self.lists.by(style.by);
        if self.edges > 0 {
            let accuracy = Accuracy {
                exact: self.exact,
                pairs: self.pairs,
                sampled: self.ignored.contains_key(Ignored::Sampled.name()),
            };
            accuracy.write(out, lists, &numbers)?;
            let (packets, bytes) = self.stored;
            let (packets, bytes) = (units.count(packets), units.bytes(bytes));
            let by = style.by.name();
            writeln!(
                out,
                "  by {by}; shares: of the {packets} IP packets, {bytes}"
            )?;
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
        let hidden = if self.both {
            None
        } else {
            Some("conversations")
        };
        lists::write(out, lists, &numbers, self.exact, hidden)?;
        self.write_asked(out, style)?;
        groups::write_protocols(out, &self.protocols, style.units)?;
        groups::write_groups(out, self.groups.as_deref().unwrap_or_default(), style.units)?;
        self.write_windows(out, style)?;
        writeln!(out)
    }

    fn write_asked(&self, out: &mut impl Write, style: &Style) -> io::Result<()> {
        let units = style.units;
        let mut push = |name: String, counts: &Estimate, more: Vec<String>| {
            let share = share(counts.packets, self.stored.0);
            writeln!(out, "\n  asked: {name}")?;
            let lines = answer::lines(counts, Some(&share), units);
            let mut lines = lines.into_iter().chain(more);
            lines.try_for_each(|line| writeln!(out, "    {line}"))
        };
        for row in &self.asked {
            match row {
                AskedRow::Flow {
                    ends,
                    names,
                    info,
                    counts,
                    back,
                    service,
                    services,
                    ..
                } => {
                    let on = service.iter().map(|service| format!(", {service}"));
                    let on: String = on.collect();
                    let of = services.as_deref().unwrap_or_default();
                    let of = services::lines(of, counts, units);
                    push(ends.show(names, info.each()) + &on, counts, of)?;
                    if let Some(back) = back {
                        let [src, dst] = info.each();
                        let ends = ends.reversed().show(&names.reversed(), [dst, src]);
                        push(ends + &on, back, Vec::new())?;
                    }
                }
                AskedRow::Node {
                    ip,
                    name,
                    info,
                    node,
                } => {
                    let NodeEstimate {
                        sent,
                        received,
                        fan_out,
                        fan_in,
                        services,
                    } = node;
                    let services = services.clone().unwrap_or_default();
                    let node = info.show(*ip, name.as_deref());
                    let to = answer::peers("to", fan_out, units);
                    let of = services::lines(&services.sent, sent, units);
                    push(
                        format!("{node} sent"),
                        sent,
                        to.into_iter().chain(of).collect(),
                    )?;
                    let from = answer::peers("from", fan_in, units);
                    let of = services::lines(&services.received, received, units);
                    let more = from.into_iter().chain(of).collect();
                    push(format!("{node} received"), received, more)?;
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
        // The start of the capture, whether its first packet is an IP packet or not.
        let start = self.span.start.or(first.start).unwrap_or(0.0);
        let numbers = ["window", "seconds", "packets", "bytes", "share"];
        let mut table = Columns::new(&[], &numbers);
        table.add_name("heaviest pair");
        for window in &self.windows {
            // Rounded to milliseconds, which removes the noise of floats.
            let millis = ((window.start.unwrap_or(start) - start) * 1000.0).round() / 1000.0;
            let seconds = (window.seconds * 1000.0).round() / 1000.0;
            let heaviest = window.top.first();
            let share = heaviest.map(|heavy| match style.by {
                By::Packets => share(heavy.value.packets, window.packets),
                By::Bytes => share(heavy.value.bytes, window.bytes),
            });
            let pair = heaviest.map(|heavy| heavy.key.ends().join(" → "));
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
