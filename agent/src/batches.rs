//! How large the batches of an interface are and how long they take: histograms
//! that go when it goes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Packets of a batch, at most so many in each bucket.
const EDGES: [f64; 7] = [1.0, 8.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0];
/// Seconds that a batch took, likewise.
const SECONDS: [f64; 6] = [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];

/// The histograms of one interface. Written by the worker alone.
#[derive(Debug, Default)]
pub struct Batches {
    edges: [AtomicU64; EDGES.len() + 1],
    edges_sum: AtomicU64,
    seconds: [AtomicU64; SECONDS.len() + 1],
    nanoseconds_sum: AtomicU64,
}

/// A histogram at one moment.
#[derive(Debug, PartialEq)]
pub struct Histogram {
    /// Upper ends of its buckets, and how many were not above each.
    pub buckets: Vec<(f64, u64)>,
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl Batches {
    /// Notes a batch.
    pub fn record(&self, edges: usize, took: Duration) {
        enter(&EDGES, &self.edges, edges as f64);
        self.edges_sum.fetch_add(edges as u64, Relaxed);
        enter(&SECONDS, &self.seconds, took.as_secs_f64());
        let took = took.as_nanos() as u64;
        self.nanoseconds_sum.fetch_add(took, Relaxed);
    }

    /// Packets of batches.
    pub fn edges(&self) -> Histogram {
        histogram(&EDGES, &self.edges, self.edges_sum.load(Relaxed) as f64)
    }

    /// Seconds that batches took.
    pub fn seconds(&self) -> Histogram {
        let sum = self.nanoseconds_sum.load(Relaxed) as f64 / 1e9;
        histogram(&SECONDS, &self.seconds, sum)
    }
}

/// Counts a value in its bucket; the last is for all above.
fn enter(ends: &[f64], counts: &[AtomicU64], value: f64) {
    let at = ends.partition_point(|end| *end < value);
    counts[at].fetch_add(1, Relaxed);
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
    fn each_bucket_has_all_that_are_not_above_it() {
        let batches = Batches::default();
        for edges in [1, 8, 9, 20_000] {
            batches.record(edges, Duration::from_millis(2));
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
