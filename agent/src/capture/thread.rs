//! A capture thread.
//!
//! A few threads share all interfaces. Each waits on all of its interfaces at once and
//! reads those that have packets, so an idle interface costs nothing.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::live::LiveInterface;
use super::settings::{CaptureSettings, Timing};
use super::sink::Choice;
use crate::process::panics;
use crate::ring::edge_ring::RingWriter;

/// Longest time for which a stop still reads packets that the kernel holds.
const DRAIN_LIMIT: Duration = Duration::from_millis(300);
/// How long packets are collected if they are not delivered in blocks: otherwise every
/// packet would wake the thread.
const COLLECT_TIME: Duration = Duration::from_millis(1);
/// Most interfaces reported by one wait.
const MAX_EVENTS: usize = 256;

/// A message to a capture thread. Interfaces are identified by name.
pub enum Message {
    /// Start to capture this interface.
    Capture(Box<LiveInterface>),
    /// Apply other settings, and use another ring if there is one.
    Change(String, Option<RingWriter>, CaptureSettings, Choice),
    /// Check the interface, because something may have changed.
    Check(String),
    /// End the capture of this interface.
    Drop(String),
}

/// Handle of a capture thread. The thread ends when the `stop` it was started with is set.
pub struct CaptureThread {
    messages: Sender<Message>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl CaptureThread {
    /// Starts a thread without interfaces.
    pub fn start(timing: Timing, stop: &'static AtomicBool) -> anyhow::Result<Self> {
        let (messages, inbox) = mpsc::channel();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let state = ThreadState {
            timing,
            inbox,
            epoll,
            interfaces: BTreeMap::new(),
            numbers: HashMap::new(),
            next_number: 0,
            at: None,
        };
        let thread = thread::Builder::new()
            .name("capture".into())
            .spawn(move || state.run(stop))?;
        Ok(Self { messages, thread })
    }

    /// Sends a message. If the thread has ended, the message is discarded;
    /// [`Self::has_ended`] reports that.
    pub fn send(&self, message: Message) {
        let _ = self.messages.send(message);
    }

    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub fn join(self) -> anyhow::Result<()> {
        let ended = self.thread.join();
        ended.map_err(|_| anyhow::anyhow!("a capture thread panicked"))?
    }
}

/// State of the thread.
struct ThreadState {
    timing: Timing,
    inbox: Receiver<Message>,
    epoll: OwnedFd,
    /// Interfaces by the numbers used in epoll events.
    interfaces: BTreeMap<u64, LiveInterface>,
    /// Numbers by interface name.
    numbers: HashMap<String, u64>,
    /// Number of the next interface.
    next_number: u64,
    /// The interface being processed, for recovery after a panic.
    at: Option<u64>,
}

impl ThreadState {
    /// Captures until `stop` is set, then reads what the kernel still holds.
    fn run(mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let watched = loop {
            match panics::catch(|| self.watch(stop)) {
                Some(watched) => break watched,
                None => self.recover(),
            }
        };
        let until = Instant::now() + DRAIN_LIMIT;
        self.take_messages();
        for interface in self.interfaces.values_mut() {
            while interface.drain() > 0 && Instant::now() < until {}
            interface.count_losses();
        }
        watched.context("waiting for packets failed")
    }

    /// Reads packets of all interfaces that have any, until `stop` is set.
    fn watch(&mut self, stop: &AtomicBool) -> rustix::io::Result<()> {
        let tick = Timespec {
            tv_sec: self.timing.tick.as_secs() as i64,
            tv_nsec: self.timing.tick.subsec_nanos().into(),
        };
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(MAX_EVENTS);
        let (mut checked_at, mut in_blocks) = (Instant::now(), true);
        while !stop.load(Relaxed) {
            ready.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&tick)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            for event in &ready {
                // Copied because the event is a packed struct.
                let at = { event.data }.u64();
                if let Some(interface) = self.interfaces.get_mut(&at) {
                    self.at = Some(at);
                    interface.drain();
                }
            }
            self.at = None;
            self.take_messages();
            if checked_at.elapsed() >= self.timing.tick {
                self.check_states();
                in_blocks = self.interfaces.values().all(LiveInterface::is_in_blocks);
                checked_at = Instant::now();
            }
            if !in_blocks && !ready.is_empty() {
                thread::sleep(COLLECT_TIME);
            }
        }
        Ok(())
    }

    fn take_messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Capture(interface) => {
                    self.numbers
                        .insert(interface.name().into(), self.next_number);
                    self.interfaces.insert(self.next_number, *interface);
                    self.register(self.next_number);
                    self.next_number += 1;
                }
                Message::Change(name, ring, settings, choice) => {
                    if let Some(interface) = self.named(&name) {
                        interface.change(ring, settings, choice);
                    }
                }
                Message::Check(name) => {
                    if let Some(interface) = self.named(&name) {
                        interface.check_soon();
                    }
                }
                Message::Drop(name) => {
                    if let Some(interface) = self.named(&name) {
                        interface.drain();
                        interface.count_losses();
                    }
                    let number = self.numbers.remove(&name);
                    number.and_then(|number| self.interfaces.remove(&number));
                }
            }
        }
    }

    fn named(&mut self, name: &str) -> Option<&mut LiveInterface> {
        self.interfaces.get_mut(self.numbers.get(name)?)
    }

    fn check_states(&mut self) {
        let mut opened = Vec::new();
        for (at, interface) in &mut self.interfaces {
            self.at = Some(*at);
            opened.extend(interface.check_state().then_some(*at));
        }
        self.at = None;
        opened.into_iter().for_each(|at| self.register(at));
    }

    /// Continues after a panic: the interface that was being processed is reopened, the
    /// others are not affected.
    fn recover(&mut self) {
        let at = self.at.take();
        match at.and_then(|at| self.interfaces.get_mut(&at)) {
            Some(interface) => interface.recover(),
            // The pause limits how often the same panic can repeat.
            None => thread::sleep(self.timing.tick),
        }
    }

    /// Registers the capture of an interface with epoll.
    fn register(&mut self, at: u64) {
        if let Some(interface) = self.interfaces.get_mut(&at)
            && let Err(error) = interface.register(&self.epoll, at)
        {
            interface.close_with_error(&error);
        }
    }
}
