//! A live interface. Its capture is reopened if the interface vanished or the capture
//! failed, and replaced if its settings change.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Instant;

use anyhow::anyhow;
use rustix::event::epoll;

use super::devices::NoDescriptors;
use super::hand_over::HandOver;
use super::network::Network;
use super::open::Open;
use super::settings::{CaptureSettings, Timing};
use super::sink::{Choice, PacketSink};
use super::source::Stamps;
use crate::process::log::RateLimit;
use crate::process::panics;
use crate::ring::edge_ring::RingWriter;
use crate::traffic::tally::Tally;

pub struct LiveInterface {
    name: String,
    network: Arc<dyn Network>,
    sink: PacketSink,
    capture: Option<Open>,
    /// Set while the current capture replaces the previous one.
    hand_over: Option<HandOver>,
    /// Receives the capture that is being opened.
    opening: Option<Receiver<anyhow::Result<Open>>>,
    retry_at: Instant,
    failures: RateLimit,
    settings: CaptureSettings,
    timing: Timing,
}

impl LiveInterface {
    /// Describes the interface `name`; no capture is opened yet.
    pub fn new(
        name: &str,
        network: Arc<dyn Network>,
        sink: PacketSink,
        settings: CaptureSettings,
        timing: Timing,
    ) -> Self {
        Self {
            name: name.into(),
            network,
            sink,
            capture: None,
            hand_over: None,
            opening: None,
            retry_at: Instant::now(),
            failures: RateLimit::default(),
            settings,
            timing,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(self.sink.tally())
    }

    /// Opens a capture and waits for it.
    pub fn open(&mut self) -> anyhow::Result<()> {
        self.begin(Open::new(&*self.network, &self.name, &self.settings)?);
        Ok(())
    }

    /// Switches to this capture. The previous one still delivers the packets from before
    /// the switch.
    fn begin(&mut self, mut open: Open) {
        let tally = self.sink.tally();
        tally.up.store(true, Relaxed);
        tally.buffer_bytes.store(open.settings.buffer, Relaxed);
        if let Some(mut previous) = self.capture.take() {
            // Losses of the new capture before the switch and of the previous one after it
            // are counted by the other capture.
            previous.count_losses(Some(tally));
            open.count_losses(None);
            self.hand_over = Some(HandOver::start(previous, self.timing.delivery));
        }
        self.capture = Some(open);
    }

    /// Applies another choice of packets and another ring at once; other settings are
    /// applied by replacing the capture soon.
    pub fn change(&mut self, ring: Option<RingWriter>, settings: CaptureSettings, choice: Choice) {
        if let Some(ring) = ring {
            self.sink.replace_ring(ring);
        }
        self.sink.set_choice(choice);
        self.settings = settings;
    }

    /// Checks the state at the next opportunity, because something may have changed.
    pub fn check_soon(&mut self) {
        self.retry_at = Instant::now();
        if let Some(open) = &mut self.capture {
            open.quiet = false;
            // `None` if the machine booted more recently than that.
            let long_ago = Instant::now().checked_sub(self.timing.retry);
            open.checked_at = long_ago.unwrap_or(open.checked_at);
        }
    }

    /// Returns the capture that is being opened, or `None` until it is ready.
    ///
    /// It is opened by a thread of its own, because host names in a filter are resolved,
    /// which may take long, and other interfaces have to be captured meanwhile. Keeping the
    /// compiled filter would avoid that, but setting it needs unsafe code.
    fn opened(&mut self) -> Option<anyhow::Result<Open>> {
        let result = match self.opening.as_ref()?.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(anyhow!("opening it panicked")),
        };
        self.opening = None;
        Some(result)
    }

    /// Starts a thread that opens a capture.
    fn start_opening(&mut self) -> anyhow::Result<()> {
        let (done, opening) = mpsc::channel();
        let (name, settings) = (self.name.clone(), self.settings.clone());
        let network = Arc::clone(&self.network);
        thread::Builder::new().name("open".into()).spawn(move || {
            // After a stop the receiver is gone.
            let _ = done.send(Open::new(&*network, &name, &settings));
        })?;
        self.opening = Some(opening);
        Ok(())
    }

