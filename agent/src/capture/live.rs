//! Live captures with libpcap.
//!
//! A few threads share all interfaces: each waits for its share of them at
//! once and drains whichever has packets, so an idle interface costs nothing.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use pcap::{Active, Capture};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::devices::{self, NoDescriptors};
use super::filter::Refusal;
use super::sink::PacketSink;
use crate::config::{self, Direction};
use crate::log::RateLimit;
use crate::packet::{Link, Packet};

/// How long a stop or a lost interface may go unnoticed.
const TICK: Duration = Duration::from_millis(100);
/// Pause between attempts to open an interface that went away.
const RETRY: Duration = Duration::from_secs(1);
/// Pause between looks at an interface on which nothing happens.
const QUIET: Duration = Duration::from_secs(10);
/// How long the kernel may hold packets back to hand over many at once.
const HAND_OVER: Duration = Duration::from_millis(50);
/// Packets taken from one interface before the others have their turn.
const MOST_AT_ONCE: usize = 4096;
/// How long a stop still takes what the kernel has, if that never ends.
const LAST: Duration = Duration::from_millis(300);
/// Bounds of one interface's kernel buffer.
const BUFFER: (u64, u64) = (256 << 10, 64 << 20);
/// From here on the kernel hands packets over in blocks. It has blocks of
/// 256 KiB, and with fewer than four of them it soon has none to write to.
const IN_BLOCKS: u64 = 1 << 20;
/// How long packets gather that are handed over one by one: each would wake
/// us otherwise.
const GATHER: Duration = Duration::from_millis(1);

/// An interface and where its packets go.
pub struct LiveInterface {
    name: String,
    sink: PacketSink,
    capture: Option<Open>,
    /// Where it comes from while it is being opened again.
    opening: Option<Receiver<anyhow::Result<Open>>>,
    retry_at: Instant,
    shortage: RateLimit,
    settings: Settings,
}

/// How a capture is opened.
#[derive(Clone)]
struct Settings {
    capture: config::Capture,
    buffer: u64,
}

struct Open {
    capture: Capture<Active>,
    link: Link,
    index: u32,
    dropped: Wrapping,
    interface_dropped: Wrapping,
    looked_at: Instant,
    /// Whether nothing came since.
    quiet: bool,
}

/// A counter of libpcap: 32 bits that wrap.
#[derive(Default)]
struct Wrapping(u32);

impl Wrapping {
    /// How far it went. One that went back has not: libpcap takes what it
    /// cannot read just now for 0.
    fn advance(&mut self, now: u32) -> u64 {
        let step = now.wrapping_sub(self.0);
        if step > u32::MAX / 2 {
            return 0;
        }
        self.0 = now;
        step.into()
    }
}

impl LiveInterface {
    /// The interface `name`, one of `sharing` that share the kernel buffer;
    /// not yet open.
    pub fn new(name: &str, sink: PacketSink, settings: &config::Capture, sharing: usize) -> Self {
        let buffer = settings.buffer_total.0 / sharing.max(1) as u64;
        Self {
            name: name.into(),
            sink,
            capture: None,
            opening: None,
            retry_at: Instant::now(),
            shortage: RateLimit::default(),
            settings: Settings {
                capture: settings.clone(),
                buffer: buffer.clamp(BUFFER.0, BUFFER.1),
            },
        }
    }

    fn open(&mut self) -> anyhow::Result<()> {
        self.begin(self.settings.open(&self.name)?);
        Ok(())
    }

    fn begin(&mut self, open: Open) {
        self.capture = Some(open);
        self.sink.tally().up.store(true, Relaxed);
    }

