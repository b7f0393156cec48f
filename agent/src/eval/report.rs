//! The figures of all methods, for people and programs.

use std::io::{self, Write};

use serde::Serialize;

use super::intervals::Intervals;
use super::score::Score;
use crate::plain;

/// All methods on one stream.
#[derive(Debug, Serialize)]
pub struct Report {
    pub stream: String,
    pub edges: usize,
    pub distinct: usize,
    pub memory_bytes: u64,
    pub seed: u64,
    pub results: Vec<Figures>,
}

/// One method.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    pub method: String,
    pub memory_bytes: usize,
    #[serde(flatten)]
    pub score: Score,
    /// Mean answer to pairs that never occurred.
    pub absent_mean: Option<f64>,
    /// Mean answer to edges that occurred once.
    pub once_mean: Option<f64>,
    /// How far the answers can be trusted, for methods that say so.
    #[serde(flatten)]
    pub intervals: Intervals,
    /// Share of the intervals that hold the truth, of edges known by name.
    pub named_coverage90: Option<f64>,
    /// `are` of the flux of all nodes, in both directions, from a sketch of
    /// nodes alone.
    pub node_are: Option<f64>,
    /// Top-100 recall of the flux of nodes, as sources and as destinations.
    pub node_recall: [Option<f64>; 2],
    /// The same as `node_are` from the sketch of edges: the sum over a node's known edges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_are_summed: Option<f64>,
    /// Share of the 100 nodes with most peers in each direction that are found
    /// by a structure for that alone.
    pub fan_recall: Option<f64>,
    /// Mean relative error of their numbers of peers.
    pub fan_are: Option<f64>,
    pub store_per_second: Option<f64>,
    pub query_per_second: Option<f64>,
    /// Why there are no figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A column of the table: its head, its value, and which values are best.
type Column = (&'static str, fn(&Figures) -> Option<f64>, Best);

#[derive(Clone, Copy, PartialEq)]
enum Best {
    Low,
    High,
    Neither,
}

const COLUMNS: [Column; 21] = [
    ("ARE", |f| f.score.are, Best::Low),
    ("AAE", |f| f.score.aae, Best::Low),
    ("ARE 1", |f| f.band("1"), Best::Low),
    ("2-9", |f| f.band("2-9"), Best::Low),
    ("10-99", |f| f.band("10-99"), Best::Low),
    ("100-999", |f| f.band("100-999"), Best::Low),
    ("1000+", |f| f.band("1000+"), Best::Low),
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
    /// One JSON object.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// A table; the best value of each column has a star. The exact map, which
    /// takes what memory it needs, is left out of that.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let (edges, distinct, bytes) = (self.edges, self.distinct, self.memory_bytes);
        writeln!(
            out,
            "{}: {edges} arrivals of {distinct} edges, {bytes} bytes for each method\n",
            plain::text(&self.stream)
        )?;
        write!(out, "{:<12}", "")?;
        for (head, _, _) in COLUMNS {
            write!(out, " {head:>11}")?;
        }
        writeln!(out)?;
        for figures in &self.results {
            write!(out, "{:<12}", figures.method)?;
            if let Some(error) = &figures.error {
                writeln!(out, " {error}")?;
                continue;
            }
            for (_, value, best) in COLUMNS {
                let text = value(figures).map_or("–".to_owned(), short);
                let star = if self.is_best(figures, value, best) {
                    "*"
                } else {
                    ""
                };
                write!(out, " {:>11}", format!("{text}{star}"))?;
            }
            writeln!(out)?;
        }
        writeln!(out, "\n* best of the methods within the budget")
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

/// Three or four significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
