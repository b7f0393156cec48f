//! What a replay says at its end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crane_model::Flow;
use serde::Serialize;

use crate::edge::Pair;
use crate::eval::score::Score;
use crate::export::hitters::Hitters;
use crate::plain;
use crate::sketch::interface::{Exact, Interface, PastWindow};
use crate::sketch::sketches::Sketches;
use crate::tally::Tally;

/// What is known of an interface when it has ended.
pub struct Summary {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: std::sync::Arc<Tally>,
    layers: usize,
    expansions: usize,
    memory_bytes: usize,
    saturated: bool,
    top: Hitters<Pair>,
    windows: Vec<PastWindow>,
    verify: Option<Verify>,
}

/// The sketch beside the exact answer.
#[derive(Debug, Clone, Serialize)]
struct Verify {
    distinct: usize,
    are: Option<f64>,
    aae: Option<f64>,
    top100_recall: Option<f64>,
    top100_are: Option<f64>,
    /// Pairs whose bytes are told.
    bytes_known: usize,
    /// Those of them that are not right, and lower ends that are too high.
    bytes_wrong: usize,
}

impl Summary {
    /// The summary of `interface` with its `top` heaviest pairs.
    pub fn of(interface: &mut Interface, top: usize) -> crane_model::Result<Self> {
        let sketches = &interface
            .whole
            .as_ref()
            .unwrap_or(&interface.current)
            .sketches;
        let verify = interface
            .exact
            .as_ref()
            .map(|exact| Verify::new(exact, sketches));
        Ok(Self {
            name: interface.name.clone(),
            tally: std::sync::Arc::clone(&interface.tally),
            layers: sketches.pairs.loads()?.len(),
            expansions: sketches.pairs.expansions(),
            memory_bytes: interface.memory_bytes(),
            saturated: sketches.is_saturated()?,
            top: Hitters::of(sketches.named_pairs(), top),
            verify: verify.transpose()?,
            windows: std::mem::take(&mut interface.history),
        })
    }
}

impl Verify {
    fn new(exact: &Exact, sketches: &Sketches) -> crane_model::Result<Self> {
        // In the order of addresses: sums come out the same every time.
        let mut exact: Vec<(Pair, (u64, u64))> =
            exact.iter().map(|(pair, count)| (*pair, *count)).collect();
        exact.sort_unstable();
        let flows = exact.iter().map(|(pair, _)| sketches.pair(*pair));
        let flows: Vec<Flow<Pair>> = flows.collect::<crane_model::Result<_>>()?;
        let estimates: Vec<f64> = flows.iter().map(|flow| flow.packets as f64).collect();
        let truth: Vec<u64> = exact.iter().map(|(_, (packets, _))| *packets).collect();
        let score = Score::of(&estimates, &truth);
        let is_wrong = |(flow, (_, (_, bytes))): &(&Flow<Pair>, &(Pair, (u64, u64)))| {
            flow.bytes.is_some_and(|told| told != *bytes) || flow.bytes_at_least > *bytes
        };
        Ok(Self {
            bytes_known: flows.iter().filter(|flow| flow.bytes.is_some()).count(),
            bytes_wrong: flows.iter().zip(&exact).filter(is_wrong).count(),
            distinct: exact.len(),
            are: score.are,
            aae: score.aae,
            top100_recall: score.top100_recall,
            top100_are: score.top100_are,
        })
    }
}

/// The report on all files.
#[derive(Debug, Serialize)]
pub struct Report {
    captures: Vec<CaptureReport>,
    elapsed_seconds: f64,
    packets_per_second: f64,
}

/// The report on one file, or one interface of a file.
#[derive(Debug, Serialize)]
pub struct CaptureReport {
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
    #[serde(skip)]
    saturated: bool,
    top: Vec<Heavy>,
    #[serde(skip)]
    top_by_bytes: Vec<Heavy>,
    windows: Vec<WindowReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Verify>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct WindowReport {
    start: f64,
    end: f64,
    packets: u64,
    bytes: u64,
    top: Vec<Heavy>,
}

#[derive(Debug, Serialize)]
struct Heavy {
    src: String,
    dst: String,
    packets: u64,
    low: u64,
    high: u64,
    /// None where not all of them were counted.
    bytes: Option<u64>,
    bytes_at_least: u64,
}

impl Report {
    /// The report on `captures`, which took so long.
    pub fn new(captures: Vec<CaptureReport>, elapsed: Duration) -> Self {
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
    /// A file that could not be read at all.
    pub fn unreadable(path: String, error: String) -> Self {
        Self {
            path,
            interface: None,
            packets: 0,
            bytes: 0,
            edges: 0,
            ignored: BTreeMap::new(),
            dropped: BTreeMap::new(),
            layers: 0,
            expansions: 0,
            memory_bytes: 0,
            saturated: false,
            top: Vec::new(),
            top_by_bytes: Vec::new(),
            windows: Vec::new(),
            verify: None,
            error: Some(error),
        }
    }

    /// The report on an interface.
    pub fn new(
        path: String,
        interface: Option<String>,
        summary: &Summary,
        error: Option<String>,
    ) -> Self {
        let tally = &summary.tally;
        let heavy = |flows: &[Flow<Pair>]| flows.iter().map(Heavy::new).collect();
        let counted = |(_, count): &(&str, u64)| *count > 0;
        Self {
            path,
            interface,
            packets: tally.packets.load(Relaxed),
            bytes: tally.bytes.load(Relaxed),
            edges: tally.edges.load(Relaxed),
            ignored: tally.ignored_by_reason().filter(counted).collect(),
            dropped: tally.dropped().into_iter().filter(counted).collect(),
            layers: summary.layers,
            expansions: summary.expansions,
            memory_bytes: summary.memory_bytes,
            saturated: summary.saturated,
            top: heavy(&summary.top.by_packets),
            top_by_bytes: heavy(&summary.top.by_bytes),
            windows: summary.windows.iter().map(WindowReport::new).collect(),
            verify: summary.verify.clone(),
            error,
        }
    }

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
            let (src, dst, value) = (&heavy.src, &heavy.dst, value(heavy));
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
                format!("{} → {} ({share:.0}% of the packets)", heavy.src, heavy.dst)
            });
            writeln!(out, "  {since:>10} {packets:>12} {bytes:>15}  {heaviest}")?;
        }
        writeln!(out)
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

impl WindowReport {
    fn new(window: &PastWindow) -> Self {
        Self {
            start: window.start as f64 / 1e9,
            end: window.end as f64 / 1e9,
            packets: window.packets,
            bytes: window.bytes,
            top: window.top.iter().map(Heavy::new).collect(),
        }
    }
}

impl Heavy {
    fn new(flow: &Flow<Pair>) -> Self {
        Self {
            src: flow.key.src().to_string(),
            dst: flow.key.dst().to_string(),
            packets: flow.packets,
            low: flow.low,
            high: flow.high,
            bytes: flow.bytes,
            bytes_at_least: flow.bytes_at_least,
        }
    }
}

fn share(part: u64, total: u64) -> f64 {
    100.0 * part as f64 / total.max(1) as f64
}
