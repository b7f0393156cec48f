//! What live capture and replay share: rings, sketches, worker, snapshot.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;

use crate::budget::Budget;
use crate::config::Config;
use crate::edge::{Edge, Pair};
use crate::lane::{Keep, Lane, Parts};
use crate::metrics::{BatchMetrics, Exporter};
use crate::report::Summary;
use crate::ring::{Tap, ring};
use crate::sketches::Blueprint;
use crate::snapshot::Snapshot;
use crate::span::Span;
use crate::tally::Tally;
use crate::window_clock::{Cadence, PacketTime, WindowClock};
use crate::worker::{Cut, Desk, Request, Worker};

/// Share of the capture buffers that rings may take.
const RING_SHARE: u64 = 4;
/// The smallest ring.
const LEAST_SLOTS: usize = 1024;

/// What a pipeline is for.
pub enum Purpose {
    /// So many interfaces that share all memory, and turn windows of this
    /// length by the clock.
    Live(usize, Span),
    /// Files, each by itself, so that the same packets give the same answers.
    Replay {
        /// How long windows are; none for a single one.
        window: Option<Span>,
        /// Report on each of them.
        history: bool,
        /// Count exactly, too.
        exactly: bool,
        /// Answer questions about files that have ended.
        serve: bool,
        /// Store packets; otherwise they are only decoded.
        sketch: bool,
    },
}

