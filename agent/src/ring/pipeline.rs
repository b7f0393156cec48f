//! The part that live capture and replay share: rings, worker, windows and snapshot.

mod ended;
mod reload;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;

use super::edge_ring::{RingReader, RingWriter, ring};
use super::interface::{Interface, Options};
use super::reader::Reader;
use super::worker::{Request, Worker, WorkerHandle};
use crate::config::length::WindowLength;
use crate::config::size::Size;
use crate::config::{self, Config};
use crate::lookup::Lookup;
use crate::process::clock::wall_clock;
use crate::saved::folder::Folder;
use crate::saved::settings::Settings;
use crate::saved::writer;
use crate::sketches::Blueprint;
use crate::sketches::budget::{Budget, working_memory};
use crate::sketches::key::Key;
use crate::text::units::grouped;
use crate::traffic::batch::Cut;
use crate::traffic::names::Names;
use crate::traffic::slot::Slot;
use crate::traffic::tally::Tally;
use crate::window::snapshot::Snapshot;
use crate::window::windows::{self, Ended, OnTurn};
use crate::window::{PacketTime, WallWindows, WindowClock};

pub use ended::Listener;
pub use reload::RenewalScope;

/// Rings may take one part in this many of the capture buffers.
const RING_SHARE: u64 = 4;
/// Least number of slots of a ring.
const LEAST_SLOTS: usize = 1024;
/// Least memory for the sketches of a file, if that much is left.
const LEAST_OF_A_FILE: u64 = 128 << 10;

pub enum Mode {
    /// Interfaces that appear and vanish and share all memory: their number at the start, and the
    /// length of windows by the clock.
    Live(usize, WindowLength),
    /// Files. Each is independent of the others, so that the same packets give the same answers.
    Replay {
        /// Length of windows. `None` for a single one.
        window: Option<WindowLength>,
        /// Whether all pairs are also counted exactly.
        exact: bool,
        /// Called for every window that ends.
        on_turn: Option<OnTurn>,
        /// Whether files that have ended can still be queried.
        serve: bool,
        /// Whether packets arrive at the speed of a capture. Then they do not wait long for a
        /// full batch.
        linger: bool,
        /// Whether packets are stored; otherwise they are only decoded.
        sketch: bool,
        /// Threads that may be used.
        jobs: usize,
    },
}

/// What a capture needs to write to an interface.
pub struct InterfaceWriter {
    pub ring: RingWriter,
    pub tally: Arc<Tally>,
    /// Seed that selects the packets of a sample.
    pub sampling: u64,
}

