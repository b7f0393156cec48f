//! A live interface: captured with libpcap, opened again whenever it went away,
//! and anew when it shall be captured otherwise.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use rustix::event::epoll;

use super::devices::{self, NoDescriptors};
use super::netlink;
use super::open::{HAND_OVER, Open, Settings};
use super::sink::{Choice, PacketSink};
use crate::log::RateLimit;
use crate::panics;
use crate::sketch::ring::RingWriter;
use crate::sketch::window::wall_clock;
use crate::tally::Tally;

/// Pause between attempts to open an interface that went away.
const RETRY: Duration = Duration::from_secs(1);
/// Pause between looks at an interface on which nothing happens.
const QUIET: Duration = Duration::from_secs(10);
/// How long a capture that is replaced still has packets from before.
const LEAVE: Duration = HAND_OVER.saturating_mul(4);

/// An interface and where its packets go.
pub struct LiveInterface {
    name: String,
    sink: PacketSink,
    capture: Option<Open>,
    /// The capture that the current one takes over from.
    leaving: Option<Leaving>,
    /// Where one comes from while it is being opened.
    opening: Option<Receiver<anyhow::Result<Open>>>,
    retry_at: Instant,
    complaints: RateLimit,
    settings: Settings,
}

/// A capture that is being replaced. Both see the packets of a short while; the
/// stamp tells whose they are, to a few microseconds.
struct Leaving {
    open: Open,
    /// Up to then, in microseconds since 1970, packets are its own.
    last: i64,
    /// When it has handed over all of them.
    until: Instant,
}