/// A pipeline at work.
pub struct Pipeline {
    /// What it knows.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Where questions go.
    pub desk: Desk,
    ended: Receiver<Summary>,
    config: Config,
    purpose: Purpose,
    blueprint: Arc<Blueprint>,
    shared: Arc<Mutex<Budget>>,
    windows: u64,
    top: usize,
    seed: u64,
    lanes: u64,
    /// When the first windows of live captures begin.
    origin: Instant,
    exports: bool,
    worker: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Pipeline {
    /// Starts a worker without lanes; lists have `top` entries.
    pub fn start(config: &Config, purpose: Purpose, top: usize, seed: u64) -> anyhow::Result<Self> {
        let blueprint = Arc::new(Blueprint::new(&config.sketch, config.capture.sample, seed)?);
        let (sharing, windows, cut, keep_ended) = match purpose {
            Purpose::Live(interfaces, _) => {
                (interfaces, 2, Cut::Linger(config.sketch.linger()), true)
            }
            Purpose::Replay { window, serve, .. } => {
                let windows = if window.is_some() { 3 } else { 1 };
                (1, windows, Cut::Count, serve)
            }
        };
        let budget = Budget::new(&config.sketch, sharing, windows)?;
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot {
            interfaces: Vec::new(),
            published: Instant::now(),
        }));
        let (requests, receiver) = mpsc::channel();
        let (ending, ended) = mpsc::channel();
        let worker = Worker {
            requests: receiver,
            ended: ending,
            batch: config.sketch.batch,
            cut,
            top,
            watch: watch_list(config),
            keep_ended,
            snapshot: Arc::clone(&snapshot),
        };
        let worker = thread::Builder::new()
            .name("sketch".into())
            .spawn(move || worker.run())?;
        Ok(Self {
            snapshot,
            desk: Desk::new(requests, worker.thread().clone()),
            ended,
            config: config.clone(),
            purpose,
            blueprint,
            shared: Arc::new(Mutex::new(budget)),
            windows,
            top,
            seed,
            lanes: 0,
            origin: Instant::now(),
            exports: false,
            worker: Some(worker),
        })
    }

    /// Installs the exporter of metrics; lanes added afterwards have histograms.
    pub fn export(&mut self) -> anyhow::Result<Exporter> {
        self.exports = true;
        Exporter::install(&self.device()?)
    }

    /// Where the sketches run, for people.
    pub fn device(&self) -> anyhow::Result<String> {
        Ok(self.blueprint.device_name()?)
    }

    /// Adds an interface or file; its packets go into the returned end.
    pub fn add(&mut self, name: &str) -> anyhow::Result<Tap> {
        let capture = &self.config.capture;
        let (sharing, budget, keep, clock) = match self.purpose {
            Purpose::Live(interfaces, length) => {
                let budget = Arc::clone(&self.shared);
                let cadence = Cadence::new(self.origin, length, Instant::now());
                let clock = WindowClock::Monotonic(cadence);
                (interfaces, budget, Keep::LastWindow, clock)
            }
            Purpose::Replay {
                window,
                history,
                exactly,
                ..
            } => {
                let budget = Arc::new(Mutex::new(self.budget_of_a_file()?));
                let windows = history.then_some(self.top);
                let by_packets = |length| WindowClock::Packets(PacketTime::new(length));
                let clock = window.map_or(WindowClock::Never, by_packets);
                (1, budget, Keep::History { windows, exactly }, clock)
            }
        };
        let tally = Arc::new(Tally::default());
        let share = capture.buffer_total.0 / sharing.max(1) as u64 / RING_SHARE;
        let slots = (share as usize / size_of::<Edge>()).clamp(LEAST_SLOTS, capture.ring_slots);
        let reader = (self.desk.worker(), self.config.sketch.batch);
        let (tap, consumer) = ring(slots, reader, Arc::clone(&tally), capture, self.seed);
        let lane = Lane::new(Parts {
            name: name.into(),
            tally,
            ring: consumer,
            keep,
            clock,
            scale: u64::from(capture.sample),
            sketch: !matches!(self.purpose, Purpose::Replay { sketch: false, .. }),
            blueprint: Arc::clone(&self.blueprint),
            budget: (budget, sharing),
            metrics: self.exports.then(|| BatchMetrics::of(name)),
        })?;
        self.lanes += 1;
        let sent = self.desk.send(Request::Lane(Box::new(lane)));
        sent.map_err(|_| anyhow::anyhow!("the sketch worker has ended"))?;
        Ok(tap)
    }

    /// Files share no memory, so that they cannot change each other's answers.
    fn budget_of_a_file(&self) -> anyhow::Result<Budget> {
        let sketch = &self.config.sketch;
        let limit = sketch.memory_total.0 / sketch.memory.0;
        anyhow::ensure!(
            self.lanes < limit,
            "more than {limit} captures at once need more memory than sketch.memory_total = {}: \
             raise it, or lower sketch.memory = {}",
            sketch.memory_total,
            sketch.memory
        );
        Ok(Budget::new(sketch, 1, self.windows)?)
    }

    /// Waits for a lane to end; all its packets must have been delivered and
    /// its tap dropped.
    pub fn wait_for_end(&mut self) -> anyhow::Result<Summary> {
        let Ok(summary) = self.ended.recv() else {
            // The worker has failed: joining it says why.
            return Err(self
                .join()
                .err()
                .unwrap_or_else(|| anyhow::anyhow!("the sketch worker ended early")));
        };
        if !matches!(self.purpose, Purpose::Replay { serve: true, .. }) {
            self.lanes -= 1;
        }
        Ok(summary)
    }

    /// Whether the worker has ended, which it should not by itself.
    pub fn has_ended(&self) -> bool {
        self.worker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all rings are drained and the last windows are published.
    /// All taps must be gone. What is not drained after `limit` is counted as
    /// lost.
    pub fn finish(mut self, limit: Option<Duration>) -> anyhow::Result<Vec<Summary>> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let _ = self.desk.send(Request::Finish(deadline));
        self.join()?;
        Ok(self.ended.try_iter().collect())
    }

    fn join(&mut self) -> anyhow::Result<()> {
        match self.worker.take().map(JoinHandle::join) {
            Some(Err(_)) => anyhow::bail!("the sketch worker panicked"),
            Some(Ok(result)) => result.context("the sketch worker failed"),
            None => Ok(()),
        }
    }
}

/// The pairs to watch, each once, however its addresses are written.
fn watch_list(config: &Config) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for pair in config.export.watch.iter().map(|watched| watched.pair()) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs
}
