//! Measuring one method on a stream.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use crane_agent::report::intervals::Intervals;
use crane_agent::report::score::{Score, mean};
use crane_model::{Amount, Edge, Weighted};
use indicatif::{ProgressBar, ProgressStyle};

use super::fan;
use super::methods::{self, CraneOptions, Method};
use super::report::Figures;
use super::state;
use super::truth::Truth;
use crate::rivals::{NodeRole, Rival};

/// The parameters of a measurement.
pub struct Setup<'a> {
    /// Memory for each method.
    pub bytes: usize,
    /// Random seed.
    pub seed: u64,
    /// Options of Crane.
    pub crane: &'a CraneOptions,
    /// File to save the state to.
    pub save_state: Option<&'a Path>,
    /// File to load the state from, instead of storing the stream.
    pub load_state: Option<&'a Path>,
}

/// A method after it has stored the stream.
struct Stored {
    method: Box<dyn Rival>,
    variant: usize,
    answers: Vec<f64>,
    score: Score,
    storing: Duration,
    asking: Duration,
}

/// The figures of a method, or the reason why it cannot be made for this memory.
pub fn measure(which: Method, setup: &Setup<'_>, truth: &Truth) -> anyhow::Result<Figures> {
    let Setup {
        bytes, seed, crane, ..
    } = *setup;
    let name = which.name();
    let mut variants = match methods::make(which, bytes, seed, crane) {
        Ok(variants) => variants,
        Err(error) => {
            return Ok(Figures {
                method: name.into(),
                error: Some(error.to_string()),
                ..Figures::default()
            });
        }
    };
    let bar = bar(name, truth.arrivals.len() * variants.len());
    let best = match setup.load_state {
        Some(path) => {
            let (variant, state) = state::read(path, name)?;
            if variant >= variants.len() {
                bail!("{}: not a state of {name}", path.display());
            }
            let mut method = variants.swap_remove(variant);
            method
                .load(&state)
                .with_context(|| path.display().to_string())?;
            ask(method, variant, Duration::ZERO, truth)?
        }
        None => {
            let mut stored = Vec::with_capacity(variants.len());
            for (variant, mut method) in variants.into_iter().enumerate() {
                let start = Instant::now();
                for chunk in truth.arrivals.chunks(1 << 16) {
                    method.store(chunk)?;
                    bar.inc(chunk.len() as u64);
                }
                stored.push(ask(method, variant, start.elapsed(), truth)?);
            }
            let are = |stored: &Stored| stored.score.are.unwrap_or(f64::INFINITY);
            let best = stored.into_iter().min_by(|a, b| are(a).total_cmp(&are(b)));
            best.context("a method without variants")?
        }
    };
    bar.finish_and_clear();
    if let Some(path) = setup.save_state {
        state::write(path, name, best.variant, best.method.as_ref())?;
    }
    let per_second =
        |count: usize, time: Duration| (!time.is_zero()).then(|| count as f64 / time.as_secs_f64());
    let absent = best.method.query(&truth.absent)?;
    let mut figures = Figures {
        method: name.into(),
        memory_bytes: best.method.memory_bytes(),
        absent_mean: mean(absent.into_iter()),
        once_mean: once_mean(&best.answers, &truth.counts),
        store_per_second: per_second(truth.arrivals.len(), best.storing),
        query_per_second: per_second(truth.edges.len(), best.asking),
        ..Figures::default()
    };
    if which == Method::CranePaper {
        let mut sums = vec![0.0; truth.nodes.len()];
        for (answer, ends) in best.answers.iter().zip(&truth.ends) {
            ends.iter().for_each(|end| sums[*end] += answer);
        }
        figures.node_are_summed = node_are(sums, truth);
    }
    if setup.load_state.is_none() {
        let answers = flux(which, setup, &best, truth)?;
        figures.node_recall = [NodeRole::Source, NodeRole::Destination]
            .map(|direction| node_recall(&answers, direction, truth));
        figures.node_are = node_are(answers, truth);
        let fan = fan::measure(which, setup, truth);
        (figures.fan_recall, figures.fan_are) = (fan.recall, fan.are);
    }
    if let Some(amounts) = best.method.amounts(&truth.edges)? {
        figures.intervals = Intervals::of(&amounts, &truth.counts);
        figures.named_coverage90 = best.method.named().and_then(|named| {
            let counts = truth.counts_of(named.iter().map(|(edge, _)| *edge));
            let amounts: Vec<Amount> = named.into_iter().map(|(_, amount)| amount).collect();
            Intervals::of(&amounts, &counts).coverage90
        });
        violations_of_absent(&mut figures.intervals, best.method.amounts(&truth.absent)?);
    }
    figures.score = best.score;
    Ok(figures)
}

