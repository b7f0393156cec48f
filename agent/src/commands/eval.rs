//! `crane-agent eval`: accuracy and speed of every method on one stream.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use crane_model::rivals::{Direction, Rival};
use crane_model::{Edge, Profile, Settings, Weighted, packed, paper};
use indicatif::{ProgressBar, ProgressStyle};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cli::{CodeKind, Eval, ReportFormat};
use crate::config::size::Size;
use crate::config::small_file;
use crate::eval::methods::{self, CraneOptions, Method};
use crate::eval::report::{Figures, Report};
use crate::eval::score::{Score, mean};
use crate::eval::stream;

/// The largest state: that of an exact map may be larger than any budget.
const MOST_STATE: Size = Size(16 << 30);

/// Measures all methods that were asked for.
pub fn run(args: &Eval, out: &mut impl Write) -> anyhow::Result<()> {
    let single = args.save_state.is_some() || args.load_state.is_some();
    if single && args.methods.len() != 1 {
        bail!("a state is that of one method: name it with --methods");
    }
    let arrivals = stream::read(&args.stream, args.edges.unwrap_or(usize::MAX))?;
    let device = args.sketch.device.unwrap_or_default();
    let carry = args.carry;
    let (packed, weights) = methods::load_weights(args.weights.as_deref(), &args.methods)?;
    let packed = match args.codes {
        CodeKind::Hashed => packed,
        CodeKind::Learned => Arc::new(packed::Weights {
            encoders: Some(Arc::new(weights.layers.clone())),
            decoder: packed.decoder.clone(),
        }),
    };
    let device = device.open()?;
    let crane = CraneOptions {
        settings: Settings {
            carry,
            ..Settings::of(&weights)
        },
        packed: Arc::new(Profile::packed_with(packed, &device, args.parts())),
        start: args.start.map(|start| start.0 as usize),
        paper: paper::Profile::new(weights, &device)?,
        batch: args.batch as usize,
    };
    let truth = Truth::of(arrivals, args.sketch.seed());
    let mut results = Vec::with_capacity(args.methods.len());
    for method in &args.methods {
        results.push(measure(*method, args, &crane, &truth)?);
    }
    let report = Report {
        stream: args.stream.display().to_string(),
        edges: truth.arrivals.len(),
        distinct: truth.edges.len(),
        memory_bytes: args.memory.0,
        seed: args.sketch.seed(),
        results,
    };
    match args.format {
        ReportFormat::Json => report.write_json(out)?,
        ReportFormat::Table => report.write_table(out)?,
    }
    Ok(out.flush()?)
}

/// The stream and its exact answers.
struct Truth {
    arrivals: Vec<Weighted>,
    edges: Vec<Edge>,
    counts: Vec<u64>,
    absent: Vec<Edge>,
    nodes: Vec<(u32, Direction, u64)>,
    /// For each edge, where its two ends stand in `nodes`.
    ends: Vec<[usize; 2]>,
}

impl Truth {
    fn of(arrivals: Vec<Weighted>, seed: u64) -> Self {
        let folded = crane_model::fold::fold(&arrivals);
        let edges: Vec<Edge> = folded.iter().map(|w| w.edge).collect();
        let mut place: FxHashMap<(u32, bool), usize> = FxHashMap::default();
        let mut nodes: Vec<(u32, Direction, u64)> = Vec::new();
        let mut ends = Vec::with_capacity(edges.len());
        for Weighted { edge, weight } in &folded {
            let both = [(edge.src, Direction::Out), (edge.dst, Direction::In)];
            ends.push(both.map(|(node, direction)| {
                let at = *place
                    .entry((node, direction == Direction::Out))
                    .or_insert(nodes.len());
                if at == nodes.len() {
                    nodes.push((node, direction, 0));
                }
                nodes[at].2 += weight;
                at
            }));
        }
        Self {
            absent: absent(&edges, seed),
            counts: folded.iter().map(|w| w.weight).collect(),
            arrivals,
            edges,
            nodes,
            ends,
        }
    }
}

