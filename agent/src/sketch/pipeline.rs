//! What live capture and replay share: rings, sketches, worker, snapshot.

mod reload;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;

use super::batch::Cut;
use super::budget::Budget;
use super::interface::{Interface, Options};
use super::key::Key;
use super::past::{Past, Wanted};
use super::ring::{RingReader, RingWriter, ring};
use super::saved::folder::Folder;
use super::saved::settings::Settings;
use super::saved::writer;
use super::sketches::Blueprint;
use super::slot::Slot;
use super::summary::Summary;
use super::view::Lists;
use super::window::{Cadence, PacketTime, WindowClock, wall_clock};
use super::worker::{Request, Worker, WorkerHandle};
use crate::config::length::WindowLength;
use crate::config::size::Size;
use crate::config::{self, Config};
use crate::edge::Pair;
use crate::export::metrics::Exporter;
use crate::export::snapshot::Snapshot;
use crate::names::Names;
use crate::tally::Tally;
use crate::units::grouped;

pub use reload::Extent;

/// Share of the capture buffers that rings may take.
const RING_SHARE: u64 = 4;
/// The smallest ring.
const LEAST_SLOTS: usize = 1024;
/// A file gets at least so much as long as there is any.
const LEAST_OF_A_FILE: u64 = 128 << 10;

/// What a pipeline is for.
pub enum Mode {
    /// Interfaces that come and go, so many of them at first, that share all memory
    /// and turn windows of this length by the clock.
    Live(usize, WindowLength),
    /// Files, each by itself, so that the same packets give the same answers.
    Replay {
        /// How long windows are; none for a single one.
        window: Option<WindowLength>,
        /// What is reported of each file.
        wanted: Wanted,
        /// Answer queries about files that have ended.
        serve: bool,
        /// Whether packets come at the speed of a capture, and someone may look at them
        /// meanwhile: then they do not wait long for a full batch.
        linger: bool,
        /// Store packets; otherwise they are only decoded.
        sketch: bool,
    },
}

/// The end of an interface that a capture writes to.
pub struct InterfaceWriter {
    /// Where edges go.
    pub ring: RingWriter,
    /// Its books.
    pub tally: Arc<Tally>,
    /// The seed that chooses which packets are looked at, if not all are.
    pub sampling: u64,
}

