//! The report for people.

use std::io::{self, Write};

use super::verify::Verify;
use super::{CaptureReport, Heavy, Report, groups};
use crate::plain;

impl Report {
    /// Tables for people.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let readable = |capture: &&CaptureReport| capture.error.is_none() || capture.packets > 0;
        let mut none = true;
        for capture in self.captures.iter().filter(readable) {
            capture.write_table(out)?;
            none = false;
        }
        if none {
            return Ok(());
        }
        let (seconds, rate) = (self.elapsed_seconds, self.packets_per_second);
        writeln!(out, "{seconds:.2} s, {rate:.0} packets/s")
    }
}

impl CaptureReport {
    fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let interface = self
            .interface
            .iter()
            .map(|name| format!(", interface {name}"));
        let head = interface.fold(self.path.clone(), |path, name| path + &name);
        writeln!(out, "{}", plain::text(&head))?;
        writeln!(
            out,
            "  {} packets, {} bytes, {} edges",
            self.packets, self.bytes, self.edges
        )?;
        for (what, counts) in [("ignored", &self.ignored), ("dropped", &self.dropped)] {
            for (reason, count) in counts {
                writeln!(out, "  {what} {count}: {reason}")?;
            }
        }
        let kib = self.memory_bytes.div_ceil(1024);
        let (layers, expansions) = (self.layers, self.expansions);
        writeln!(
            out,
            "  sketch of {kib} KiB, layers: {layers}, added on the way: {expansions}"
        )?;
        if self.saturated {
            writeln!(
                out,
                "  the sketch is full: counts of light pairs may be too low"
            )?;
        }
        if let Some(verify) = &self.verify {
            verify.write(out)?;
        }
        self.write_top(out, "packets", &self.top, self.packets, |heavy| {
            heavy.packets
        })?;
        self.write_top(out, "bytes", &self.top_by_bytes, self.bytes, |heavy| {
            heavy.bytes_at_least
        })?;
        groups::write_protocols(out, &self.protocols)?;
        groups::write_groups(out, self.groups.as_deref().unwrap_or_default())?;
        self.write_windows(out)
    }

    fn write_top(
        &self,
        out: &mut impl Write,
        by: &str,
        top: &[Heavy],
        total: u64,
        value: fn(&Heavy) -> u64,
    ) -> io::Result<()> {
        if top.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\n  {:<40} {:<40} {by:>14} {:>7}",
            "source", "destination", "share"
        )?;
        for heavy in top {
            let share = share(value(heavy), total);
            let ([src, dst], value) = (heavy.ends(), value(heavy));
            // What was counted, where that may not be all.
            let value = match by == "bytes" && heavy.bytes.is_none() {
                true => format!("≥ {value}"),
                false => value.to_string(),
            };
            writeln!(out, "  {src:<40} {dst:<40} {value:>14} {share:>6.2}%")?;
        }
        writeln!(out)
    }

    fn write_windows(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(first) = self.windows.first() else {
            return Ok(());
        };
        writeln!(
            out,
            "  {:>10} {:>12} {:>15}  heaviest pair",
            "window", "packets", "bytes"
        )?;
        for window in &self.windows {
            let since = format!("+{}s", window.start - first.start);
            let (packets, bytes) = (window.packets, window.bytes);
            let heaviest = window.top.first().map_or_else(String::new, |heavy| {
                let share = share(heavy.packets, packets);
                let [src, dst] = heavy.ends();
                format!("{src} → {dst} ({share:.0}% of the packets)")
            });
            writeln!(out, "  {since:>10} {packets:>12} {bytes:>15}  {heaviest}")?;
        }
        writeln!(out)
    }
}

impl Heavy {
    /// Both addresses, with their names.
    fn ends(&self) -> [String; 2] {
        self.names.show(self.src, self.dst)
    }
}

impl Verify {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let show =
            |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.4}"));
        writeln!(
            out,
            "  beside exact counts of {} pairs: ARE {}, AAE {}; the 100 heaviest: recall {}, ARE {}; \
             bytes known of {}, wrong of {}",
            self.distinct,
            show(self.are),
            show(self.aae),
            show(self.top100_recall),
            show(self.top100_are),
            self.bytes_known,
            self.bytes_wrong
        )
    }
}

fn share(part: u64, total: u64) -> f64 {
    100.0 * part as f64 / total.max(1) as f64
}
