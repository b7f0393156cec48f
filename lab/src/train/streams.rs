//! Synthetic edge streams. The number of edges, the size of the hubs, the distribution of
//! counts and the order of arrival are random for each stream.

use crane_model::{Edge, Weighted};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, LogNormal, Pareto};
use rustc_hash::FxHashSet;

/// A stream and its exact counts.
pub struct Stream {
    /// The distinct edges.
    pub edges: Vec<Edge>,
    /// The count of each edge.
    pub counts: Vec<u64>,
    /// The stream in order of arrival.
    pub arrivals: Vec<Weighted>,
}

/// Largest number of single packets. Longer streams arrive as weighted edges.
const LONGEST: u64 = 600_000;

/// A random stream of about `distinct` edges.
pub fn random_stream(rng: &mut impl Rng, distinct: usize) -> Stream {
    let edges = random_edges(rng, distinct);
    let counts = random_counts(rng, edges.len());
    arrange(rng, edges, counts, LONGEST)
}

/// A random stream of about `distinct` edges with any distribution of counts. Up to
/// `longest` packets arrive one by one.
pub fn random_any_stream(rng: &mut impl Rng, distinct: usize, longest: u64) -> Stream {
    let edges = random_edges(rng, distinct);
    let counts = random_any_counts(rng, edges.len());
    arrange(rng, edges, counts, longest)
}

fn arrange(rng: &mut impl Rng, edges: Vec<Edge>, counts: Vec<u64>, longest: u64) -> Stream {
    let arrivals = random_order(rng, &edges, &counts, longest);
    Stream {
        edges,
        counts,
        arrivals,
    }
}

/// A random number of edges from `least` to `most`; every order of magnitude is equally
/// likely.
pub fn random_size(rng: &mut impl Rng, least: usize, most: usize) -> usize {
    let (low, high) = ((least as f64).ln(), (most as f64).ln());
    rng.random_range(low..=high).exp() as usize
}

/// Random pairs of nodes with ids from the whole id space.
fn random_edges(rng: &mut impl Rng, distinct: usize) -> Vec<Edge> {
    let nodes = (distinct as f64).powf(rng.random_range(0.6..1.1)).max(16.0) as usize;
    let pool: Vec<u32> = (0..nodes).map(|_| rng.random()).collect();
    // Real graphs have hubs: with a skew above 1 the first nodes are drawn more often.
    let skew = rng.random_range(1.0..2.5);
    let pick = |rng: &mut dyn rand::RngCore| {
        let at = rng.random::<f64>().powf(skew) * pool.len() as f64;
        pool[(at as usize).min(pool.len() - 1)]
    };
    let mut seen = FxHashSet::default();
    let mut edges = Vec::with_capacity(distinct);
    // A dense part of the pool may not have enough pairs, so the number of attempts is
    // limited.
    for _ in 0..4 * distinct {
        if edges.len() == distinct {
            break;
        }
        let edge = Edge::new(pick(rng), pick(rng));
        if seen.insert(edge) {
            edges.push(edge);
        }
    }
    edges
}

fn random_counts(rng: &mut impl Rng, distinct: usize) -> Vec<u64> {
    let mut counts: Vec<f64> = match rng.random_range(0..8) {
        // Every edge once.
        0 => vec![1.0; distinct],
        // Zipf by rank, over the paper's range of exponents and beyond.
        1..4 => {
            let exponent = rng.random_range(0.3..1.3);
            let total = distinct as f64 * rng.random_range(1.5..50.0);
            let weights: Vec<f64> = (1..=distinct)
                .map(|rank| (rank as f64).powf(-exponent))
                .collect();
            let sum: f64 = weights.iter().sum();
            weights.iter().map(|weight| weight * total / sum).collect()
        }
        4..6 => {
            let shape = rng.random_range(0.7..2.5);
            match Pareto::new(1.0, shape) {
                Ok(pareto) => (0..distinct).map(|_| pareto.sample(rng)).collect(),
                Err(_) => vec![1.0; distinct],
            }
        }
        _ => {
            let spread = rng.random_range(0.3..2.0);
            match LogNormal::new(rng.random_range(-0.5..2.0), spread) {
                Ok(normal) => (0..distinct).map(|_| normal.sample(rng)).collect(),
                Err(_) => vec![1.0; distinct],
            }
        }
    };
    counts.shuffle(rng);
    counts
        .into_iter()
        .map(|count| count.round().clamp(1.0, 1e6) as u64)
        .collect()
}