/// Counts violations for pairs that never occurred: their guaranteed lower bound must be 0.
fn violations_of_absent(intervals: &mut Intervals, absent: Option<Vec<Amount>>) {
    let amounts = absent.unwrap_or_default();
    let never = Intervals::of(&amounts, &vec![0; amounts.len()]);
    if let (Some(below), Some(more)) = (&mut intervals.below_at_least, never.below_at_least) {
        *below += more;
    }
}

fn ask(
    method: Box<dyn Rival>,
    variant: usize,
    storing: Duration,
    truth: &Truth,
) -> anyhow::Result<Stored> {
    let start = Instant::now();
    let answers = method.query(&truth.edges)?;
    let asking = start.elapsed();
    let score = Score::of(&answers, &truth.counts);
    Ok(Stored {
        method,
        variant,
        answers,
        score,
        storing,
        asking,
    })
}

/// The flux of all nodes: the method's own answer, or that of another sketch of the same
/// size that stores nodes instead of edges.
fn flux(
    which: Method,
    setup: &Setup<'_>,
    best: &Stored,
    truth: &Truth,
) -> anyhow::Result<Vec<f64>> {
    let own = truth
        .nodes
        .iter()
        .map(|(node, direction, _)| best.method.flux(*node, *direction));
    if let Some(answers) = own.collect::<Option<Vec<f64>>>() {
        return Ok(answers);
    }
    let mut method =
        methods::make(which, setup.bytes, setup.seed, setup.crane)?.swap_remove(best.variant);
    for chunk in truth.arrivals.chunks(1 << 16) {
        let ends = chunk.iter().flat_map(|Weighted { edge, weight }| {
            let both = [
                node_edge(edge.src, NodeRole::Source),
                node_edge(edge.dst, NodeRole::Destination),
            ];
            both.map(|end| Weighted::new(end, *weight))
        });
        method.store(&ends.collect::<Vec<_>>())?;
    }
    let nodes: Vec<Edge> = truth
        .nodes
        .iter()
        .map(|(node, direction, _)| node_edge(*node, *direction))
        .collect();
    Ok(method.query(&nodes)?)
}

/// An edge that represents a node. Its other end is derived from the node, because a
/// fixed one would put all nodes into one column.
fn node_edge(node: u32, direction: NodeRole) -> Edge {
    let other = node.wrapping_mul(0x9e37_79b1).rotate_left(15);
    Edge::new(
        node,
        if direction == NodeRole::Source {
            other
        } else {
            !other
        },
    )
}

/// Mean answer for edges that occurred once.
fn once_mean(answers: &[f64], counts: &[u64]) -> Option<f64> {
    let all = answers.iter().zip(counts);
    mean(
        all.filter(|(_, count)| **count == 1)
            .map(|(answer, _)| *answer),
    )
}

fn node_recall(answers: &[f64], direction: NodeRole, truth: &Truth) -> Option<f64> {
    let nodes = truth.nodes.iter().zip(answers);
    let mine = nodes.filter(|((_, way, _), _)| *way == direction);
    let (answers, counts): (Vec<f64>, Vec<u64>) = mine
        .map(|((_, _, count), answer)| (*answer, *count))
        .unzip();
    Score::of(&answers, &counts).top100_recall
}

fn node_are(answers: Vec<f64>, truth: &Truth) -> Option<f64> {
    let answers = answers.into_iter().zip(&truth.nodes);
    mean(
        answers
            .map(|(answer, (_, _, flux))| (answer - *flux as f64).abs() / (*flux as f64).max(1.0)),
    )
}

fn bar(name: &str, arrivals: usize) -> ProgressBar {
    let bar = ProgressBar::new(arrivals as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg:12} {bar:40} {per_sec} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(name.to_owned());
    bar
}
