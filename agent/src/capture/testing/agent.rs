//! An agent on a fake network: interfaces and pipeline, connected as in `run`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crane_model::DeviceChoice;

use super::network::FakeNetwork;
use crate::capture::interfaces::Interfaces;
use crate::capture::settings::Timing;
use crate::config::Config;
use crate::config::length::WindowLength;
use crate::ring::pipeline::{Mode, Pipeline};
use crate::ring::reader::Reader;
use crate::sketches::key::Key;
use crate::traffic::tally::Tally;
use crate::window::windows::Ended;

/// Timeout for a condition, long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Times for tests, much shorter than the defaults.
pub const TIMING: Timing = Timing {
    tick: Duration::from_millis(1),
    retry: Duration::from_millis(3),
    quiet: Duration::from_millis(10),
    delivery: Duration::from_millis(3),
    list_pause: Duration::from_millis(1),
    list_interval: Duration::from_millis(5),
};

pub struct TestAgent {
    config: Config,
    interfaces: Interfaces,
    pipeline: Pipeline,
    stop: &'static AtomicBool,
    /// Interfaces that were removed.
    pub ended: Vec<Ended>,
}

impl TestAgent {
    /// Starts an agent on all interfaces of a network. Windows are longer than any test;
    /// `change` may set other values.
    pub fn start(network: &FakeNetwork, change: impl FnOnce(&mut Config)) -> Self {
        Self::try_start(network, change).unwrap()
    }

    /// Like [`Self::start`], but returns the error if the agent cannot be started.
    pub fn try_start(
        network: &FakeNetwork,
        change: impl FnOnce(&mut Config),
    ) -> anyhow::Result<Self> {
        let mut config = Config::default();
        config.sketch.device = DeviceChoice::Cpu;
        config.sketch.linger_ms = 1;
        config.window.length = WindowLength::seconds(366 * 86_400);
        change(&mut config);
        let stop: &AtomicBool = Box::leak(Box::default());
        let mut interfaces =
            Interfaces::with_network(Arc::new(network.clone()), TIMING, &config, stop);
        let mode = Mode::Live(interfaces.existing()?.len(), config.window.length);
        let mut pipeline = Pipeline::start(&config, mode, &Key::of_seed(1))?;
        interfaces.start(&mut pipeline)?;
        let count = interfaces.count();
        let mut agent = Self {
            config,
            interfaces,
            pipeline,
            stop,
            ended: Vec::new(),
        };
        agent.wait_until("all interfaces are published", |agent| {
            agent.pipeline.snapshot().load().interfaces.len() >= count
        });
        Ok(agent)
    }

    /// Runs the agent until a condition holds.
    pub fn wait_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < LIMIT, "not in time: {what}");
            self.work();
        }
    }

    /// Runs the agent for this time.
    pub fn work_for(&mut self, time: Duration) {
        let start = Instant::now();
        while start.elapsed() < time {
            self.work();
        }
    }

    fn work(&mut self) {
        let time = Duration::from_millis(1);
        let ended = self.interfaces.wait(&mut self.pipeline, time);
        self.ended.extend(ended);
        assert!(!self.pipeline.has_ended() && !self.interfaces.has_ended());
    }

    /// Applies another configuration like `reload`: completely, or not at all.
    pub fn reload(&mut self, change: impl FnOnce(&mut Config)) -> anyhow::Result<()> {
        let mut config = self.config.clone();
        change(&mut config);
        let (interfaces, pipeline) = (&mut self.interfaces, &mut self.pipeline);
        interfaces.check(&config.capture, pipeline)?;
        let prepared = pipeline.prepare(&config, interfaces.count())?;
        let extent = pipeline.adopt(prepared);
        interfaces.adopt(&config, pipeline, extent);
        self.config = config;
        Ok(())
    }

    pub fn waiting(&self) -> Vec<String> {
        self.interfaces.waiting().load().to_vec()
    }

    /// Returns the counters of an interface, or `None` if it is not published.
    pub fn tally(&self, name: &str) -> Option<Arc<Tally>> {
        let snapshot = self.pipeline.snapshot().load_full();
        let view = snapshot.interfaces.iter().find(|view| view.name == name);
        view.map(|view| Arc::clone(&view.tally))
    }

    /// Whether an interface is captured and up.
    pub fn is_up(&self, name: &str) -> bool {
        self.tally(name).is_some_and(|tally| tally.up.load(Relaxed))
    }

    /// Returns how many packets of an interface were stored.
    pub fn stored(&self, name: &str) -> u64 {
        let tally = self.tally(name);
        tally.map_or(0, |tally| tally.edges.load(Relaxed))
    }

    /// Answers queries about the windows of the agent.
    pub fn reader(&self) -> Reader {
        self.pipeline.reader()
    }

    /// Returns the start and the packets of the last complete window of an interface.
    pub fn last_window(&self, name: &str) -> Option<(u64, u64)> {
        let snapshot = self.pipeline.snapshot().load_full();
        let view = snapshot.interfaces.iter().find(|view| view.name == name)?;
        let last = view.last.as_deref()?;
        Some((last.start, last.packets))
    }

    /// Stops the agent after all packets are stored.
    pub fn stop(self) -> Vec<Ended> {
        self.stop.store(true, Relaxed);
        self.interfaces.join().unwrap();
        self.pipeline.finish(None).unwrap()
    }
}

/// Asserts that every packet is in exactly one counter.
pub fn assert_conserved(tally: &Tally) {
    assert_eq!(tally.outstanding(), 0, "{tally:?}");
}
