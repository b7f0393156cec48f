//! Live captures with libpcap.
//!
//! A few threads share all interfaces: each waits for its share of them at
//! once and drains whichever has packets, so an idle interface costs nothing.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pcap::{Active, Capture, Device};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::pattern::Pattern;
use super::{Link, Packet};
use crate::config;
use crate::decode::Direction;
use crate::ring::Tap;

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

/// The interfaces that are meant. When none are named: all that are up,
/// without loopback; loopback alone if there is nothing else.
pub fn choose(include: &[Pattern], exclude: &[Pattern]) -> anyhow::Result<Vec<String>> {
    let devices = list()?;
    let known = || {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        names.join(", ")
    };
    let mut chosen: Vec<String> = Vec::new();
    for pattern in include {
        for device in devices
            .iter()
            .filter(|device| pattern.matches(&device.name))
        {
            // A pattern means what can be captured; a name is taken at its word.
            if (pattern.is_name() || device.flags.is_up()) && !chosen.contains(&device.name) {
                chosen.push(device.name.clone());
            }
        }
        if !devices.iter().any(|device| pattern.matches(&device.name)) {
            let none = match pattern.is_name() {
                true => "no such interface:",
                false => "no interface matches",
            };
            bail!("{none} {pattern} (this machine has {})", known());
        }
    }
    if include.is_empty() {
        let up = |loopback: bool| {
            let up = devices.iter().filter(|device| device.flags.is_up());
            let of_kind = up.filter(move |device| device.flags.is_loopback() == loopback);
            of_kind
                .map(|device| device.name.clone())
                .collect::<Vec<_>>()
        };
        chosen = up(false);
        if chosen.is_empty() {
            chosen = up(true);
        }
    }
    chosen.retain(|name| !exclude.iter().any(|pattern| pattern.matches(name)));
    if chosen.is_empty() {
        bail!(
            "no interface is left to capture: this machine has {}",
            known()
        );
    }
    Ok(chosen)
}

/// Network interfaces of this machine, without libpcap's pseudo devices.
pub fn list() -> anyhow::Result<Vec<Device>> {
    let mut devices = Device::list().context("interfaces cannot be listed")?;
    devices.retain(|device| exists(&device.name));
    Ok(devices)
}

fn exists(name: &str) -> bool {
    index(name).is_some()
}

