//! A thread that captures.
//!
//! A few of them share all interfaces: each waits for its share of them at once
//! and drains whichever has packets, so an idle interface costs nothing.

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
use super::open::Settings;
use super::sink::Choice;
use crate::panics;
use crate::sketch::ring::RingWriter;

/// How long a stop, a message or a lost interface may go unnoticed.
const TICK: Duration = Duration::from_millis(100);
/// How long a stop still takes what the kernel has, if that never ends.
const LAST: Duration = Duration::from_millis(300);
/// How long packets gather that are handed over one by one: each would wake
/// us otherwise.
const GATHER: Duration = Duration::from_millis(1);
/// Interfaces that are told of at once.
const EVENTS: usize = 256;

/// What a capture thread is told. Interfaces go by their names.
pub enum Message {
    /// Capture this one, too.
    Capture(Box<LiveInterface>),
    /// Its share or the configuration has changed: capture it like this, and send
    /// packets through another ring, if there is one.
    Change(String, Option<RingWriter>, Settings, Choice),
    /// Something may have happened to it.
    Look(String),
    /// Capture it no more.
    Drop(String),
}

/// The way to a capture thread. It ends with the stop it was started with.
pub struct CaptureThread {
    messages: Sender<Message>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl CaptureThread {
    /// Starts one without interfaces.
    pub fn start(stop: &'static AtomicBool) -> anyhow::Result<Self> {
        let (messages, inbox) = mpsc::channel();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let state = State {
            inbox,
            epoll,
            interfaces: BTreeMap::new(),
            numbers: HashMap::new(),
            begun: 0,
            at: None,
        };
        let thread = thread::Builder::new()
            .name("capture".into())
            .spawn(move || state.run(stop))?;
        Ok(Self { messages, thread })
    }

    /// Tells it something. One that has ended hears nothing, and its end is seen.
    pub fn tell(&self, message: Message) {
        let _ = self.messages.send(message);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end.
    pub fn join(self) -> anyhow::Result<()> {
        let ended = self.thread.join();
        ended.map_err(|_| anyhow::anyhow!("a capture thread panicked"))?
    }
}

/// What the thread works on.
struct State {
    inbox: Receiver<Message>,
    epoll: OwnedFd,
    /// By the numbers that events have.
    interfaces: BTreeMap<u64, LiveInterface>,
    /// These numbers, by the names of interfaces.
    numbers: HashMap<String, u64>,
    /// Numbers given so far.
    begun: u64,
    /// The one that is being worked on.
    at: Option<u64>,
}

impl State {
    /// Captures until `stop`, then takes what the kernel still has.
    fn run(mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let watched = loop {
            match panics::caught(|| self.watch(stop)) {
                Some(watched) => break watched,
                None => self.recover(),
            }
        };
        let until = Instant::now() + LAST;
        self.hear();
        for interface in self.interfaces.values_mut() {
            while interface.drain() > 0 && Instant::now() < until {}
            interface.count_drops();
        }
        watched.context("waiting for packets failed")
    }

    /// Drains whichever interface has packets until `stop`.
    fn watch(&mut self, stop: &AtomicBool) -> rustix::io::Result<()> {
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: TICK.as_nanos() as i64,
        };
        let mut ready: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let (mut looked_at, mut in_blocks) = (Instant::now(), true);
        while !stop.load(Relaxed) {
            ready.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&tick)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            for event in &ready {
                // Copied, because the kernel packs its events.
                let at = { event.data }.u64();
                if let Some(interface) = self.interfaces.get_mut(&at) {
                    self.at = Some(at);
                    interface.drain();
                }
            }
            self.at = None;
            self.hear();
            if looked_at.elapsed() >= TICK {
                self.look_after();
                in_blocks = self.interfaces.values().all(LiveInterface::is_in_blocks);
                looked_at = Instant::now();
            }
            if !in_blocks && !ready.is_empty() {
                thread::sleep(GATHER);
            }
        }
        Ok(())
    }

    /// Does what it was told.
    fn hear(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Capture(interface) => {
                    self.numbers.insert(interface.name().into(), self.begun);
                    self.interfaces.insert(self.begun, *interface);
                    self.register(self.begun);
                    self.begun += 1;
                }
                Message::Change(name, ring, settings, choice) => {
                    if let Some(interface) = self.named(&name) {
                        interface.change(ring, settings, choice);
                    }
                }
                Message::Look(name) => {
                    if let Some(interface) = self.named(&name) {
                        interface.look_soon();
                    }
                }
                Message::Drop(name) => {
                    if let Some(interface) = self.named(&name) {
                        interface.drain();
                        interface.count_drops();
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

    fn look_after(&mut self) {
        let mut opened = Vec::new();
        for (at, interface) in &mut self.interfaces {
            self.at = Some(*at);
            opened.extend(interface.look_after().then_some(*at));
        }
        self.at = None;
        opened.into_iter().for_each(|at| self.register(at));
    }

    /// Goes on after a panic: the interface that was worked on is opened again, and
    /// the others are captured as before.
    fn recover(&mut self) {
        let at = self.at.take();
        match at.and_then(|at| self.interfaces.get_mut(&at)) {
            Some(interface) => interface.recover(),
            // Whatever it was may come again at once.
            None => thread::sleep(TICK),
        }
    }

    /// Has events tell of a capture that was opened.
    fn register(&mut self, at: u64) {
        if let Some(interface) = self.interfaces.get_mut(&at)
            && let Err(error) = interface.register(&self.epoll, at)
        {
            interface.lose(&error);
        }
    }
}