    /// Tries to reopen the capture, at most once per retry interval and only while the
    /// interface exists. Returns `None` until there is a result.
    fn reopen(&mut self) -> Option<anyhow::Result<Open>> {
        if self.opening.is_some() {
            return self.opened();
        }
        if Instant::now() < self.retry_at {
            return None;
        }
        self.retry_at = Instant::now() + self.timing.retry;
        match self.network.find(&self.name) {
            Ok(Some(_)) => self.start_opening().err().map(Err),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Registers the capture with `epoll` under the number `at`. Closing the capture
    /// removes it.
    pub fn register(&self, epoll: &OwnedFd, at: u64) -> rustix::io::Result<()> {
        let Some(open) = &self.capture else {
            return Ok(());
        };
        let at = epoll::EventData::new_u64(at);
        epoll::add(epoll, open.source.descriptor(), at, epoll::EventFlags::IN)
    }

    /// Whether the kernel delivers packets in blocks. True if no capture is open.
    pub fn is_in_blocks(&self) -> bool {
        let capture = self.capture.as_ref();
        capture.is_none_or(|open| open.settings.is_in_blocks())
    }

    /// Reads a limited number of packets that are ready. An error closes the capture.
    /// Returns how many packets were read.
    pub fn drain(&mut self) -> usize {
        panics::provoke("capture", &self.name);
        let Some(hand_over) = &mut self.hand_over else {
            return self.drain_capture();
        };
        let packets = hand_over.take_previous(&mut self.sink);
        let Some(open) = &mut self.capture else {
            if hand_over.has_all_of_previous() {
                self.hand_over = None;
            }
            return packets;
        };
        match hand_over.take_next(open, &mut self.sink) {
            Ok(next) => {
                if next.is_complete {
                    self.hand_over = None;
                }
                packets + next.packets
            }
            Err(error) => {
                self.close_with_error(&error);
                packets
            }
        }
    }

    /// Like [`Self::drain`], while no capture is being replaced.
    fn drain_capture(&mut self) -> usize {
        let Some(open) = &mut self.capture else {
            return 0;
        };
        match open.take(&mut self.sink, Stamps::ALL) {
            Ok(taken) => taken.packets,
            Err(error) => {
                self.close_with_error(&error);
                0
            }
        }
    }

    /// Closes a capture that failed. The capture that it replaces stays open while it still
    /// has packets.
    pub fn close_with_error(&mut self, why: &dyn std::fmt::Display) {
        if self.capture.is_none() {
            return;
        }
        tracing::warn!(interface = self.name, error = %why, "capture lost; trying to open it again");
        self.count_losses();
        self.capture = None;
        self.retry_at = Instant::now() + self.timing.retry;
        self.sink.tally().up.store(false, Relaxed);
    }

    /// Restores a usable state after a panic.
    pub fn recover(&mut self) {
        self.sink.recover();
        self.hand_over = None;
        self.close_with_error(&"a fault in the agent");
    }

    /// Stores whether the interface is up. One that is down keeps its capture, which
    /// continues when it is up again; until then it is checked often.
    fn set_up(&mut self, up: bool) {
        if let Some(open) = &mut self.capture {
            open.quiet &= up;
        }
        let before = self.sink.tally().up.swap(up, Relaxed);
        match (before, up) {
            (true, false) => tracing::warn!(interface = self.name, "interface is down"),
            (false, true) => tracing::info!(interface = self.name, "interface is up again"),
            _ => {}
        }
    }

    /// Counts packets that the kernel and the interface lost.
    pub fn count_losses(&mut self) {
        if let Some(open) = &mut self.capture {
            open.count_losses(Some(self.sink.tally()));
        }
    }

    /// Checks the state of the interface, counts losses, and opens a capture if it is
    /// missing or has other settings. Returns whether a capture was opened.
    ///
    /// A check takes several system calls, so idle interfaces are checked less often: there
    /// may be hundreds of them.
    pub fn check_state(&mut self) -> bool {
        if self.hand_over.is_some() {
            self.drain();
        }
        let Some(open) = &self.capture else {
            return self.open_closed();
        };
        let pause = match open.quiet {
            true => self.timing.quiet,
            false => self.timing.retry,
        };
        if open.checked_at.elapsed() >= pause {
            // libpcap checks this only once, possibly too early.
            match self.network.find(&self.name) {
                Ok(Some(link_state)) if link_state.index == open.index => {
                    self.count_losses();
                    self.set_up(link_state.up);
                }
                Ok(_) => {
                    self.drain();
                    self.close_with_error(&"the interface is gone");
                }
                // The state of the interface is unknown.
                Err(_) => self.count_losses(),
            }
        }
        self.replace()
    }

    /// Opens a capture if there is none. Returns whether it was opened.
    fn open_closed(&mut self) -> bool {
        match self.reopen() {
            Some(Ok(open)) => {
                let known_before = self.sink.tally().buffer_bytes.load(Relaxed) > 0;
                self.begin(open);
                let what = if known_before {
                    "capture is back"
                } else {
                    "capturing"
                };
                tracing::info!(interface = self.name, "{what}");
                return true;
            }
            Some(Err(error)) => self.log_failure(&error),
            None => {}
        }
        false
    }

    /// Logs why the capture cannot be opened, at a limited rate. If the interface has
    /// vanished or is down, this is not a fault and is logged for debugging only.
    fn log_failure(&mut self, error: &anyhow::Error) {
        let is_up =
            || matches!(self.network.find(&self.name), Ok(Some(link_state)) if link_state.up);
        let is_fault = error.is::<NoDescriptors>() || is_up();
        match is_fault && self.failures.allows() {
            true => tracing::warn!(interface = self.name, "{error:#}; trying again"),
            false => tracing::debug!(interface = self.name, "{error:#}"),
        }
    }

    /// Replaces the capture if its settings have changed. Returns whether it was replaced.
    fn replace(&mut self) -> bool {
        let is_right = |open: &Open| open.settings == self.settings;
        if self.capture.as_ref().is_none_or(is_right) {
            self.opening = None;
            return false;
        }
        if self.hand_over.is_some() {
            return false;
        }
        let opened = match &self.opening {
            Some(_) => self.opened(),
            None if Instant::now() < self.retry_at => None,
            None => {
                self.retry_at = Instant::now() + self.timing.retry;
                self.start_opening().err().map(Err)
            }
        };
        match opened {
            Some(Ok(open)) => {
                let buffer = open.settings.buffer;
                tracing::debug!(interface = self.name, buffer, "captured anew");
                self.begin(open);
                true
            }
            Some(Err(error)) => {
                let error = error.context("captured as before, as it cannot be opened anew");
                match error.is::<NoDescriptors>() {
                    // Interfaces without any capture log this as a warning.
                    true => tracing::debug!(interface = self.name, "{error:#}"),
                    false => self.log_failure(&error),
                }
                false
            }
            None => false,
        }
    }
}
