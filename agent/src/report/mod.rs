//! What a replay says at its end: as JSON here, for people in [`table`].

mod groups;
mod table;
mod verify;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crane_model::Flow;
use serde::Serialize;

use crate::edge::Pair;
use crate::names::{Names, PairNames};
use crate::sketch::past::PastWindow;
use crate::sketch::summary::Summary;
use groups::{GroupRow, Protocols};
use verify::Verify;

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
    protocols: Protocols,
    /// None where networks have no names.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupRow>>,
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
    src: IpAddr,
    dst: IpAddr,
    #[serde(flatten)]
    names: PairNames,
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
            protocols: Protocols::new(),
            groups: None,
            windows: Vec::new(),
            verify: None,
            error: Some(error),
        }
    }

    /// The report on an interface of a file, or on a file that has only one.
    pub fn new(
        path: String,
        interface: Option<String>,
        summary: &Summary,
        error: Option<String>,
    ) -> Self {
        let tally = &summary.tally;
        let (names, groups) = (summary.names.as_deref(), summary.groups.as_deref());
        let heavy =
            |flows: &[Flow<Pair>]| flows.iter().map(|flow| Heavy::new(flow, names)).collect();
        let window = |window: &PastWindow| WindowReport::new(window, names);
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
            protocols: groups::protocols(tally),
            groups: groups.map(|groups| groups.iter().map(GroupRow::from).collect()),
            windows: summary.windows.iter().map(window).collect(),
            verify: summary.compared.as_deref().map(Verify::new),
            error,
        }
    }
}

impl WindowReport {
    fn new(window: &PastWindow, names: Option<&Names>) -> Self {
        let heavy = |flow: &Flow<Pair>| Heavy::new(flow, names);
        Self {
            start: window.start as f64 / 1e9,
            end: window.end as f64 / 1e9,
            packets: window.packets,
            bytes: window.bytes,
            top: window.top.iter().map(heavy).collect(),
        }
    }
}

impl Heavy {
    fn new(flow: &Flow<Pair>, names: Option<&Names>) -> Self {
        let (src, dst) = (flow.key.src(), flow.key.dst());
        Self {
            src,
            dst,
            names: PairNames::of(names, src, dst),
            packets: flow.packets,
            low: flow.low,
            high: flow.high,
            bytes: flow.bytes,
            bytes_at_least: flow.bytes_at_least,
        }
    }
}