impl LiveInterface {
    /// The interface `name`, not yet open.
    pub fn new(name: &str, sink: PacketSink, settings: Settings) -> Self {
        Self {
            name: name.into(),
            sink,
            capture: None,
            leaving: None,
            opening: None,
            retry_at: Instant::now(),
            complaints: RateLimit::default(),
            settings,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its counters.
    pub fn tally(&self) -> Arc<Tally> {
        Arc::clone(self.sink.tally())
    }

    /// Opens it now.
    pub fn open(&mut self) -> anyhow::Result<()> {
        self.begin(self.settings.open(&self.name)?);
        Ok(())
    }

    /// Goes on with this capture. One that was open before keeps what it saw
    /// until now.
    fn begin(&mut self, mut open: Open) {
        let tally = self.sink.tally();
        tally.up.store(true, Relaxed);
        tally.buffer_bytes.store(open.settings.buffer(), Relaxed);
        if let Some(before) = self.capture.take() {
            // What it lost by now is not ours.
            open.count_drops(None);
            self.leaving = Some(Leaving {
                open: before,
                last: (wall_clock() / 1000) as i64,
                until: Instant::now() + LEAVE,
            });
        }
        self.capture = Some(open);
    }

    /// Chooses packets like this and sends them through another ring, if there is one,
    /// and captures with these settings soon.
    pub fn change(&mut self, ring: Option<RingWriter>, settings: Settings, choice: Choice) {
        if let Some(ring) = ring {
            self.sink.replace_ring(ring);
        }
        self.sink.choose(choice);
        self.settings = settings;
    }

    /// Has it looked at soon: something may have happened to it.
    pub fn look_soon(&mut self) {
        self.retry_at = Instant::now();
        if let Some(open) = &mut self.capture {
            open.quiet = false;
            // A machine may have run for less than that.
            open.looked_at = Instant::now().checked_sub(RETRY).unwrap_or(open.looked_at);
        }
    }

    /// What became of the capture that is being opened, in a thread of its own:
    /// names in a filter are looked up anew, which may take long, and others are
    /// captured meanwhile. To keep the compiled filter would spare that, but
    /// libpcap's is only set through unsafe code. None as long as there is no
    /// result.
    fn opened(&mut self) -> Option<anyhow::Result<Open>> {
        let result = match self.opening.as_ref()?.try_recv() {
            Ok(result) => result,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(anyhow!("opening it panicked")),
        };
        self.opening = None;
        Some(result)
    }

    /// Begins to open it.
    fn start_opening(&mut self) -> anyhow::Result<()> {
        let (done, opening) = mpsc::channel();
        let (name, settings) = (self.name.clone(), self.settings.clone());
        thread::Builder::new().name("open".into()).spawn(move || {
            // Nobody waits for it after a stop.
            let _ = done.send(settings.open(&name));
        })?;
        self.opening = Some(opening);
        Ok(())
    }

    /// Opens it again, once a second while there is such an interface. None as
    /// long as there is no result.
    fn reopen(&mut self) -> Option<anyhow::Result<Open>> {
        if self.opening.is_some() {
            return self.opened();
        }
        if Instant::now() < self.retry_at {
            return None;
        }
        self.retry_at = Instant::now() + RETRY;
        match netlink::ask(&self.name) {
            Ok(Some(_)) => self.start_opening().err().map(Err),
            Ok(None) => None,
            Err(error) => Some(Err(devices::explain(error))),
        }
    }

    /// Has `epoll` tell by the number `at` that there are packets. Closing the
    /// capture ends this.
    pub fn register(&self, epoll: &OwnedFd, at: u64) -> rustix::io::Result<()> {
        let Some(open) = &self.capture else {
            return Ok(());
        };
        let at = epoll::EventData::new_u64(at);
        epoll::add(epoll, &open.capture, at, epoll::EventFlags::IN)
    }

    /// Whether the kernel hands packets over in blocks, if at all.
    pub fn is_in_blocks(&self) -> bool {
        self.capture.as_ref().is_none_or(Open::is_in_blocks)
    }

    /// Takes what the kernel has, though not too much at once; an error
    /// closes the capture. How many packets there were.
    pub fn drain(&mut self) -> usize {
        panics::provoke("capture", &self.name);
        let mut first = i64::MIN;
        let mut taken = 0;
        if let Some(leaving) = &mut self.leaving {
            let last = leaving.last;
            first = last + 1;
            let own = leaving.open.take(&mut self.sink, |stamp| stamp <= last);
            taken += own.unwrap_or(0);
            if Instant::now() >= leaving.until {
                leaving.open.count_drops(Some(self.sink.tally()));
                self.leaving = None;
            }
        }
        let Some(open) = &mut self.capture else {
            return taken;
        };
        match open.take(&mut self.sink, |stamp| stamp >= first) {
            Ok(own) => taken + own,
            Err(error) => {
                self.lose(&error);
                taken
            }
        }
    }

    /// Closes a capture that gives no more packets.
    pub fn lose(&mut self, why: &dyn std::fmt::Display) {
        if let Some(mut leaving) = self.leaving.take() {
            leaving.open.count_drops(Some(self.sink.tally()));
        }
        if self.capture.is_none() {
            return;
        }
        tracing::warn!(interface = self.name, error = %why, "capture lost; trying to open it again");
        self.count_drops();
        self.capture = None;
        self.retry_at = Instant::now() + RETRY;
        self.sink.tally().up.store(false, Relaxed);
    }

    /// Goes on after a panic.
    pub fn recover(&mut self) {
        self.sink.recover();
        self.lose(&"a fault in the agent");
    }

    /// Notes whether the interface is up. One that is down keeps its capture,
    /// which goes on when it is up again; until then it is looked at often.
    fn note(&mut self, up: bool) {
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

    /// Books what the kernel and the interface lost.
    pub fn count_drops(&mut self) {
        if let Some(open) = &mut self.capture {
            open.count_drops(Some(self.sink.tally()));
        }
    }

    /// What is due now and then: drop counters, opening again what went away.
    /// A look takes several system calls, too many for hundreds of interfaces
    /// on which nothing happens. Whether it was opened.
    pub fn look_after(&mut self) -> bool {
        if self.leaving.is_some() {
            self.drain();
        }
        let Some(open) = &self.capture else {
            return self.look_for();
        };
        if open.looked_at.elapsed() >= if open.quiet { QUIET } else { RETRY } {
            // libpcap may miss this: it looks once, maybe too early.
            match netlink::ask(&self.name) {
                Ok(Some(known)) if known.index == open.index => {
                    self.count_drops();
                    self.note(known.up);
                }
                Ok(_) => {
                    self.drain();
                    self.lose(&"the interface is gone");
                }
                // Who cannot ask does not know.
                Err(_) => self.count_drops(),
            }
        }
        self.replace()
    }

    /// Opens a lost capture. Whether it is there.
    fn look_for(&mut self) -> bool {
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
            Some(Err(error)) => self.complain(&error),
            None => {}
        }
        false
    }

    /// Says why it cannot be opened, now and then. One that is gone or down by now is
    /// no reason to complain.
    fn complain(&mut self, error: &anyhow::Error) {
        let is_up = || matches!(netlink::ask(&self.name), Ok(Some(known)) if known.up);
        let is_fault = error.is::<NoDescriptors>() || is_up();
        match is_fault && self.complaints.allows() {
            true => tracing::warn!(interface = self.name, "{error:#}; trying again"),
            false => tracing::debug!(interface = self.name, "{error:#}"),
        }
    }

    /// Takes another capture if this one is not opened as it shall be. Whether it
    /// has.
    fn replace(&mut self) -> bool {
        let is_right = |open: &Open| open.settings == self.settings;
        if self.capture.as_ref().is_none_or(is_right) {
            self.opening = None;
            return false;
        }
        if self.leaving.is_some() {
            return false;
        }
        let opened = match &self.opening {
            Some(_) => self.opened(),
            None if Instant::now() < self.retry_at => None,
            None => {
                self.retry_at = Instant::now() + RETRY;
                self.start_opening().err().map(Err)
            }
        };
        match opened {
            Some(Ok(open)) => {
                let buffer = open.settings.buffer();
                tracing::debug!(interface = self.name, buffer, "captured anew");
                self.begin(open);
                true
            }
            Some(Err(error)) => {
                let error = error.context("captured as before, as it cannot be opened anew");
                match error.is::<NoDescriptors>() {
                    // Whoever has none at all says so.
                    true => tracing::debug!(interface = self.name, "{error:#}"),
                    false => self.complain(&error),
                }
                false
            }
            None => false,
        }
    }
}