    /// Opens it again, in a thread of its own: names in a filter are looked up
    /// anew, which may take long, and others are captured meanwhile. To keep
    /// the compiled filter would spare that, but libpcap's is only set through
    /// unsafe code. None as long as there is no result.
    fn reopen(&mut self) -> Option<anyhow::Result<Open>> {
        if let Some(opening) = &self.opening {
            let result = match opening.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err(anyhow!("opening it panicked")),
            };
            self.opening = None;
            return Some(result);
        }
        if Instant::now() < self.retry_at {
            return None;
        }
        self.retry_at = Instant::now() + RETRY;
        match devices::ask(&self.name) {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => return Some(Err(devices::explain(error))),
        }
        let (done, opening) = mpsc::channel();
        let (name, settings) = (self.name.clone(), self.settings.clone());
        let opener = thread::Builder::new().name("open".into()).spawn(move || {
            // Nobody waits for it after a stop.
            let _ = done.send(settings.open(&name));
        });
        match opener {
            Ok(_) => self.opening = Some(opening),
            Err(error) => return Some(Err(error.into())),
        }
        None
    }

    /// Has `epoll` tell by the number `at` that there are packets. Closing the
    /// capture ends this.
    fn register(&self, epoll: &OwnedFd, at: usize) -> rustix::io::Result<()> {
        let Some(open) = &self.capture else {
            return Ok(());
        };
        let at = epoll::EventData::new_u64(at as u64);
        epoll::add(epoll, &open.capture, at, epoll::EventFlags::IN)
    }

    fn is_in_blocks(&self) -> bool {
        self.settings.is_in_blocks()
    }

    /// Takes what the kernel has, though not too much at once; an error
    /// closes the capture. How many packets there were.
    fn drain(&mut self) -> usize {
        let Some(open) = &mut self.capture else {
            return 0;
        };
        open.quiet = false;
        let (sink, link) = (&mut self.sink, open.link);
        let result = open.capture.dispatch(Some(MOST_AT_ONCE), |packet| {
            sink.offer(&Packet {
                data: packet.data,
                wire_len: packet.header.len,
                // Nobody asks: stamps jump with the wall clock.
                time: 0,
                link,
                interface: 0,
            });
        });
        self.sink.hand_over();
        result.unwrap_or_else(|error| {
            self.lose(&error);
            0
        })
    }

    /// Closes a capture that gives no more packets.
    fn lose(&mut self, why: &dyn std::fmt::Display) {
        if self.capture.is_none() {
            return;
        }
        tracing::warn!(interface = self.name, error = %why, "capture lost; trying to open it again");
        self.count_drops();
        self.capture = None;
        self.retry_at = Instant::now() + RETRY;
        self.sink.tally().up.store(false, Relaxed);
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
    fn count_drops(&mut self) {
        let Some(open) = &mut self.capture else {
            return;
        };
        (open.looked_at, open.quiet) = (Instant::now(), true);
        if let Ok(stats) = open.capture.stats() {
            let tally = self.sink.tally();
            tally
                .kernel_drops
                .fetch_add(open.dropped.advance(stats.dropped), Relaxed);
            let lost = open.interface_dropped.advance(stats.if_dropped);
            tally.interface_drops.fetch_add(lost, Relaxed);
        }
    }

    /// What is due now and then: drop counters, opening again what went away.
    /// A look takes several system calls, too many for hundreds of interfaces
    /// on which nothing happens. Whether it was opened.
    fn look_after(&mut self) -> bool {
        match &self.capture {
            Some(open) if open.looked_at.elapsed() >= if open.quiet { QUIET } else { RETRY } => {
                // libpcap may miss this: it looks once, maybe too early.
                match devices::ask(&self.name) {
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
            Some(_) => {}
            None => match self.reopen() {
                Some(Ok(open)) => {
                    self.begin(open);
                    tracing::info!(interface = self.name, "capture is back");
                    return true;
                }
                Some(Err(error)) if error.is::<NoDescriptors>() && self.shortage.allows() => {
                    tracing::warn!(interface = self.name, "{error:#}");
                }
                Some(Err(error)) => tracing::debug!(interface = self.name, "{error:#}"),
                None => {}
            },
        }
        false
    }
}

impl Settings {
    fn is_in_blocks(&self) -> bool {
        self.buffer >= IN_BLOCKS
    }

    /// Opens a capture on the interface `name`.
    fn open(&self, name: &str) -> anyhow::Result<Open> {
        let known = devices::ask(name).map_err(devices::explain)?;
        let known = known.with_context(|| format!("no such interface: {name}"))?;
        let mut capture = Capture::from_device(name)
            .map_err(|error| devices::cannot_capture(name, error))?
            .snaplen(i32::from(self.capture.snaplen))
            .promisc(self.capture.promiscuous)
            .buffer_size(i32::try_from(self.buffer)?)
            .timeout(HAND_OVER.as_millis() as i32)
            .immediate_mode(!self.is_in_blocks())
            .open()
            .map_err(|error| devices::cannot_capture(name, error))?
            .setnonblock()?;
        let direction = match self.capture.direction {
            Direction::Both => None,
            Direction::In => Some(pcap::Direction::In),
            Direction::Out => Some(pcap::Direction::Out),
        };
        if let Some(direction) = direction {
            let chosen = capture.direction(direction);
            chosen.with_context(|| format!("{name} does not tell directions apart"))?;
        }
        if let Some(filter) = &self.capture.filter {
            capture.filter(filter, true).map_err(|error| {
                let place = format!("capture.filter = {filter:?} on {name}");
                Refusal::new(error).into_error(place)
            })?;
        }
        Ok(Open {
            link: Link(u32::try_from(capture.get_datalink().0)?),
            index: known.index,
            capture,
            dropped: Wrapping::default(),
            interface_dropped: Wrapping::default(),
            looked_at: Instant::now(),
            quiet: true,
        })
    }
}

/// Opens all interfaces. One that is down or gone by now is opened when it is
/// back; if none can be opened, that is an error.
pub fn open(interfaces: &mut [LiveInterface]) -> anyhow::Result<()> {
    let (all, mut failed) = (interfaces.len(), Vec::new());
    for interface in interfaces.iter_mut() {
        failed.extend(interface.open().err().map(|error| (&interface.name, error)));
    }
    if failed.len() == all && all > 0 {
        return Err(failed.swap_remove(0).1);
    }
    for (name, error) in failed {
        tracing::warn!(interface = name, "{error:#}; trying again");
    }
    Ok(())
}

/// Captures until `stop`, then takes what the kernel still has.
pub fn run(mut interfaces: Vec<LiveInterface>, stop: &AtomicBool) -> anyhow::Result<()> {
    let watched = watch(&mut interfaces, stop);
    let until = Instant::now() + LAST;
    for interface in &mut interfaces {
        while interface.drain() > 0 && Instant::now() < until {}
        interface.count_drops();
    }
    watched.context("waiting for packets failed")
}

/// Drains whichever interface has packets until `stop`.
fn watch(interfaces: &mut [LiveInterface], stop: &AtomicBool) -> rustix::io::Result<()> {
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: TICK.as_nanos() as i64,
    };
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (at, interface) in interfaces.iter().enumerate() {
        interface.register(&epoll, at)?;
    }
    let in_blocks = interfaces.iter().all(LiveInterface::is_in_blocks);
    let mut ready: Vec<epoll::Event> = Vec::with_capacity(interfaces.len());
    let mut looked_at = Instant::now();
    while !stop.load(Relaxed) {
        ready.clear();
        match epoll::wait(&epoll, spare_capacity(&mut ready), Some(&tick)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        for event in &ready {
            // Copied, because the kernel packs its events.
            let at = { event.data }.u64() as usize;
            interfaces[at].drain();
        }
        if looked_at.elapsed() >= TICK {
            for (at, interface) in interfaces.iter_mut().enumerate() {
                if interface.look_after() {
                    interface.register(&epoll, at)?;
                }
            }
            looked_at = Instant::now();
        }
        if !in_blocks && !ready.is_empty() {
            thread::sleep(GATHER);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_wraps_but_does_not_go_back() {
        let mut counter = Wrapping(u32::MAX - 1);
        assert_eq!(counter.advance(3), 5);
        // Unreadable for a while.
        assert_eq!(counter.advance(0), 0);
        assert_eq!(counter.advance(4), 1);
    }
}