/// A running pipeline.
pub struct Pipeline {
    snapshot: Arc<ArcSwap<Snapshot>>,
    handle: WorkerHandle,
    ended: Receiver<Ended>,
    config: Config,
    mode: Mode,
    blueprint: Arc<Blueprint>,
    names: Option<Arc<Names>>,
    lookup: Arc<Lookup>,
    shared: Budget,
    windows: u64,
    /// Number of parts that buffers are divided into.
    shares: usize,
    /// Seed that selects the packets of a sample.
    sampling: u64,
    /// Memory of each file, by the name of its interface.
    granted: HashMap<String, u64>,
    /// Windows of the previous run, and the thread that saves those of this one.
    saved: Option<(Folder, JoinHandle<()>)>,
    /// Settings that windows are saved with.
    settings: Option<Arc<Settings>>,
    listener: Option<Listener>,
    worker: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Pipeline {
    /// Starts a worker without interfaces.
    pub fn start(config: &Config, mode: Mode, key: &Key) -> anyhow::Result<Self> {
        let blueprint = Blueprint::new(&config.sketch, key.secret)?;
        let names = config.networks.clone();
        let lookup = Lookup::new(Arc::clone(&config.databases), config.name_servers());
        let (sharing, windows, cut, keep_ended) = match mode {
            Mode::Live(interfaces, _) => (interfaces, 2, Cut::Linger(config.sketch.linger()), true),
            Mode::Replay { serve, linger, .. } => {
                // A file with a single window has the memory of a live window, too, so that the
                // answers are the same.
                let cut = match linger {
                    true => Cut::Linger(config.sketch.linger()),
                    false => Cut::Count,
                };
                (1, 2, cut, serve)
            }
        };
        let budget = Budget::shared(&config.sketch, sharing, windows, blueprint.least())?;
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot {
            interfaces: Vec::new(),
            names: names.clone(),
            lookup: Arc::clone(&lookup),
            published: Instant::now(),
        }));
        let (requests, receiver) = mpsc::channel();
        let (ending, ended) = mpsc::channel();
        let worker = Worker {
            requests: receiver,
            ended: ending,
            cut,
            keep_ended,
            publishes: keep_ended || matches!(mode, Mode::Live(..)),
            // A replay ends after a panic, because its answers would not be those of the file.
            live: matches!(mode, Mode::Live(..)),
            second_thread: matches!(mode, Mode::Replay { jobs: 2.., .. }),
            names: names.clone(),
            lookup: Arc::clone(&lookup),
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
            lookup,
            shared: budget,
            windows,
            shares: sharing.max(1),
            sampling: key.sampling,
            granted: HashMap::new(),
            saved: None,
            settings: None,
            listener: None,
            worker: Some(worker),
        })
    }

    /// Resumes the windows in this folder, each when its interface is added, and saves windows
    /// there. Must be called before an interface is added.
    pub fn keep_windows(&mut self, mut folder: Folder, key: &Key) -> anyhow::Result<()> {
        let settings = Settings::of(&self.config, &key.secret, self.blueprint.weights());
        folder.scan(settings.clone())?;
        let interval = self.config.state.interval.0;
        let (saver, thread) = writer::start(folder.files(), interval)?;
        let sent = self.handle.send(Request::Save(saver));
        sent.map_err(|_| anyhow::anyhow!("the sketch worker has ended"))?;
        self.saved = Some((folder, thread));
        self.settings = Some(Arc::new(settings));
        self.end_saved();
        Ok(())
    }

    /// The published state of all interfaces.
    pub fn snapshot(&self) -> Arc<ArcSwap<Snapshot>> {
        Arc::clone(&self.snapshot)
    }

    /// Queries windows from other threads.
    pub fn reader(&self) -> Reader {
        Reader::new(self.snapshot(), self.handle.clone())
    }

    /// Name of the device on which sketches run.
    pub fn device(&self) -> &str {
        self.blueprint.device_name()
    }

    /// Adds an interface or file. It ends when the returned writer is dropped.
    pub fn add(&mut self, name: &str) -> anyhow::Result<InterfaceWriter> {
        let (budget, clock, exact, on_turn) = match &self.mode {
            &Mode::Live(_, length) => {
                let windows = WallWindows::new(length, Instant::now(), wall_clock());
                let listener = self.listener.as_ref();
                let on_turn = listener.map(|listener| Arc::clone(&listener.on_turn));
                (self.admit()?, WindowClock::Wall(windows), false, on_turn)
            }
            Mode::Replay {
                window,
                exact,
                on_turn,
                ..
            } => {
                let by_packets = |length| WindowClock::Packets(PacketTime::new(length));
                let clock = window.map_or(WindowClock::Never, by_packets);
                let (exact, on_turn) = (*exact, on_turn.clone());
                (self.budget_of_a_file(name)?, clock, exact, on_turn)
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
            ring: reader,
            stores: !matches!(self.mode, Mode::Replay { sketch: false, .. }),
            settings: self.settings.clone(),
            windows: windows::Options {
                interface: name.into(),
                tally,
                clock,
                scale: u64::from(capture.sample),
                blueprint: Arc::clone(&self.blueprint),
                budget,
                names: self.names.clone(),
                lookup: Arc::clone(&self.lookup),
                whole: true,
                exact,
                on_turn,
            },
        })?;
        if let Some((mut folder, thread)) = self.saved.take() {
            folder.end_if(name, |window| self.was_reported(window));
            folder.resume(name, |window, sketches| {
                let age = window.age(wall_clock()).unwrap_or(window.left);
                interface.resume(window, sketches, age)?;
                let (packets, unseen) = (grouped(window.packets), age as f64 / 1e9);
                tracing::info!(
                    interface = name,
                    "window resumed: {packets} packets; the {unseen:.1} s since it was \
                     saved were not seen"
                );
                Ok(())
            });
            self.saved = Some((folder, thread));
            self.end_saved();
        }
        let sent = self.handle.send(Request::Interface(Box::new(interface)));
        sent.map_err(|_| anyhow::anyhow!("the sketch worker has ended"))?;
        Ok(writer)
    }

    /// Reserves memory for another interface.
    fn admit(&self) -> anyhow::Result<Budget> {
        let total = self.config.sketch.memory_total;
        let budget = self.shared.admit();
        budget.with_context(|| format!("sketch.memory_total = {total} is used up: raise it"))
    }

    /// Divides buffers into this many parts from now on.
    pub fn share_out(&mut self, shares: usize) {
        self.shares = shares.max(1);
    }

    /// Bytes of the kernel buffer of one interface.
    pub fn share(&self) -> u64 {
        self.config.capture.buffer_total.0 / self.shares as u64
    }

    /// Number of slots of a ring.
    fn slots(&self) -> usize {
        let slots = self.share() / RING_SHARE / size_of::<Slot>() as u64;
        (slots as usize).clamp(LEAST_SLOTS, self.config.capture.ring_slots)
    }

    fn ring(&self) -> (RingWriter, RingReader) {
        ring(self.slots(), self.handle.worker(), self.config.sketch.batch)
    }

    /// Removes an interface when its writer is dropped.
    pub fn forget(&self, name: &str) {
        // A worker that has ended has no interfaces.
        let _ = self.handle.send(Request::Forget(name.into()));
    }

    /// Interfaces that have ended since the last call.
    pub fn ended(&self) -> impl Iterator<Item = Ended> {
        self.ended.try_iter()
    }

    /// Memory of a file. Files share none, so that they cannot change each other's answers. Each
    /// gets an eighth of what is left, and no more than an interface. A file that is divided into
    /// windows gets half as much again: its sketches of all packets exist beside those of two
    /// windows, and each has as much memory as the sketches of a file that is not divided.
    fn budget_of_a_file(&mut self, name: &str) -> anyhow::Result<Budget> {
        let sketch = &self.config.sketch;
        let taken = working_memory(sketch) + self.granted.values().sum::<u64>();
        let left = sketch.memory_total.0.saturating_sub(taken);
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
        // This file gets the whole budget.
        Ok(budget.admit().unwrap_or(budget))
    }

    /// Waits for an interface to end. All its packets must have been delivered and its writer
    /// dropped.
    pub fn wait_for_end(&mut self) -> anyhow::Result<Ended> {
        let Ok(ended) = self.ended.recv() else {
            // The worker has failed; joining it returns the reason.
            return Err(self
                .join()
                .err()
                .unwrap_or_else(|| anyhow::anyhow!("the sketch worker ended early")));
        };
        if !matches!(self.mode, Mode::Replay { serve: true, .. }) {
            self.granted.remove(&ended.name);
        }
        Ok(ended)
    }

    /// Whether the worker has ended, which it does by itself only after an error.
    pub fn has_ended(&self) -> bool {
        self.worker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all rings are drained and the last windows are published. All writers must have
    /// been dropped. What is not drained after `limit` is counted as lost.
    pub fn finish(mut self, limit: Option<Duration>) -> anyhow::Result<Vec<Ended>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A replay of many files would keep the lists of all of them otherwise.
    #[test]
    fn a_file_that_has_ended_is_kept_only_if_queries_are_served() {
        for serve in [false, true] {
            let mode = Mode::Replay {
                window: None,
                exact: false,
                on_turn: None,
                serve,
                linger: false,
                sketch: true,
                jobs: 1,
            };
            let mut pipeline = Pipeline::start(&Config::default(), mode, &Key::of_seed(1)).unwrap();
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
