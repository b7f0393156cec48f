//! The captured interfaces, as they appear and vanish.
//!
//! All interfaces of the machine are listed when the kernel reports a change, and at a
//! regular interval, and compared with those that are captured. A new one is assigned to a
//! capture thread. One that has vanished keeps its windows and counters in case it comes
//! back, and is removed after two windows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::captured::{Captured, Difference};
use super::devices;
use super::kernel::Kernel;
use super::live::LiveInterface;
use super::network::{LinkState, Links, Network};
use super::open::Open;
use super::patterns::InterfacePatterns;
use super::settings::{CaptureSettings, Timing};
use super::sink::PacketSink;
use super::thread::{CaptureThread, Message};
use crate::config::{self, Config};
use crate::process::log::RateLimit;
use crate::ring::pipeline::{Pipeline, RenewalScope};
use crate::window::windows::Ended;

/// How long an interface that has vanished is kept, in windows.
const KEPT_WINDOWS: u32 = 2;

pub struct Interfaces {
    network: Arc<dyn Network>,
    timing: Timing,
    patterns: InterfacePatterns,
    config: config::Capture,
    keep: Duration,
    listed_at: Instant,
    captured: BTreeMap<String, Captured>,
    threads: Vec<CaptureThread>,
    /// Number of interfaces of each thread.
    loads: Vec<usize>,
    /// Interfaces whose names are not UTF-8 and for which a warning has been logged.
    unreadable: BTreeSet<String>,
    /// Number of interfaces that the buffers are divided by.
    shares: usize,
    waiting: Arc<ArcSwap<Vec<String>>>,
    shortage: RateLimit,
    stop: &'static AtomicBool,
}

impl Interfaces {
    /// The interfaces of this machine that match the configuration. None is captured yet.
    pub fn new(config: &Config, stop: &'static AtomicBool) -> Self {
        let kernel = Arc::new(Kernel::new());
        Self::with_network(kernel, Timing::default(), config, stop)
    }

    /// Like [`Self::new`], for another network and timing.
    pub fn with_network(
        network: Arc<dyn Network>,
        timing: Timing,
        config: &Config,
        stop: &'static AtomicBool,
    ) -> Self {
        Self {
            network,
            timing,
            patterns: (&config.capture).into(),
            config: config.capture.clone(),
            keep: config.window.length.0.saturating_mul(KEPT_WINDOWS),
            listed_at: Instant::now(),
            captured: BTreeMap::new(),
            threads: Vec::new(),
            loads: Vec::new(),
            unreadable: BTreeSet::new(),
            shares: 1,
            waiting: Arc::default(),
            shortage: RateLimit::default(),
            stop,
        }
    }

    /// Returns the names of matching interfaces that exist, and logs a warning for each
    /// name or pattern without one.
    pub fn existing(&self) -> anyhow::Result<Vec<String>> {
        self.patterns.check()?;
        let links = self.network.list()?.named;
        let there = self.patterns.matching(&links, |_| false);
        let all: Vec<&str> = links.iter().map(|(name, _)| name.as_str()).collect();
        let all = all.join(", ");
        for pattern in self.patterns.unmatched(&links) {
            let none = match pattern.is_name() {
                true => "no such interface:",
                false => "no interface matches",
            };
            tracing::warn!("{none} {pattern} (this machine has {all}); waiting for it");
        }
        if there.is_empty() && self.patterns.unmatched(&links).is_empty() {
            tracing::warn!("no interface to capture (this machine has {all}); waiting for one");
        }
        Ok(there.into_iter().map(str::to_owned).collect())
    }

    /// Captures all matching interfaces. An interface that is down or has just vanished is
    /// opened later, when it is up. Returns an error if none can be opened and at least one
    /// of them is up.
    pub fn start(&mut self, pipeline: &mut Pipeline) -> anyhow::Result<()> {
        let links = self.network.list()?;
        self.warn_unreadable(&links);
        let links = links.named;
        let there: HashSet<&str> = self
            .patterns
            .matching(&links, |_| false)
            .into_iter()
            .collect();
        self.share_out(pipeline, there.len());
        let mut failed = Vec::new();
        for (name, link_state) in links
            .iter()
            .filter(|(name, _)| there.contains(name.as_str()))
        {
            let thread = self.thread()?;
            let mut interface = self.prepare(pipeline, name)?;
            failed.extend(
                interface
                    .open()
                    .err()
                    .map(|error| (name, link_state, error)),
            );
            self.assign(interface, *link_state, thread);
        }
        // An interface that is down may come up later. If one that is up cannot be opened,
        // there is another reason.
        let faulty = failed.iter().position(|(_, link_state, _)| link_state.up);
        if let Some(faulty) = faulty.filter(|_| failed.len() == there.len()) {
            return Err(failed.swap_remove(faulty).2);
        }
        for (name, _, error) in failed {
            tracing::warn!(interface = name, "{error:#}; trying again");
        }
        self.publish_waiting();
        Ok(())
    }

