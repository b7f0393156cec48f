//! What live capture and replay share: rings, sketches, worker, snapshot.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::Context;
use arc_swap::ArcSwap;
use crane_model::{Crane, Settings, Weights};

use crate::config::Config;
use crate::edge::Pair;
use crate::metrics::{BatchMetrics, Exporter};
use crate::ring::{Tap, ring};
use crate::snapshot::Snapshot;
use crate::tally::Tally;
use crate::weights;
use crate::worker::{Cut, Lane, Worker};

/// A pipeline that is being put together.
pub struct Pipeline {
    config: Config,
    weights: Arc<Weights>,
    seed: u64,
    lanes: Vec<Lane>,
}

/// A pipeline at work.
pub struct Running {
    /// What it knows.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    worker: JoinHandle<anyhow::Result<()>>,
}

impl Pipeline {
    /// A pipeline without interfaces.
    pub fn new(config: &Config, seed: u64) -> anyhow::Result<Self> {
        Ok(Self {
            config: config.clone(),
            weights: Arc::new(weights::load(config.sketch.weights.as_deref())?),
            seed,
            lanes: Vec::new(),
        })
    }

    /// Adds an interface or file; its packets go into the returned end.
    pub fn add(&mut self, name: &str) -> anyhow::Result<Tap> {
        let sketch = &self.config.sketch;
        let settings = Settings {
            max_layers: sketch.max_layers,
            ..Settings::of(&self.weights)
        };
        let layers = sketch.device.open(Arc::clone(&self.weights), settings)?;
        let tally = Arc::new(Tally::default());
        // A ring that cannot hold a batch would never be drained by count.
        let slots = self.config.capture.ring_slots.max(2 * sketch.batch);
        let (tap, consumer) = ring(slots, Arc::clone(&tally), self.config.capture.decode());
        self.lanes.push(Lane {
            name: name.into(),
            tally,
            ring: consumer,
            crane: Crane::new(layers, sketch.crown_entries, self.seed, Pair::model_edge),
            metrics: None,
        });
        Ok(tap)
    }

    /// Prepares metrics for all interfaces that were added.
    pub fn export(&mut self) -> anyhow::Result<Exporter> {
        let exporter = Exporter::install(&self.device())?;
        for lane in &mut self.lanes {
            lane.metrics = Some(BatchMetrics::of(&lane.name));
        }
        Ok(exporter)
    }

    /// Where the sketches run, for people.
    pub fn device(&self) -> String {
        let first = self.lanes.first();
        first.map_or_else(String::new, |lane| lane.crane.layers().device_name())
    }

    /// Starts the worker.
    pub fn start(self, cut: Cut, top: usize) -> anyhow::Result<Running> {
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::of(&self.lanes, top)));
        let worker = Worker {
            lanes: self.lanes,
            batch: self.config.sketch.batch,
            cut,
            top,
            snapshot: Arc::clone(&snapshot),
        };
        let worker = thread::Builder::new()
            .name("sketch".into())
            .spawn(move || worker.run())?;
        Ok(Running { snapshot, worker })
    }
}

impl Running {
    /// Whether the worker has ended.
    pub fn has_ended(&self) -> bool {
        self.worker.is_finished()
    }

    /// Waits until all rings are drained and returns the last snapshot. All
    /// captures must have ended.
    pub fn finish(self) -> anyhow::Result<Arc<Snapshot>> {
        match self.worker.join() {
            Ok(result) => result.context("the sketch worker failed")?,
            Err(_) => anyhow::bail!("the sketch worker panicked"),
        }
        Ok(self.snapshot.load_full())
    }
}