/// A pipeline at work.
pub struct Pipeline {
    snapshot: Arc<ArcSwap<Snapshot>>,
    handle: WorkerHandle,
    ended: Receiver<Summary>,
    config: Config,
    mode: Mode,
    blueprint: Arc<Blueprint>,
    names: Option<Arc<Names>>,
    shared: Budget,
    windows: u64,
    /// Into how many shares buffers are cut.
    shares: usize,
    /// Which packets are looked at, if not all are.
    sampling: u64,
    /// What files may have, by the names of their interfaces.
    granted: HashMap<String, u64>,
    /// When the first windows of live captures begin.
    origin: Instant,
    /// Windows of the run before, and who saves those of this one.
    saved: Option<(Folder, JoinHandle<()>)>,
    /// What these are saved with.
    settings: Option<Arc<Settings>>,
    worker: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Pipeline {
    /// Starts a worker without interfaces; lists have `top` entries.
    pub fn start(config: &Config, mode: Mode, top: usize, key: &Key) -> anyhow::Result<Self> {
        let blueprint = Blueprint::new(&config.sketch, key.secret)?;
        let names = config.networks.clone();
        let (sharing, windows, cut, keep_ended) = match mode {
            Mode::Live(interfaces, _) => (interfaces, 2, Cut::Linger(config.sketch.linger()), true),
            Mode::Replay { serve, linger, .. } => {
                // Of one window, as much as a live one has: the same answers.
                let cut = match linger {
                    true => Cut::Linger(config.sketch.linger()),
                    false => Cut::Count,
                };
                (1, 2, cut, serve)
            }
        };
        let budget = Budget::new(&config.sketch, sharing, windows, blueprint.least())?;
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot {
            interfaces: Vec::new(),
            names: names.clone(),
            published: Instant::now(),
        }));
        let (requests, receiver) = mpsc::channel();
        let (ending, ended) = mpsc::channel();
        let worker = Worker {
            requests: receiver,
            ended: ending,
            cut,
            lists: lists(config, top),
            keep_ended,
            publishes: keep_ended || matches!(mode, Mode::Live(..)),
            // A replay ends with a fault: its answers would not be those of the file.
            recovers: matches!(mode, Mode::Live(..)),
            names: names.clone(),
            snapshot: Arc::clone(&snapshot),
        };
        let worker = thread::Builder::new()
            .name("sketch".into())
            .spawn(move || worker.run())?;
        Ok(Self {
            snapshot,
            handle: WorkerHandle::new(requests, worker.thread().clone()),
            ended,
            config: config.clone(),
            mode,
            blueprint: Arc::new(blueprint),
            names,
            shared: budget,
            windows,
            shares: sharing.max(1),
            sampling: key.sampling,
            granted: HashMap::new(),
            origin: Instant::now(),
            saved: None,
            settings: None,
            worker: Some(worker),
        })
    }

    /// Takes up the windows in this folder, each when its interface is added, and saves
    /// windows there. To be called before an interface is added.
    pub fn keep_windows(&mut self, mut folder: Folder, key: &Key) -> anyhow::Result<()> {
        let settings = Settings::of(&self.config, &key.secret, self.blueprint.weights());
        let left = folder.look(settings.clone())?;
        if let (Some(left), &Mode::Live(_, length)) = (left, &self.mode) {
            // All turn together, those that begin now as well.
            let end = Instant::now() + Duration::from_nanos(left);
            self.origin = end.checked_sub(length.0).unwrap_or(self.origin);
        }
        let interval = self.config.state.interval.0;
        let (saver, thread) = writer::start(folder.place(), interval)?;
        let sent = self.handle.send(Request::Save(saver));
        sent.map_err(|_| anyhow::anyhow!("the sketch worker has ended"))?;
        self.saved = Some((folder, thread));
        self.settings = Some(Arc::new(settings));
        Ok(())
    }

    /// Installs the exporter of metrics.
    pub fn export(&self) -> anyhow::Result<Exporter> {
        Exporter::install(self.device())
    }

    /// What it knows.
    pub fn snapshot(&self) -> Arc<ArcSwap<Snapshot>> {
        Arc::clone(&self.snapshot)
    }

    /// Where queries go.
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }

    /// Where the sketches run, for people.
    pub fn device(&self) -> &str {
        self.blueprint.device_name()
    }

    /// Adds an interface or file. It ends when the returned end is dropped.
    pub fn add(&mut self, name: &str) -> anyhow::Result<InterfaceWriter> {
        let (budget, past, clock) = match &self.mode {
            &Mode::Live(_, length) => {
                let cadence = Cadence::new(self.origin, length, Instant::now());
                let clock = WindowClock::Monotonic(cadence);
                (self.admit()?, None, clock)
            }
            Mode::Replay { window, wanted, .. } => {
                let (window, past) = (*window, Past::new(wanted.clone()));
                let budget = self.budget_of_a_file(name)?;
                let by_packets = |length| WindowClock::Packets(PacketTime::new(length));
                let clock = window.map_or(WindowClock::Never, by_packets);
                (budget, Some(past), clock)
            }
        };
        let capture = &self.config.capture;
        let tally = Arc::new(Tally::default());
        let (writer, reader) = self.ring();
        tally.ring_slots.store(self.slots() as u64, Relaxed);
        let writer = InterfaceWriter {
            ring: writer,
            tally: Arc::clone(&tally),
            sampling: self.sampling,
        };
        let mut interface = Interface::new(Options {
            name: name.into(),
            tally,
            ring: reader,
            past,
            clock,
            scale: u64::from(capture.sample),
            stores: !matches!(self.mode, Mode::Replay { sketch: false, .. }),
            blueprint: Arc::clone(&self.blueprint),
            budget,
            names: self.names.clone(),
            settings: self.settings.clone(),
        })?;
        if let Some((folder, _)) = &mut self.saved {
            folder.take_up(name, |window, sketches| {
                let age = window.age(wall_clock()).unwrap_or(window.left);
                interface.resume(window, sketches, age)?;
                let (packets, unseen) = (grouped(window.packets), age as f64 / 1e9);
                tracing::info!(
                    interface = name,
                    "window taken up again: {packets} packets; the {unseen:.1} s since it was \
                     saved were not seen"
                );
                Ok(())
            });
        }
        let sent = self.handle.send(Request::Interface(Box::new(interface)));
        sent.map_err(|_| anyhow::anyhow!("the sketch worker has ended"))?;
        Ok(writer)
    }

    /// A share of the memory for another interface.
    fn admit(&self) -> anyhow::Result<Budget> {
        let total = self.config.sketch.memory_total;
        let budget = self.shared.admit();
        budget.with_context(|| format!("sketch.memory_total = {total} is used up: raise it"))
    }

    /// Cuts all buffers into so many shares from now on.
    pub fn share_out(&mut self, shares: usize) {
        self.shares = shares.max(1);
    }

    /// What an interface may have for its kernel buffer.
    pub fn share(&self) -> u64 {
        self.config.capture.buffer_total.0 / self.shares as u64
    }

    /// The slots of a ring.
    fn slots(&self) -> usize {
        let slots = self.share() / RING_SHARE / size_of::<Slot>() as u64;
        (slots as usize).clamp(LEAST_SLOTS, self.config.capture.ring_slots)
    }

    fn ring(&self) -> (RingWriter, RingReader) {
        ring(self.slots(), self.handle.worker(), self.config.sketch.batch)
    }

    /// Has an interface vanish when its writer is dropped.
    pub fn forget(&self, name: &str) {
        // A worker that is gone has forgotten all.
        let _ = self.handle.send(Request::Forget(name.into()));
    }

    /// Interfaces that have ended since this was last asked.
    pub fn ended(&self) -> impl Iterator<Item = Summary> {
        self.ended.try_iter()
    }

    /// Files share no memory, so that they cannot change each other's answers.
    /// Each may have an eighth of what is left, and no more than an interface:
    /// many at once have less each. One that is cut into windows has half as much
    /// again: its sketches of all packets stand beside those of two windows, and each
    /// has as much as the sketches of a file that is not cut.
    fn budget_of_a_file(&mut self, name: &str) -> anyhow::Result<Budget> {
        let sketch = &self.config.sketch;
        let left = sketch.memory_total.0 - self.granted.values().sum::<u64>();
        let memory = sketch
            .memory
            .0
            .min((left / 8).max(left.min(LEAST_OF_A_FILE)));
        let (memory, windows) = match self.mode {
            Mode::Replay {
                window: Some(_), ..
            } => (
                memory.saturating_add(memory / 2).min(left),
                self.windows + 1,
            ),
            _ => (memory, self.windows),
        };
        let memory = Size(memory);
        let config = config::Sketch {
            memory,
            memory_total: memory,
            ..sketch.clone()
        };
        let budget = Budget::new(&config, 1, windows, self.blueprint.least());
        let budget = budget.with_context(|| {
            format!(
                "{} captures at once need more memory than sketch.memory_total = {}: raise it",
                self.granted.len() + 1,
                sketch.memory_total
            )
        })?;
        self.granted.insert(name.into(), memory.0);
        // All of it is for this one.
        Ok(budget.admit().unwrap_or(budget))
    }

    /// Waits for an interface to end; all its packets must have been delivered and
    /// its writer dropped.
    pub fn wait_for_end(&mut self) -> anyhow::Result<Summary> {
        let Ok(summary) = self.ended.recv() else {
            // The worker has failed: joining it says why.
            return Err(self
                .join()
                .err()
                .unwrap_or_else(|| anyhow::anyhow!("the sketch worker ended early")));
        };
        if !matches!(self.mode, Mode::Replay { serve: true, .. }) {
            self.granted.remove(&summary.name);
        }
        Ok(summary)
    }

    /// Whether the worker has ended, which it should not by itself.
    pub fn has_ended(&self) -> bool {
        self.worker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all rings are drained and the last windows are published.
    /// All writers must be gone. What is not drained after `limit` is counted as
    /// lost.
    pub fn finish(mut self, limit: Option<Duration>) -> anyhow::Result<Vec<Summary>> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let _ = self.handle.send(Request::Finish(deadline));
        self.join()?;
        if let Some((_, thread)) = self.saved.take() {
            writer::finish(thread);
        }
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

/// What is published: lists of `top` entries, and the pairs to watch, each once,
/// however its addresses are written.
fn lists(config: &Config, top: usize) -> Lists {
    let mut watch: Vec<Pair> = Vec::new();
    for pair in config.export.watch.iter().map(|watched| watched.0) {
        if !watch.contains(&pair) {
            watch.push(pair);
        }
    }
    Lists { top, watch }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A replay of many files would keep the lists of all of them otherwise.
    #[test]
    fn a_file_that_has_ended_is_kept_only_for_those_who_ask() {
        for serve in [false, true] {
            let mode = Mode::Replay {
                window: None,
                wanted: Wanted::default(),
                serve,
                linger: false,
                sketch: true,
            };
            let mut pipeline =
                Pipeline::start(&Config::default(), mode, 10, &Key::of_seed(1)).unwrap();
            for file in ["a", "b"] {
                drop(pipeline.add(file).unwrap());
                pipeline.wait_for_end().unwrap();
            }
            let shown = pipeline.snapshot.load().interfaces.len();
            assert_eq!(shown, if serve { 2 } else { 0 });
            pipeline.finish(None).unwrap();
        }
    }
}