/// As many pairs of a known source and a known destination that never occurred
/// as there are edges, or fewer where nearly all pairs occurred.
fn absent(edges: &[Edge], seed: u64) -> Vec<Edge> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xab5e);
    let known: FxHashSet<Edge> = edges.iter().copied().collect();
    let mut pairs = Vec::with_capacity(edges.len());
    for _ in 0..4 * edges.len() {
        let src = edges[rng.random_range(0..edges.len())].src;
        let dst = edges[rng.random_range(0..edges.len())].dst;
        if pairs.len() < edges.len() && !known.contains(&Edge::new(src, dst)) {
            pairs.push(Edge::new(src, dst));
        }
    }
    pairs
}

/// A method after the stream was stored.
struct Stored {
    method: Box<dyn Rival>,
    variant: usize,
    answers: Vec<f64>,
    score: Score,
    storing: Duration,
    asking: Duration,
}

fn measure(
    which: Method,
    args: &Eval,
    crane: &CraneOptions,
    truth: &Truth,
) -> anyhow::Result<Figures> {
    let (bytes, seed) = (args.memory.0 as usize, args.sketch.seed());
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
    let best = match &args.load_state {
        Some(path) => {
            let (variant, state) = read_state(path, name)?;
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
    if let Some(path) = &args.save_state {
        write_state(path, name, &best)?;
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
    if args.load_state.is_none() {
        let answers = flux(which, bytes, seed, crane, &best, truth)?;
        figures.node_recall = [Direction::Out, Direction::In]
            .map(|direction| node_recall(&answers, direction, truth));
        figures.node_are = node_are(answers, truth);
    }
    if let Some(intervals) = best.method.intervals(&truth.edges)? {
        let held = intervals.iter().zip(&truth.counts);
        let held = held.map(|((low, high), count)| (low..=high).contains(&count));
        figures.coverage90 = mean(held.map(|held| f64::from(u8::from(held))));
        let mut widths: Vec<u64> = intervals.iter().map(|(low, high)| high - low).collect();
        widths.sort_unstable();
        figures.median_width = widths.get(widths.len() / 2).map(|width| *width as f64);
    }
    figures.score = best.score;
    Ok(figures)
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

/// The flux of all nodes: the method's own answer, or that of another sketch of the same size that stores nodes instead of edges.
fn flux(
    which: Method,
    bytes: usize,
    seed: u64,
    crane: &CraneOptions,
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
    let mut method = methods::make(which, bytes, seed, crane)?.swap_remove(best.variant);
    for chunk in truth.arrivals.chunks(1 << 16) {
        let ends = chunk.iter().flat_map(|Weighted { edge, weight }| {
            let both = [
                node_edge(edge.src, Direction::Out),
                node_edge(edge.dst, Direction::In),
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

/// A node as an edge of its own. Its other end is derived from it: a fixed one
/// would put all nodes into one column.
fn node_edge(node: u32, direction: Direction) -> Edge {
    let other = node.wrapping_mul(0x9e37_79b1).rotate_left(15);
    Edge::new(
        node,
        if direction == Direction::Out {
            other
        } else {
            !other
        },
    )
}

/// Mean answer to edges that occurred once.
fn once_mean(answers: &[f64], counts: &[u64]) -> Option<f64> {
    let all = answers.iter().zip(counts);
    mean(
        all.filter(|(_, count)| **count == 1)
            .map(|(answer, _)| *answer),
    )
}

fn node_recall(answers: &[f64], direction: Direction, truth: &Truth) -> Option<f64> {
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

/// A state file: a line that names method and variant, then the state.
fn write_state(path: &Path, name: &str, best: &Stored) -> anyhow::Result<()> {
    let mut file = format!("crane-agent eval state: {name} {}\n", best.variant).into_bytes();
    file.extend(best.method.save()?);
    fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))
}

fn read_state(path: &Path, name: &str) -> anyhow::Result<(usize, Vec<u8>)> {
    let file = small_file::read(path, MOST_STATE);
    let file = file.with_context(|| format!("cannot read {}", path.display()))?;
    let head = file.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let variant = std::str::from_utf8(head).ok().and_then(|head| {
        head.strip_prefix(&format!("crane-agent eval state: {name} "))?
            .parse()
            .ok()
    });
    let Some(variant) = variant else {
        bail!("{}: not a state of {name}", path.display());
    };
    Ok((variant, file[head.len() + 1..].to_vec()))
}

fn bar(name: &str, arrivals: usize) -> ProgressBar {
    let bar = ProgressBar::new(arrivals as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg:12} {bar:40} {per_sec} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(name.to_owned());
    bar
}
