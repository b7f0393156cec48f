//! The sketch worker: the only writer of sketch state.
//!
//! Drains the rings of all interfaces in batches, folds equal pairs of a
//! batch into one arrival, stores them, and publishes what it knows.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;
use crane_model::{Arrival, Crane};
use rtrb::Consumer;
use rustc_hash::FxHashMap;

use crate::edge::{Edge, Pair};
use crate::metrics::BatchMetrics;
use crate::snapshot::Snapshot;
use crate::tally::Tally;

/// One interface as the worker sees it.
pub struct Lane {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Where its packets come from.
    pub ring: Consumer<Edge>,
    /// What is known of them.
    pub crane: Crane<Pair>,
    /// Histograms of its batches, if anyone looks at them.
    pub metrics: Option<BatchMetrics>,
}

/// When a batch is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// When it is full or its first packet has waited this long.
    Linger(Duration),
    /// When it is full: the same packets always make the same batches.
    Count,
}

/// How long readers may see old numbers.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// Pauses between looks into empty rings, while busy and when idle.
const NAPS: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(10)];
/// After this long without a packet the worker is idle.
const BUSY_FOR: Duration = Duration::from_millis(50);

/// The worker. [`Worker::run`] ends when all captures have ended and their
/// rings are empty.
pub struct Worker {
    /// The interfaces.
    pub lanes: Vec<Lane>,
    /// Packets of a full batch.
    pub batch: usize,
    /// When a batch is stored.
    pub cut: Cut,
    /// How many heavy hitters are published.
    pub top: usize,
    /// Where they are published.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
}

impl Worker {
    /// Works until the last capture has ended.
    pub fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Batch::default();
        let mut published = Instant::now();
        let mut last_packet = Instant::now();
        let mut waiting_since = vec![None; self.lanes.len()];
        loop {
            let mut stored = false;
            let mut open = false;
            for (lane, waiting) in self.lanes.iter_mut().zip(&mut waiting_since) {
                // Asked before looking into the ring: nothing comes after it.
                let ended = lane.ring.is_abandoned();
                let ready = lane.ring.slots().min(self.batch);
                open |= !ended || ready > 0;
                if ready == 0 {
                    continue;
                }
                let since = *waiting.get_or_insert_with(Instant::now);
                let due = matches!(self.cut, Cut::Linger(linger) if since.elapsed() >= linger);
                if ready == self.batch || ended || due {
                    lane.store(&mut batch, ready)
                        .with_context(|| lane.name.clone())?;
                    *waiting = None;
                    stored = true;
                }
            }
            if published.elapsed() >= PUBLISH_EVERY {
                self.publish();
                published = Instant::now();
            }
            if !open {
                self.publish();
                return Ok(());
            }
            if stored {
                last_packet = Instant::now();
            } else {
                thread::sleep(NAPS[usize::from(last_packet.elapsed() > BUSY_FOR)]);
            }
        }
    }

    fn publish(&self) {
        self.snapshot
            .store(Arc::new(Snapshot::of(&self.lanes, self.top)));
    }
}

impl Lane {
    fn store(&mut self, batch: &mut Batch, count: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        let expansions = self.crane.layers().expansions();
        let edges = self.ring.read_chunk(count)?;
        let (first, second) = edges.as_slices();
        let arrivals = batch.fold(first.iter().chain(second));
        self.crane.store(arrivals)?;
        edges.commit_all();
        self.tally.edges.fetch_add(count as u64, Relaxed);
        if self.crane.layers().expansions() > expansions {
            let layers = self.crane.layers().loads().len();
            tracing::info!(
                interface = self.name,
                layers,
                "the sketch has grown by a layer"
            );
        }
        if let Some(metrics) = &self.metrics {
            metrics.record(count, start.elapsed());
        }
        Ok(())
    }
}

/// Folds packets into arrivals; keeps its memory from batch to batch.
#[derive(Default)]
struct Batch {
    place: FxHashMap<Pair, usize>,
    arrivals: Vec<Arrival<Pair>>,
}

impl Batch {
    fn fold<'a>(&mut self, edges: impl Iterator<Item = &'a Edge>) -> &[Arrival<Pair>] {
        self.place.clear();
        self.arrivals.clear();
        for Edge { pair, bytes } in edges {
            let at = *self.place.entry(*pair).or_insert(self.arrivals.len());
            match self.arrivals.get_mut(at) {
                Some(arrival) => {
                    arrival.packets += 1;
                    arrival.bytes += u64::from(*bytes);
                }
                None => self.arrivals.push(Arrival {
                    key: *pair,
                    edge: pair.model_edge(),
                    packets: 1,
                    bytes: u64::from(*bytes),
                }),
            }
        }
        &self.arrivals
    }
}
