//! The interfaces that are captured: those that are wanted, as they come and go.
//!
//! Whenever the kernel says that an interface came, went or changed, and every now
//! and then, all there are get listed and compared with those that are captured.
//! One that came is handed to a capture thread. One that went is kept, with its
//! windows and counters, in case it comes back, and forgotten after two windows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use arc_swap::ArcSwap;

use super::captured::{Captured, Difference};
use super::devices;
use super::live::LiveInterface;
use super::netlink::{self, Changes, Known, Links};
use super::open::Settings;
use super::sink::PacketSink;
use super::thread::{CaptureThread, Message};
use super::wanted::Wanted;
use crate::config::{self, Config};
use crate::log::RateLimit;
use crate::sketch::pipeline::{Extent, Pipeline};
use crate::sketch::summary::Summary;

/// Pause between two lists, however many messages come.
const PAUSE: Duration = Duration::from_millis(250);
/// Pause between two lists when no message comes: one may have been lost, and
/// something may have to be forgotten.
const ANYWAY: Duration = Duration::from_secs(1);
/// Windows for which one that is gone is kept.
const KEPT: u32 = 2;

/// All interfaces that are captured. See the head of this module.
pub struct Interfaces {
    wanted: Wanted,
    config: config::Capture,
    keep: Duration,
    changes: Option<Changes>,
    listed_at: Instant,
    captured: BTreeMap<String, Captured>,
    threads: Vec<CaptureThread>,
    /// How many interfaces each of them has.
    loads: Vec<usize>,
    /// Interfaces that cannot be captured because of their names, which was said.
    unreadable: BTreeSet<String>,
    /// How many interfaces the buffers are cut for.
    shares: usize,
    waiting: Arc<ArcSwap<Vec<String>>>,
    shortage: RateLimit,
    stop: &'static AtomicBool,
}

