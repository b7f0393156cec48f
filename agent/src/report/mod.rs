//! What a replay says at its end: as JSON here, for people in [`table`].

pub mod answer;
pub mod fans;
mod groups;
pub mod page;
mod rows;
mod table;
mod total;
mod verify;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde::Serialize;

use crate::names::Names;
use crate::sketch::fan_rows::FanRows;
use crate::sketch::inside::SketchStates;
use crate::sketch::past::PastWindow;
use crate::sketch::summary::Summary;
use crate::sketch::window::Bounds;
use groups::{GroupRow, Protocols};
use rows::{AskedRow, ConversationRow, NodeRow, PairRow, ServiceRow, rows};
use total::Total;
use verify::Verify;

pub use table::Style;

/// The report on all files.
#[derive(Debug, Serialize)]
pub struct Report {
    captures: Vec<CaptureReport>,
    total: Total,
    /// Files in folders that are no captures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped>,
    elapsed_seconds: f64,
    packets_per_second: f64,
}

/// A file that is no capture.
#[derive(Debug, Serialize)]
struct Skipped {
    path: String,
    error: String,
}

impl Skipped {
    fn new((path, error): &(PathBuf, String)) -> Self {
        Self {
            path: path.display().to_string(),
            error: error.clone(),
        }
    }
}

/// The report on one file, or one interface of a file.
#[derive(Debug, Default, Serialize)]
pub struct CaptureReport {
    path: String,
    interface: Option<String>,
    /// The files that were merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    #[serde(flatten)]
    span: Span,
    packets: u64,
    bytes: u64,
    edges: u64,
    /// None where no time has passed.
    packets_per_second: Option<f64>,
    bits_per_second: Option<f64>,
    /// Of the packets that were stored: what shares refer to.
    #[serde(skip)]
    stored: (u64, u64),
    ignored: BTreeMap<&'static str, u64>,
    dropped: BTreeMap<&'static str, u64>,
    layers: usize,
    expansions: usize,
    memory_bytes: usize,
    #[serde(skip)]
    saturated: bool,
    /// Whether every pair was counted exactly.
    exact: bool,
    /// How many there are, estimated unless exact.
    pairs: Option<u64>,
    /// `top` has every pair with more packets than this.
    complete_above: u64,
    /// `top_bytes` has every pair with more bytes than this.
    complete_above_bytes: u64,
    top: Vec<PairRow>,
    top_bytes: Vec<PairRow>,
    sources: Vec<NodeRow>,
    sources_bytes: Vec<NodeRow>,
    destinations: Vec<NodeRow>,
    destinations_bytes: Vec<NodeRow>,
    services: Vec<ServiceRow>,
    services_bytes: Vec<ServiceRow>,
    #[serde(flatten)]
    fans: FanRows,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conversations: Vec<ConversationRow>,
    protocols: Protocols,
    /// None where networks have no names.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<GroupRow>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asked: Vec<AskedRow>,
    windows: Vec<WindowReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sketch: Option<SketchStates>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Verify>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// From when to when packets are, in seconds since 1970; none if there are no
/// packets.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Span {
    /// The same in nanoseconds.
    #[serde(skip)]
    ends: Option<Bounds>,
    start: Option<f64>,
    end: Option<f64>,
    seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct WindowReport {
    start: f64,
    end: f64,
    seconds: f64,
    packets: u64,
    bytes: u64,
    top: Vec<PairRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    asked: Vec<AskedRow>,
}

impl Report {
    /// The report on `captures`, which took so long; what else there was is
    /// `skipped`, for a reason.
    pub fn new(
        captures: Vec<CaptureReport>,
        skipped: &[(PathBuf, String)],
        elapsed: Duration,
    ) -> Self {
        let packets: u64 = captures.iter().map(|capture| capture.packets).sum();
        let seconds = elapsed.as_secs_f64();
        Self {
            total: Total::of(&captures),
            skipped: skipped.iter().map(Skipped::new).collect(),
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
            error: Some(error),
            ..Self::default()
        }
    }

