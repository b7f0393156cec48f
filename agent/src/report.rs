//! What a replay says at its end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crane_model::Flow;
use serde::Serialize;

use crate::edge::Pair;
use crate::snapshot::{InterfaceView, Snapshot};
use crate::tally::Ignored;

/// The report on all files.
#[derive(Debug, Serialize)]
pub struct Report {
    captures: Vec<CaptureReport>,
    elapsed_seconds: f64,
    packets_per_second: f64,
}

#[derive(Debug, Serialize)]
struct CaptureReport {
    path: String,
    interface: Option<String>,
    packets: u64,
    bytes: u64,
    edges: u64,
    ignored: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
    layers: usize,
    expansions: usize,
    memory_bytes: usize,
    top: Vec<Heavy>,
    #[serde(skip)]
    top_by_bytes: Vec<Heavy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct Heavy {
    src: String,
    dst: String,
    packets: u64,
    bytes: u64,
    low: u64,
    high: u64,
}

impl Report {
    /// The report on `snapshot`, with what went wrong for each file.
    pub fn new(snapshot: &Snapshot, errors: &[Option<String>], elapsed: Duration) -> Self {
        let views = snapshot.interfaces.iter().zip(errors);
        let captures: Vec<_> = views
            .map(|(view, error)| CaptureReport::new(view, error))
            .collect();
        let packets: u64 = captures.iter().map(|capture| capture.packets).sum();
        let seconds = elapsed.as_secs_f64();
        Self {
            captures,
            elapsed_seconds: seconds,
            packets_per_second: packets as f64 / seconds.max(1e-9),
        }
    }

    /// One JSON object.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Tables for people.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let readable = self
            .captures
            .iter()
            .filter(|c| c.error.is_none() || c.packets > 0);
        let mut none = true;
        for capture in readable {
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
    fn new(view: &InterfaceView, error: &Option<String>) -> Self {
        let tally = &view.tally;
        let ignored = Ignored::ALL
            .iter()
            .map(|reason| (reason.name(), tally.ignored(*reason)));
        Self {
            path: view.name.clone(),
            interface: None,
            packets: tally.packets.load(Relaxed),
            bytes: tally.bytes.load(Relaxed),
            edges: tally.edges.load(Relaxed),
            ignored: ignored.filter(|(_, count)| *count > 0).collect(),
            dropped: tally
                .dropped()
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect(),
            layers: view.loads.len(),
            expansions: view.expansions,
            memory_bytes: view.memory_bytes,
            top: view.by_packets.iter().map(Heavy::new).collect(),
            top_by_bytes: view.by_bytes.iter().map(Heavy::new).collect(),
            error: error.clone(),
        }
    }

    fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", self.path)?;
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
        writeln!(out, "  sketch of {kib} KiB, layers: {}", self.layers)?;
        self.write_top(out, "packets", &self.top, self.packets, |heavy| {
            heavy.packets
        })?;
        self.write_top(out, "bytes", &self.top_by_bytes, self.bytes, |heavy| {
            heavy.bytes
        })
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
            let share = 100.0 * value(heavy) as f64 / total.max(1) as f64;
            let (src, dst, value) = (&heavy.src, &heavy.dst, value(heavy));
            writeln!(out, "  {src:<40} {dst:<40} {value:>14} {share:>6.2}%")?;
        }
        writeln!(out)
    }
}

impl Heavy {
    fn new(flow: &Flow<Pair>) -> Self {
        Self {
            src: flow.key.src().to_string(),
            dst: flow.key.dst().to_string(),
            packets: flow.packets,
            bytes: flow.bytes,
            low: flow.low,
            high: flow.high,
        }
    }
}