impl Interfaces {
    /// The interfaces that are wanted, none of which is captured yet.
    pub fn new(config: &Config, stop: &'static AtomicBool) -> Self {
        let changes = Changes::listen().inspect_err(|error| {
            tracing::warn!(%error, "the kernel does not tell of new interfaces; looking every second");
        });
        Self {
            wanted: (&config.capture).into(),
            config: config.capture.clone(),
            keep: config.window.length.0.saturating_mul(KEPT),
            changes: changes.ok(),
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

    /// The names of those that are there, and a warning for those that are not.
    pub fn there(&self) -> anyhow::Result<Vec<String>> {
        self.wanted.check()?;
        let links = list()?.named;
        let there = self.wanted.among(&links, |_| false);
        let all: Vec<&str> = links.iter().map(|(name, _)| name.as_str()).collect();
        let all = all.join(", ");
        for pattern in self.wanted.unmatched(&links) {
            let none = match pattern.is_name() {
                true => "no such interface:",
                false => "no interface matches",
            };
            tracing::warn!("{none} {pattern} (this machine has {all}); waiting for it");
        }
        if there.is_empty() && self.wanted.unmatched(&links).is_empty() {
            tracing::warn!("no interface to capture (this machine has {all}); waiting for one");
        }
        Ok(there.into_iter().map(str::to_owned).collect())
    }

    /// Captures all that are there. One that is down or gone by now is opened when
    /// it is back; if none can be opened, that is an error.
    pub fn start(&mut self, pipeline: &mut Pipeline) -> anyhow::Result<()> {
        let links = list()?;
        self.name_unreadable(&links);
        let links = links.named;
        let there: HashSet<&str> = self.wanted.among(&links, |_| false).into_iter().collect();
        self.share_out(pipeline, there.len());
        let mut failed = Vec::new();
        for (name, known) in links
            .iter()
            .filter(|(name, _)| there.contains(name.as_str()))
        {
            let thread = self.thread()?;
            let mut interface = self.prepare(pipeline, name)?;
            failed.extend(interface.open().err().map(|error| (name, known, error)));
            self.hand_out(interface, *known, thread);
        }
        // One that is down may come up; one that is up has another fault.
        let faulty = failed.iter().position(|(_, known, _)| known.up);
        if let Some(faulty) = faulty.filter(|_| failed.len() == there.len()) {
            return Err(failed.swap_remove(faulty).2);
        }
        for (name, _, error) in failed {
            tracing::warn!(interface = name, "{error:#}; trying again");
        }
        self.tell_waiting();
        Ok(())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.captured.len()
    }

    /// Refuses a configuration by which nothing could be captured. Where captures have
    /// to be opened in another way, one is: like a start, which fails if all do.
    pub fn check(&self, config: &config::Capture, pipeline: &Pipeline) -> anyhow::Result<()> {
        Wanted::from(config).check()?;
        let settings = |config| Settings::new(config, pipeline.share());
        if settings(config) == settings(&self.config) {
            return Ok(());
        }
        let mut refused = None;
        for name in self.captured.iter().filter_map(|(name, one)| {
            let there = one.known.up && one.gone.is_none() && !one.leaving;
            there.then_some(name)
        }) {
            match settings(config).open(name) {
                Ok(_) => return Ok(()),
                Err(error) => refused = Some(error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Captures by another configuration from now on, which the pipeline has adopted.
    pub fn adopt(&mut self, config: &Config, pipeline: &mut Pipeline, extent: Extent) {
        let wanted = Wanted::from(&config.capture);
        let other = std::mem::replace(&mut self.wanted, wanted) != self.wanted;
        self.config = config.capture.clone();
        self.keep = config.window.length.0.saturating_mul(KEPT);
        self.change(pipeline, extent);
        // Says what is waited for.
        if other && let Err(error) = self.there() {
            tracing::warn!("{error:#}");
        }
        self.look(pipeline);
    }

    /// What is waited for, kept up to date.
    pub fn waiting(&self) -> Arc<ArcSwap<Vec<String>>> {
        Arc::clone(&self.waiting)
    }

    /// Waits for `time` at most, and keeps up with interfaces that come and go. Those
    /// that ended are returned.
    pub fn wait(&mut self, pipeline: &mut Pipeline, time: Duration) -> Vec<Summary> {
        let changed = match &self.changes {
            Some(changes) => changes.wait(time),
            None => {
                thread::sleep(time);
                false
            }
        };
        if changed {
            // So that many messages are one list.
            thread::sleep(PAUSE.saturating_sub(self.listed_at.elapsed()));
        }
        if changed || self.listed_at.elapsed() >= ANYWAY {
            self.look(pipeline);
        }
        let ended: Vec<Summary> = pipeline.ended().collect();
        for summary in &ended {
            if let Some(captured) = self.captured.remove(&summary.name) {
                self.loads[captured.thread] -= 1;
            }
        }
        // After a stop all end, and none shall begin again.
        if !ended.is_empty() && !self.stop.load(Relaxed) {
            self.share_out(pipeline, self.captured.len());
            self.look(pipeline);
        }
        ended
    }

    /// Whether a capture thread has ended, which none should by itself.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(CaptureThread::has_ended)
    }

    /// Waits for all threads to end, after a stop.
    pub fn join(self) -> anyhow::Result<()> {
        let ended: Vec<_> = self.threads.into_iter().map(CaptureThread::join).collect();
        ended.into_iter().collect()
    }

    /// Compares what there is with what is captured.
    fn look(&mut self, pipeline: &mut Pipeline) {
        self.listed_at = Instant::now();
        let links = match list() {
            Ok(links) => links,
            Err(error) => {
                if self.shortage.allows() {
                    tracing::warn!("{error:#}; trying again");
                }
                return;
            }
        };
        self.name_unreadable(&links);
        let captured = &mut self.captured;
        let found = Difference::find(links.named, captured, &self.wanted, self.keep);
        for name in found.changed {
            self.tell(&name, Message::Look(name.clone()));
        }
        for name in found.unwanted {
            pipeline.forget(&name);
            self.tell(&name, Message::Drop(name.clone()));
        }
        let new = found.new;
        if !new.is_empty() {
            self.share_out(pipeline, self.captured.len() + new.len());
        }
        for (name, known) in new {
            if let Err(error) = self.add(pipeline, &name, known)
                && self.shortage.allows()
            {
                tracing::warn!(
                    interface = name,
                    "cannot be captured: {error:#}; trying again"
                );
            }
        }
        self.tell_waiting();
    }

    /// Tells the thread that captures an interface something about it.
    fn tell(&self, name: &str, message: Message) {
        if let Some(captured) = self.captured.get(name) {
            self.threads[captured.thread].tell(message);
        }
    }

    /// Warns of interfaces that are wanted and cannot be captured, each once while it is
    /// there.
    fn name_unreadable(&mut self, links: &Links) {
        let wanted = self.wanted.among(&links.unreadable, |_| false);
        let named: BTreeSet<String> = wanted.into_iter().map(str::to_owned).collect();
        for name in named.difference(&self.unreadable) {
            tracing::warn!("interface {name} is not captured: {}", devices::UNREADABLE);
        }
        self.unreadable = named;
    }

    fn add(&mut self, pipeline: &mut Pipeline, name: &str, known: Known) -> anyhow::Result<()> {
        let thread = self.thread()?;
        let interface = self.prepare(pipeline, name)?;
        self.hand_out(interface, known, thread);
        Ok(())
    }

    fn prepare(&self, pipeline: &mut Pipeline, name: &str) -> anyhow::Result<LiveInterface> {
        let sink = PacketSink::new(pipeline.add(name)?, &self.config);
        let settings = Settings::new(&self.config, pipeline.share());
        Ok(LiveInterface::new(name, sink, settings))
    }

    /// The thread that has fewest interfaces; there is one for each core before any
    /// has two.
    fn thread(&mut self) -> anyhow::Result<usize> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let idlest = (0..self.threads.len()).min_by_key(|thread| self.loads[*thread]);
        if let Some(idlest) = idlest
            && (self.loads[idlest] == 0 || self.threads.len() >= cores)
        {
            return Ok(idlest);
        }
        let thread = CaptureThread::start(self.stop).map_err(devices::explain)?;
        self.threads.push(thread);
        self.loads.push(0);
        Ok(self.threads.len() - 1)
    }

    fn hand_out(&mut self, interface: LiveInterface, known: Known, thread: usize) {
        let captured = Captured {
            thread,
            known,
            tally: interface.tally(),
            gone: None,
            leaving: false,
        };
        self.captured.insert(interface.name().into(), captured);
        self.loads[thread] += 1;
        self.threads[thread].tell(Message::Capture(Box::new(interface)));
    }

    /// Cuts the buffers for so many interfaces, in steps: each change of its share
    /// costs every interface another capture.
    fn share_out(&mut self, pipeline: &mut Pipeline, interfaces: usize) {
        let shares = match self.shares {
            _ if self.captured.is_empty() => interfaces,
            enough if interfaces > enough => interfaces.next_power_of_two(),
            enough if interfaces <= enough / 4 => (2 * interfaces).next_power_of_two(),
            enough => enough,
        };
        if std::mem::replace(&mut self.shares, shares.max(1)) != self.shares {
            pipeline.share_out(self.shares);
            self.change(pipeline, Extent::Share);
        }
    }

    /// Tells every interface how it is captured.
    fn change(&self, pipeline: &Pipeline, extent: Extent) {
        let settings = Settings::new(&self.config, pipeline.share());
        for (name, captured) in self.captured.iter().filter(|(_, one)| !one.leaving) {
            let ring = pipeline.hand_over(name, &captured.tally, extent);
            let choice = (&self.config).into();
            let change = Message::Change(name.clone(), ring, settings.clone(), choice);
            self.threads[captured.thread].tell(change);
        }
    }

    /// Says what is waited for.
    fn tell_waiting(&self) {
        let there = self.captured.iter();
        let there = there.filter(|(_, one)| one.gone.is_none() && !one.leaving);
        let there: Vec<&str> = there.map(|(name, _)| name.as_str()).collect();
        self.waiting.store(Arc::new(self.wanted.missing(&there)));
    }
}

fn list() -> anyhow::Result<Links> {
    let links = netlink::all().map_err(devices::explain);
    links.context("interfaces cannot be listed")
}