    pub fn count(&self) -> usize {
        self.captured.len()
    }

    /// Returns an error if nothing could be captured with this configuration. If captures
    /// have to be opened again, interfaces are opened as a trial until one succeeds, and it is
    /// an error if all trials fail.
    pub fn check(&self, config: &config::Capture, pipeline: &Pipeline) -> anyhow::Result<()> {
        InterfacePatterns::from(config).check()?;
        let settings = |config| CaptureSettings::new(config, pipeline.share());
        if settings(config) == settings(&self.config) {
            return Ok(());
        }
        let mut refused = None;
        for name in self.captured.iter().filter_map(|(name, one)| {
            let there = one.link_state.up && one.gone.is_none() && !one.leaving;
            there.then_some(name)
        }) {
            match Open::new(&*self.network, name, &settings(config)) {
                Ok(_) => return Ok(()),
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Applies another configuration, which the pipeline has already applied.
    pub fn adopt(&mut self, config: &Config, pipeline: &mut Pipeline, scope: RenewalScope) {
        let patterns = InterfacePatterns::from(&config.capture);
        let other = std::mem::replace(&mut self.patterns, patterns) != self.patterns;
        self.config = config.capture.clone();
        self.keep = config.window.length.0.saturating_mul(KEPT_WINDOWS);
        self.change(pipeline, scope);
        // This logs names and patterns without an interface.
        if other && let Err(error) = self.existing() {
            tracing::warn!("{error:#}");
        }
        self.update(pipeline);
    }

    /// Names and patterns without an interface; kept up to date.
    pub fn waiting(&self) -> Arc<ArcSwap<Vec<String>>> {
        Arc::clone(&self.waiting)
    }

    /// Waits for at most `time` and handles interfaces that appeared or vanished. Returns
    /// the interfaces that ended.
    pub fn wait(&mut self, pipeline: &mut Pipeline, time: Duration) -> Vec<Ended> {
        let changed = self.network.wait_for_change(time);
        if changed {
            // Several changes in a row are handled with one list.
            let pause = self.timing.list_pause;
            thread::sleep(pause.saturating_sub(self.listed_at.elapsed()));
        }
        if changed || self.listed_at.elapsed() >= self.timing.list_interval {
            self.update(pipeline);
        }
        let ended: Vec<Ended> = pipeline.ended().collect();
        for one in &ended {
            if let Some(captured) = self.captured.remove(&one.name) {
                self.loads[captured.thread] -= 1;
            }
        }
        // After a stop all interfaces end, and none may be started again.
        if !ended.is_empty() && !self.stop.load(Relaxed) {
            self.share_out(pipeline, self.captured.len());
            self.update(pipeline);
        }
        ended
    }

    /// Whether a capture thread has ended, which is a fault unless the agent stops.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(CaptureThread::has_ended)
    }

    /// Waits for the end of all threads after a stop.
    pub fn join(self) -> anyhow::Result<()> {
        let ended: Vec<_> = self.threads.into_iter().map(CaptureThread::join).collect();
        ended.into_iter().collect()
    }

    /// Compares all interfaces with those that are captured, and handles the difference.
    fn update(&mut self, pipeline: &mut Pipeline) {
        self.listed_at = Instant::now();
        let links = match self.network.list() {
            Ok(links) => links,
            Err(error) => {
                if self.shortage.allows() {
                    tracing::warn!("{error:#}; trying again");
                }
                return;
            }
        };
        self.warn_unreadable(&links);
        let captured = &mut self.captured;
        let found = Difference::find(links.named, captured, &self.patterns, self.keep);
        for name in found.changed {
            self.send(&name, Message::Check(name.clone()));
        }
        for name in found.excluded {
            pipeline.forget(&name);
            self.send(&name, Message::Drop(name.clone()));
        }
        let new = found.new;
        if !new.is_empty() {
            self.share_out(pipeline, self.captured.len() + new.len());
        }
        for (name, link_state) in new {
            if let Err(error) = self.add(pipeline, &name, link_state)
                && self.shortage.allows()
            {
                tracing::warn!(
                    interface = name,
                    "cannot be captured: {error:#}; trying again"
                );
            }
        }
        self.publish_waiting();
    }

    fn send(&self, name: &str, message: Message) {
        if let Some(captured) = self.captured.get(name) {
            self.threads[captured.thread].send(message);
        }
    }

    /// Logs a warning for each matching interface whose name is not UTF-8, once as long as
    /// it exists.
    fn warn_unreadable(&mut self, links: &Links) {
        let matching = self.patterns.matching(&links.unreadable, |_| false);
        let named: BTreeSet<String> = matching.into_iter().map(str::to_owned).collect();
        for name in named.difference(&self.unreadable) {
            tracing::warn!("interface {name} is not captured: {}", devices::UNREADABLE);
        }
        self.unreadable = named;
    }

    fn add(
        &mut self,
        pipeline: &mut Pipeline,
        name: &str,
        link_state: LinkState,
    ) -> anyhow::Result<()> {
        let thread = self.thread()?;
        let interface = self.prepare(pipeline, name)?;
        self.assign(interface, link_state, thread);
        Ok(())
    }

    fn prepare(&self, pipeline: &mut Pipeline, name: &str) -> anyhow::Result<LiveInterface> {
        let sink = PacketSink::new(pipeline.add(name)?, &self.config);
        let settings = CaptureSettings::new(&self.config, pipeline.share());
        let network = Arc::clone(&self.network);
        let timing = self.timing;
        Ok(LiveInterface::new(name, network, sink, settings, timing))
    }

    /// Returns the thread with the fewest interfaces. Each core gets a thread before any
    /// thread gets a second interface.
    fn thread(&mut self) -> anyhow::Result<usize> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let idlest = (0..self.threads.len()).min_by_key(|thread| self.loads[*thread]);
        if let Some(idlest) = idlest
            && (self.loads[idlest] == 0 || self.threads.len() >= cores)
        {
            return Ok(idlest);
        }
        let thread = CaptureThread::start(self.timing, self.stop).map_err(devices::explain)?;
        self.threads.push(thread);
        self.loads.push(0);
        Ok(self.threads.len() - 1)
    }

    fn assign(&mut self, interface: LiveInterface, link_state: LinkState, thread: usize) {
        let captured = Captured {
            thread,
            link_state,
            tally: interface.tally(),
            gone: None,
            leaving: false,
        };
        self.captured.insert(interface.name().into(), captured);
        self.loads[thread] += 1;
        self.threads[thread].send(Message::Capture(Box::new(interface)));
    }

    /// Divides the buffers among this many interfaces. The number changes in powers of two,
    /// because every change reopens all captures.
    fn share_out(&mut self, pipeline: &mut Pipeline, interfaces: usize) {
        let shares = match self.shares {
            _ if self.captured.is_empty() => interfaces,
            enough if interfaces > enough => interfaces.next_power_of_two(),
            enough if interfaces <= enough / 4 => (2 * interfaces).next_power_of_two(),
            enough => enough,
        };
        if std::mem::replace(&mut self.shares, shares.max(1)) != self.shares {
            pipeline.share_out(self.shares);
            self.change(pipeline, RenewalScope::Share);
        }
    }

    /// Sends the current settings to every interface.
    fn change(&self, pipeline: &Pipeline, scope: RenewalScope) {
        let settings = CaptureSettings::new(&self.config, pipeline.share());
        for (name, captured) in self.captured.iter().filter(|(_, one)| !one.leaving) {
            let ring = pipeline.hand_over(name, &captured.tally, scope);
            let choice = (&self.config).into();
            let change = Message::Change(name.clone(), ring, settings.clone(), choice);
            self.threads[captured.thread].send(change);
        }
    }

    fn publish_waiting(&self) {
        let there = self.captured.iter();
        let there = there.filter(|(_, one)| one.gone.is_none() && !one.leaving);
        let there: Vec<&str> = there.map(|(name, _)| name.as_str()).collect();
        self.waiting.store(Arc::new(self.patterns.missing(&there)));
    }
}
