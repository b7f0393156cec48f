//! The report at the end of a replay: as JSON here, as text in [`table`].

pub mod answer;
mod asked;
mod groups;
pub mod intervals;
pub mod lines;
pub mod lists;
pub mod page;
pub mod score;
pub mod services;
mod table;
mod total;
mod verify;
pub mod windows;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde::Serialize;

use crate::sketches::details::SketchStates;
use crate::traffic::question::{By, Question};
use crate::window::lists::BothOrders;
use crate::window::windows::Ended;
use crate::window::{Bounds, Window};
use asked::AskedRow;
use groups::{GroupRow, Protocols};
use total::Total;
use verify::Verify;
use windows::WindowReport;

pub use table::Style;

#[derive(Debug, Clone, Default)]
pub struct ReportOptions {
    /// Rows of a list.
    pub top: usize,
    /// Order of the lists of windows and of conversations, and of the services of answers.
    pub by: By,
    /// Questions about pairs, networks, services and addresses.
    pub ask: Vec<Question>,
    /// Whether the text report has conversations.
    pub both: bool,
}

/// How long a report waits for host names, if they are looked up.
const NAMES_TIMEOUT: Duration = Duration::from_secs(10);

impl ReportOptions {
    /// Asks for the host names of all addresses that a report on this window shows, and
    /// waits for them.
    pub fn wait_for_names(&self, window: &Window) {
        let sources = window.lookup.sources();
        if sources.resolves() {
            window.lists(self.top, None);
            AskedRow::rows(window, &self.ask, self.by);
            sources.wait(NAMES_TIMEOUT);
        }
    }
}

/// The report on all files.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    captures: Vec<CaptureReport>,
    total: Total,
    /// Files in folders that are not captures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped>,
    elapsed_seconds: f64,
    packets_per_second: f64,
}

#[derive(Debug, Clone, Serialize)]
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
#[derive(Debug, Clone, Default, Serialize)]
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
    /// `None` if no time has passed.
    packets_per_second: Option<f64>,
    bits_per_second: Option<f64>,
    /// Stored packets and bytes, which shares refer to.
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
    /// Number of pairs, an estimate unless exact.
    pairs: Option<u64>,
    #[serde(flatten)]
    lists: BothOrders,
    /// Whether the text report has conversations.
    #[serde(skip)]
    both: bool,
    protocols: Protocols,
    /// `None` if networks have no names.
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

/// Times of the first and the last packet, in seconds since 1970. `None` without packets.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Span {
    /// The same times in nanoseconds.
    #[serde(skip)]
    ends: Option<Bounds>,
    start: Option<f64>,
    end: Option<f64>,
    seconds: Option<f64>,
}

impl Report {
    /// The report on `captures`. Files that were `skipped` are listed with the reason.
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

    /// Writes one JSON object.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

impl CaptureReport {
    /// The report on a file that could not be read at all.
    pub fn unreadable(path: String, error: String) -> Self {
        Self {
            path,
            error: Some(error),
            ..Self::default()
        }
    }

    /// Sets the names of the files that were merged.
    pub fn of_files(self, files: Vec<String>) -> Self {
        Self { files, ..self }
    }

    /// The report on one interface of a file, whose packets lie between `times`.
    pub fn new(
        path: String,
        interface: Option<String>,
        times: Option<Bounds>,
        ended: &Ended,
        windows: Vec<WindowReport>,
        options: &ReportOptions,
    ) -> crane_model::Result<Self> {
        let (tally, window) = (&ended.tally, &ended.whole);
        let sketches = &window.sketches;
        let counted = |(_, count): &(&str, u64)| *count > 0;
        let span = Span::of(times);
        let (packets, bytes) = (tally.packets.load(Relaxed), tally.bytes.load(Relaxed));
        let groups = ended.figures.groups.as_deref();
        let compared = ended.exact.as_ref();
        let compared = compared.map(|exact| exact.compare(window)).transpose()?;
        Ok(Self {
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
            layers: sketches.pairs.loads()?.len(),
            expansions: sketches.pairs.expansions(),
            memory_bytes: ended.figures.memory_bytes,
            saturated: sketches.is_saturated()?,
            stored: (window.packets, window.bytes),
            exact: sketches.is_exact(),
            pairs: sketches.pairs.distinct(),
            lists: window.lists(options.top, None),
            both: options.both,
            protocols: groups::protocols(tally),
            groups: groups.map(|groups| groups.iter().map(GroupRow::from).collect()),
            asked: AskedRow::rows(window, &options.ask, options.by),
            windows,
            sketch: None,
            verify: compared.as_deref().map(Verify::new),
            error: None,
        })
    }

    /// Adds the error of a file that could not be read completely.
    pub fn with_error(self, error: Option<String>) -> Self {
        Self { error, ..self }
    }
}

impl CaptureReport {
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

    /// `count` per second. `None` if no time has passed.
    fn rate(&self, count: u64) -> Option<f64> {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0)?;
        Some(count as f64 / seconds)
    }
}

/// Converts nanoseconds to seconds. Whole seconds are converted separately, because nanoseconds
/// since 1970 exceed the precision of a float.
fn seconds(nanoseconds: u64) -> f64 {
    let second = 1_000_000_000;
    (nanoseconds / second) as f64 + (nanoseconds % second) as f64 / 1e9
}