/// Most streams as in [`random_counts`]. The others have no heavy tail (equal, evenly
/// distributed, geometric), or mix two streams or two kinds of edges.
fn random_any_counts(rng: &mut impl Rng, distinct: usize) -> Vec<u64> {
    match rng.random_range(0..16) {
        // Nearly all edges once, the others with any count.
        14..16 => {
            let share = (-rng.random_range(3.0f64..7.5)).exp();
            let tail = random_counts(rng, distinct);
            let scale = random_size(rng, 2, 300) as u64;
            let draw = |count| match rng.random_bool(share) {
                true => scale * count,
                false => 1,
            };
            tail.into_iter().map(draw).collect()
        }
        // Few heavy edges among many light ones, and nothing between.
        12..14 => {
            let (share, heavy) = (rng.random_range(0.001..0.1), random_size(rng, 20, 5000));
            let light = random_size(rng, 1, 10) as u64;
            let draw = |_| match rng.random_bool(share) {
                true => heavy as u64,
                false => rng.random_range(1..=light),
            };
            (0..distinct).map(draw).collect()
        }
        0 => vec![random_size(rng, 1, 200) as u64; distinct],
        1 => {
            let most = random_size(rng, 2, 200) as u64;
            (0..distinct).map(|_| rng.random_range(1..=most)).collect()
        }
        2 => {
            let mean = random_size(rng, 2, 50) as f64;
            let draw = |_| 1 + (mean * -rng.random::<f64>().max(1e-9).ln()) as u64;
            (0..distinct).map(draw).collect()
        }
        3 => {
            let (a, b) = (random_counts(rng, distinct), random_counts(rng, distinct));
            let scale = random_size(rng, 1, 30) as u64;
            let share = rng.random_range(0.1..0.9);
            let pairs = a.into_iter().zip(b);
            pairs
                .map(|(a, b)| if rng.random_bool(share) { a } else { scale * b })
                .collect()
        }
        _ => random_counts(rng, distinct),
    }
}

fn random_order(rng: &mut impl Rng, edges: &[Edge], counts: &[u64], longest: u64) -> Vec<Weighted> {
    let total: u64 = counts.iter().sum();
    let bursts = rng.random_bool(0.6);
    // In half of the streams every edge is active for the same duration.
    let life = rng.random_bool(0.5).then(|| rng.random_range(0.01..0.3));
    if total > longest || rng.random_bool(0.25) {
        let arrivals = edges
            .iter()
            .zip(counts)
            .map(|(edge, count)| Weighted::new(*edge, *count));
        return arrivals.collect(); // edges are in random order already
    }
    let mut timed: Vec<(f32, Edge)> = Vec::with_capacity(total as usize);
    for (edge, count) in edges.iter().zip(counts) {
        // Each edge is active in an interval of its own, or all the time.
        let (start, length) = if bursts {
            let length = life.unwrap_or_else(|| rng.random::<f32>().powi(3));
            (rng.random_range(0.0..=1.0 - length), length)
        } else {
            (0.0, 1.0)
        };
        timed.extend((0..*count).map(|_| (start + length * rng.random::<f32>(), *edge)));
    }
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    timed
        .into_iter()
        .map(|(_, edge)| Weighted::new(edge, 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rustc_hash::FxHashMap;

    #[test]
    fn arrivals_add_up_to_the_counts() {
        for seed in 0..40 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
            let stream = random_stream(&mut rng, 500);
            assert_eq!(stream.edges.len(), stream.counts.len());
            let mut seen: FxHashMap<Edge, u64> = FxHashMap::default();
            for arrival in &stream.arrivals {
                *seen.entry(arrival.edge).or_default() += arrival.weight;
            }
            assert_eq!(seen.len(), stream.edges.len());
            for (edge, count) in stream.edges.iter().zip(&stream.counts) {
                assert_eq!(seen[edge], *count);
            }
        }
    }
}
