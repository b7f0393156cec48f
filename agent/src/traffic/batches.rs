//! Histograms of the sizes and durations of an interface's batches. They are removed with
//! the interface.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper ends of the buckets, in packets of a batch.
const EDGES: [f64; 7] = [1.0, 8.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0];
/// Upper ends of the buckets, in seconds that storing a batch took.
const SECONDS: [f64; 6] = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];

/// Histograms of one interface. Only the worker writes them.
#[derive(Debug, Default)]
pub struct Batches {
    edges: [AtomicU64; EDGES.len() + 1],
    edges_sum: AtomicU64,
    seconds: [AtomicU64; SECONDS.len() + 1],
    nanoseconds_sum: AtomicU64,
}

/// A snapshot of a histogram.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    /// Upper ends of the buckets, with the cumulative counts.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    pub sum: f64,
}

impl Batches {
    /// Adds this many batches of the same size that were stored together.
    pub fn record(&self, edges: usize, batches: usize, took: Duration) {
        let (number, each) = (batches as u64, batches.max(1) as f64);
        count(&EDGES, &self.edges, edges as f64 / each, number);
        self.edges_sum.fetch_add(edges as u64, Relaxed);
        count(&SECONDS, &self.seconds, took.as_secs_f64() / each, number);
        let took = took.as_nanos() as u64;
        self.nanoseconds_sum.fetch_add(took, Relaxed);
    }

    pub fn edges(&self) -> Histogram {
        histogram(&EDGES, &self.edges, self.edges_sum.load(Relaxed) as f64)
    }

    pub fn seconds(&self) -> Histogram {
        let sum = self.nanoseconds_sum.load(Relaxed) as f64 / 1e9;
        histogram(&SECONDS, &self.seconds, sum)
    }
}

/// Counts a value so many times in its bucket. The last bucket is for all larger values.
fn count(ends: &[f64], counts: &[AtomicU64], value: f64, times: u64) {
    let at = ends.partition_point(|end| *end < value);
    counts[at].fetch_add(times, Relaxed);
}

fn histogram(ends: &[f64], counts: &[AtomicU64], sum: f64) -> Histogram {
    let mut count = 0;
    let mut add = |bucket: &AtomicU64| {
        count += bucket.load(Relaxed);
        count
    };
    let buckets = ends
        .iter()
        .zip(counts)
        .map(|(end, bucket)| (*end, add(bucket)));
    let buckets = buckets.collect();
    let count = counts.last().map_or(0, add);
    Histogram {
        buckets,
        count,
        sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let batches = Batches::default();
        for edges in [1, 8, 9, 20_000] {
            batches.record(edges, 1, Duration::from_millis(2));
        }
        let edges = batches.edges();
        assert_eq!(edges.buckets[..3], [(1.0, 1), (8.0, 2), (64.0, 3)]);
        assert_eq!(edges.buckets.last(), Some(&(16384.0, 3)));
        assert_eq!((edges.count, edges.sum), (4, 20_018.0));
        let seconds = batches.seconds();
        assert_eq!(seconds.buckets[2..4], [(1e-3, 0), (1e-2, 4)]);
        assert_eq!((seconds.count, seconds.sum), (4, 0.008));
    }
}