/// The kernel's number of an interface: one that is made anew has another.
fn index(name: &str) -> Option<u32> {
    if name.contains('/') {
        return None;
    }
    let file = Path::new("/sys/class/net").join(name).join("ifindex");
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// An interface and where its packets go.
pub struct Interface {
    name: String,
    tap: Tap,
    capture: Option<Open>,
    retry_at: Instant,
    settings: config::Capture,
    buffer: u64,
}

struct Open {
    capture: Capture<Active>,
    link: Link,
    index: Option<u32>,
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
    fn advance(&mut self, now: u32) -> u64 {
        u64::from(now.wrapping_sub(std::mem::replace(&mut self.0, now)))
    }
}

impl Interface {
    /// The interface `name`, one of `sharing` that share the kernel buffer;
    /// not yet open.
    pub fn new(name: &str, tap: Tap, settings: &config::Capture, sharing: usize) -> Self {
        let buffer = settings.buffer_total.0 / sharing.max(1) as u64;
        Self {
            name: name.into(),
            tap,
            capture: None,
            retry_at: Instant::now(),
            settings: settings.clone(),
            buffer: buffer.clamp(BUFFER.0, BUFFER.1),
        }
    }

    fn open(&mut self) -> anyhow::Result<()> {
        self.capture = Some(self.start()?);
        self.tap.tally().up.store(true, Relaxed);
        Ok(())
    }

    fn start(&self) -> anyhow::Result<Open> {
        let name = &self.name;
        anyhow::ensure!(exists(name), "no such interface: {name}");
        let mut capture = Capture::from_device(name.as_str())?
            .snaplen(i32::from(self.settings.snaplen))
            .promisc(self.settings.promiscuous)
            .buffer_size(i32::try_from(self.buffer)?)
            .timeout(HAND_OVER.as_millis() as i32)
            .immediate_mode(!self.is_in_blocks())
            .open()
            .map_err(|error| explain(name, &error))?
            .setnonblock()?;
        let direction = match self.settings.direction {
            Direction::Both => None,
            Direction::In => Some(pcap::Direction::In),
            Direction::Out => Some(pcap::Direction::Out),
        };
        if let Some(direction) = direction {
            let chosen = capture.direction(direction);
            chosen.with_context(|| format!("{name} does not tell directions apart"))?;
        }
        if let Some(filter) = &self.settings.filter {
            capture
                .filter(filter, true)
                .with_context(|| format!("filter {filter:?} on {name}"))?;
        }
        Ok(Open {
            link: Link(u32::try_from(capture.get_datalink().0)?),
            index: index(name),
            capture,
            dropped: Wrapping::default(),
            interface_dropped: Wrapping::default(),
            looked_at: Instant::now(),
            quiet: true,
        })
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
        self.buffer >= IN_BLOCKS
    }

    /// Takes what the kernel has, though not too much at once; an error
    /// closes the capture. How many packets there were.
    fn drain(&mut self) -> usize {
        let Some(open) = &mut self.capture else {
            return 0;
        };
        open.quiet = false;
        let (tap, link) = (&mut self.tap, open.link);
        let result = open.capture.dispatch(Some(MOST_AT_ONCE), |packet| {
            tap.offer(&Packet {
                data: packet.data,
                wire_len: packet.header.len,
                // Nobody asks: stamps jump with the wall clock.
                time: 0,
                link,
                interface: 0,
            });
        });
        self.tap.hand_over();
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
        self.tap.tally().up.store(false, Relaxed);
    }

    /// Books what the kernel and the interface lost.
    fn count_drops(&mut self) {
        let Some(open) = &mut self.capture else {
            return;
        };
        (open.looked_at, open.quiet) = (Instant::now(), true);
        if let Ok(stats) = open.capture.stats() {
            let tally = self.tap.tally();
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
                if open.index != index(&self.name) {
                    self.drain();
                    self.lose(&"the interface is gone");
                } else {
                    self.count_drops();
                }
            }
            None if Instant::now() >= self.retry_at => match self.open() {
                Ok(()) => {
                    tracing::info!(interface = self.name, "capture is back");
                    return true;
                }
                Err(error) => {
                    tracing::debug!(interface = self.name, "{error:#}");
                    self.retry_at = Instant::now() + RETRY;
                }
            },
            _ => {}
        }
        false
    }
}

/// Opens all interfaces. One that is down or gone by now is opened when it is
/// back; if none can be opened, that is an error.
pub fn open(interfaces: &mut [Interface]) -> anyhow::Result<()> {
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
pub fn run(mut interfaces: Vec<Interface>, stop: &AtomicBool) -> anyhow::Result<()> {
    let watched = watch(&mut interfaces, stop);
    let until = Instant::now() + LAST;
    for interface in &mut interfaces {
        while interface.drain() > 0 && Instant::now() < until {}
        interface.count_drops();
    }
    watched.context("waiting for packets failed")
}

/// Drains whichever interface has packets until `stop`.
fn watch(interfaces: &mut [Interface], stop: &AtomicBool) -> rustix::io::Result<()> {
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: TICK.as_nanos() as i64,
    };
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (at, interface) in interfaces.iter().enumerate() {
        interface.register(&epoll, at)?;
    }
    let in_blocks = interfaces.iter().all(Interface::is_in_blocks);
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

/// libpcap's errors in the words of this agent.
fn explain(name: &str, error: &pcap::Error) -> anyhow::Error {
    let text = error.to_string();
    if text.contains("permi") || text.contains("CAP_NET_RAW") {
        let program = std::env::current_exe()
            .map_or_else(|_| "crane-agent".into(), |p| p.display().to_string());
        return anyhow::anyhow!(
            "no permission to capture on {name}: run as root, or grant CAP_NET_RAW with \
             `sudo setcap cap_net_raw+ep {program}`, or see the agent at work without it: `make demo`"
        );
    }
    anyhow::anyhow!("cannot capture on {name}: {text}")
}