    /// The same as that of these files together.
    pub fn of_files(self, files: Vec<String>) -> Self {
        Self { files, ..self }
    }

    /// The report on an interface of a file, or on a file that has only one.
    /// Its packets lie between `ends`.
    pub fn new(
        path: String,
        interface: Option<String>,
        ends: Option<Bounds>,
        summary: &Summary,
        error: Option<String>,
    ) -> Self {
        let tally = &summary.tally;
        let (names, groups) = (summary.names.as_deref(), summary.groups.as_deref());
        let mains = &summary.main_services;
        let conversations = summary.conversations.iter();
        let conversations = conversations.map(|one| ConversationRow::new(one, names));
        let windows = summary.windows.iter();
        let windows = windows.map(|window| WindowReport::new(window, names));
        let counted = |(_, count): &(&str, u64)| *count > 0;
        let span = Span::of(ends);
        let (packets, bytes) = (tally.packets.load(Relaxed), tally.bytes.load(Relaxed));
        Self {
            path,
            interface,
            files: Vec::new(),
            packets,
            bytes,
            edges: tally.edges.load(Relaxed),
            packets_per_second: span.rate(packets),
            bits_per_second: span.rate(bytes).map(|bytes| 8.0 * bytes),
            span,
            ignored: tally.ignored_by_reason().filter(counted).collect(),
            dropped: tally.dropped().into_iter().filter(counted).collect(),
            layers: summary.layers,
            expansions: summary.expansions,
            memory_bytes: summary.memory_bytes,
            saturated: summary.saturated,
            stored: (summary.stored_packets, summary.stored_bytes),
            exact: summary.exact,
            pairs: summary.pairs,
            complete_above: summary.most_unlisted.packets,
            complete_above_bytes: summary.most_unlisted.bytes,
            top: PairRow::with_services(&summary.top.by_packets, mains, names),
            top_bytes: PairRow::with_services(&summary.top.by_bytes, mains, names),
            sources: rows(&summary.sources.by_packets, names),
            sources_bytes: rows(&summary.sources.by_bytes, names),
            destinations: rows(&summary.destinations.by_packets, names),
            destinations_bytes: rows(&summary.destinations.by_bytes, names),
            services: rows(&summary.services.by_packets, names),
            services_bytes: rows(&summary.services.by_bytes, names),
            fans: FanRows::new(&summary.fans, names),
            conversations: conversations.collect(),
            protocols: groups::protocols(tally),
            groups: groups.map(|groups| groups.iter().map(GroupRow::from).collect()),
            asked: AskedRow::rows(&summary.asked, names),
            windows: windows.collect(),
            sketch: None,
            verify: summary.compared.as_deref().map(Verify::new),
            error,
        }
    }
}

impl CaptureReport {
    /// Whether anything of it could be read.
    fn is_readable(&self) -> bool {
        self.error.is_none() || self.packets > 0
    }
}

impl Span {
    fn of(ends: Option<Bounds>) -> Self {
        Self {
            ends,
            start: ends.map(|ends| seconds(ends.start)),
            end: ends.map(|ends| seconds(ends.end)),
            seconds: ends.map(|ends| seconds(ends.end - ends.start)),
        }
    }

    /// So many a second.
    fn rate(&self, count: u64) -> Option<f64> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0)?;
        Some(count as f64 / seconds)
    }
}

impl WindowReport {
    fn new(window: &PastWindow, names: Option<&Names>) -> Self {
        Self {
            start: seconds(window.start),
            end: seconds(window.end),
            packets: window.packets,
            bytes: window.bytes,
            seconds: seconds(window.end.saturating_sub(window.start)),
            top: rows(&window.top, names),
            asked: AskedRow::rows(&window.asked, names),
        }
    }
}

/// Whole seconds first: as one number, nanoseconds since 1970 are too long for a
/// float.
fn seconds(nanoseconds: u64) -> f64 {
    let second = 1_000_000_000;
    (nanoseconds / second) as f64 + (nanoseconds % second) as f64 / 1e9
}
