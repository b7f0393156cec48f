//! The figures of all methods, as tables and as JSON.

use std::io::{self, Write};
use std::ops::Range;

use crane_agent::report::intervals::Intervals;
use crane_agent::report::score::Score;
use crane_agent::text::columns::Columns;
use crane_agent::text::plain;
use serde::Serialize;

/// The figures of all methods on one stream.
#[derive(Debug, Serialize)]
pub struct Report {
    /// File name of the stream.
    pub stream: String,
    /// Number of arrivals.
    pub edges: usize,
    /// Number of distinct edges.
    pub distinct: usize,
    /// Memory for each method.
    pub memory_bytes: u64,
    /// Random seed.
    pub seed: u64,
    /// One row for each method.
    pub results: Vec<Figures>,
}

/// The figures of one method.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    /// Name of the method as on the command line.
    pub method: String,
    /// Bytes of the method's state.
    pub memory_bytes: usize,
    /// How far off its answers are.
    #[serde(flatten)]
    pub score: Score,
    /// Mean answer for pairs that never occurred.
    pub absent_mean: Option<f64>,
    /// Mean answer for edges that occurred once.
    pub once_mean: Option<f64>,
    /// How far the answers can be trusted, for methods with intervals.
    #[serde(flatten)]
    pub intervals: Intervals,
    /// Share of the intervals that hold the true count, among edges known by name.
    pub named_coverage90: Option<f64>,
    /// `are` of the flux of all nodes, in both directions, from a sketch that stores
    /// nodes only.
    pub node_are: Option<f64>,
    /// Top-100 recall of the flux of nodes, as sources and as destinations.
    pub node_recall: [Option<f64>; 2],
    /// The same as `node_are` from the sketch of edges: the sum over a node's known edges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_are_summed: Option<f64>,
    /// Share of the 100 nodes with most peers, in each direction, that are found by a
    /// sketch of peers.
    pub fan_recall: Option<f64>,
    /// Mean relative error of the number of peers of these nodes.
    pub fan_are: Option<f64>,
    /// Arrivals stored per second.
    pub store_per_second: Option<f64>,
    /// Edges queried per second.
    pub query_per_second: Option<f64>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A column of the table: its title, its value, and which values are best.
type Column = (&'static str, fn(&Figures) -> Option<f64>, Best);

#[derive(Clone, Copy, PartialEq)]
enum Best {
    Low,
    High,
    Neither,
}

/// Columns that are shown together within 80 characters: errors, heaviest edges,
/// intervals and nodes, memory and speed.
const BLOCKS: [Range<usize>; 4] = [0..7, 7..14, 14..20, 20..23];

const COLUMNS: [Column; 23] = [
    ("ARE", |f| f.score.are, Best::Low),
    ("AAE", |f| f.score.aae, Best::Low),
    ("ARE 1", |f| f.band("1"), Best::Low),
    ("2-9", |f| f.band("2-9"), Best::Low),
    ("10-99", |f| f.band("10-99"), Best::Low),
    ("100-999", |f| f.band("100-999"), Best::Low),
    ("1000+", |f| f.band("1000+"), Best::Low),
    ("largest", |f| f.score.largest_error, Best::Low),
    (
        "off > 25",
        |f| f.score.off_by_more_than_25.map(|count| count as f64),
        Best::Low,
    ),
    ("top recall", |f| f.score.top100_recall, Best::High),
    ("top ARE", |f| f.score.top100_are, Best::Low),
    ("rank", |f| f.score.rank_correlation_top1000, Best::High),
    ("spread", |f| f.score.estimate_cv, Best::Neither),
    ("absent", |f| f.absent_mean, Best::Low),
    ("coverage", |f| f.intervals.coverage90, Best::Neither),
    ("score", |f| f.intervals.interval_score, Best::Low),
    ("width", |f| f.intervals.median_width, Best::Neither),
    ("node ARE", |f| f.node_are, Best::Low),
    ("fan recall", |f| f.fan_recall, Best::High),
    ("fan ARE", |f| f.fan_are, Best::Low),
    (
        "KiB",
        |f| Some(f.memory_bytes as f64 / 1024.0),
        Best::Neither,
    ),
    (
        "M stores/s",
        |f| f.store_per_second.map(|rate| rate / 1e6),
        Best::Neither,
    ),
    (
        "M queries/s",
        |f| f.query_per_second.map(|rate| rate / 1e6),
        Best::Neither,
    ),
];

impl Figures {
    fn band(&self, name: &str) -> Option<f64> {
        self.score.bands.get(name).copied().flatten()
    }
}

impl Report {
    /// Writes the report as one JSON object.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes the tables. The best value of each column is marked with a star; the exact
    /// map is not considered, because its memory is not limited.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let (edges, distinct, bytes) = (self.edges, self.distinct, self.memory_bytes);
        writeln!(
            out,
            "{}: {edges} arrivals of {distinct} edges, {bytes} bytes for each method",
            plain::text(&self.stream)
        )?;
        let failed = self.results.iter();
        for (method, error) in failed.filter_map(|one| Some((&one.method, one.error.as_ref()?))) {
            writeln!(out, "  {method}: {error}")?;
        }
        for block in BLOCKS {
            self.write_block(out, COLUMNS.get(block).unwrap_or_default())?;
        }
        writeln!(out, "\n* best of the methods within the budget")
    }

    /// Writes some of the columns, without those that are empty for all methods.
    fn write_block(&self, out: &mut impl Write, columns: &[Column]) -> io::Result<()> {
        let measured = self.results.iter().filter(|one| one.error.is_none());
        let measured: Vec<&Figures> = measured.collect();
        let known = |(_, value, _): &&Column| measured.iter().any(|one| value(one).is_some());
        let columns: Vec<&Column> = columns.iter().filter(known).collect();
        if columns.is_empty() {
            return Ok(());
        }
        let heads: Vec<&str> = columns.iter().map(|(head, ..)| *head).collect();
        let mut table = Columns::new(&["method"], &heads);
        for figures in measured {
            let mut row = vec![figures.method.clone()];
            row.extend(columns.iter().map(|(_, value, best)| {
                let text = value(figures).map_or("–".to_owned(), short);
                match self.is_best(figures, *value, *best) {
                    true => text + "*",
                    // Aligns the digits of values with and without a star.
                    false => text + " ",
                }
            }));
            table.push(row);
        }
        writeln!(out)?;
        table.write(out)
    }

    fn is_best(&self, figures: &Figures, value: fn(&Figures) -> Option<f64>, best: Best) -> bool {
        let Some(own) =
            value(figures).filter(|_| best != Best::Neither && figures.method != "exact")
        else {
            return false;
        };
        let others = self
            .results
            .iter()
            .filter(|other| other.method != "exact" && other.error.is_none());
        let mut others = others.filter_map(value);
        others.all(|other| {
            if best == Best::Low {
                own <= other
            } else {
                own >= other
            }
        })
    }
}

/// Formats a value with three or four significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
