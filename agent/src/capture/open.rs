//! An open capture of libpcap: how it is opened, what it has lost.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;
use pcap::{Active, Capture};

use super::devices;
use super::filter::Refusal;
use super::netlink;
use super::sink::PacketSink;
use crate::config::{self, Direction};
use crate::packet::{Link, Packet};
use crate::tally::Tally;

/// How long the kernel may hold packets back to hand over many at once.
pub const HAND_OVER: Duration = Duration::from_millis(50);
/// Packets taken from one interface before the others have their turn.
const MOST_AT_ONCE: usize = 4096;
/// Bounds of one interface's kernel buffer.
const BUFFER: (u64, u64) = (256 << 10, 64 << 20);
/// From here on the kernel hands packets over in blocks. It has blocks of
/// 256 KiB, and with fewer than four of them it soon has none to write to.
const IN_BLOCKS: u64 = 1 << 20;

/// How a capture is opened.
#[derive(Clone, PartialEq)]
pub struct Settings {
    snaplen: i32,
    promiscuous: bool,
    direction: Direction,
    filter: Option<String>,
    buffer: u64,
}

/// An open capture.
pub struct Open {
    /// What libpcap has.
    pub capture: Capture<Active>,
    link: Link,
    /// The number of its interface.
    pub index: u32,
    /// How it was opened.
    pub settings: Settings,
    dropped: Wrapping,
    interface_dropped: Wrapping,
    /// When it was last asked what it has lost.
    pub looked_at: Instant,
    /// Whether nothing came since.
    pub quiet: bool,
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

impl Settings {
    /// The settings of an interface whose share of all buffers is `share`.
    pub fn new(capture: &config::Capture, share: u64) -> Self {
        Self {
            snaplen: capture.snaplen.into(),
            promiscuous: capture.promiscuous,
            direction: capture.direction,
            filter: capture.filter.clone(),
            buffer: share.clamp(BUFFER.0, BUFFER.1),
        }
    }

    /// The kernel buffer a capture is opened with.
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    fn is_in_blocks(&self) -> bool {
        self.buffer >= IN_BLOCKS
    }

    /// Opens a capture on the interface `name`.
    pub fn open(&self, name: &str) -> anyhow::Result<Open> {
        let known = netlink::ask(name).map_err(devices::explain)?;
        let known = known.with_context(|| format!("no such interface: {name}"))?;
        let mut capture = Capture::from_device(name)
            .map_err(|error| devices::cannot_capture(name, error))?
            .snaplen(self.snaplen)
            .promisc(self.promiscuous)
            .buffer_size(i32::try_from(self.buffer)?)
            .timeout(HAND_OVER.as_millis() as i32)
            .immediate_mode(!self.is_in_blocks())
            .open()
            .map_err(|error| devices::cannot_capture(name, error))?
            .setnonblock()?;
        let direction = match self.direction {
            Direction::Both => None,
            Direction::In => Some(pcap::Direction::In),
            Direction::Out => Some(pcap::Direction::Out),
        };
        if let Some(direction) = direction {
            let chosen = capture.direction(direction);
            chosen.with_context(|| format!("{name} does not tell directions apart"))?;
        }
        if let Some(filter) = &self.filter {
            capture.filter(filter, true).map_err(|error| {
                let place = format!("capture.filter = {filter:?} on {name}");
                Refusal::new(error).into_error(place)
            })?;
        }
        Ok(Open {
            link: Link(u32::try_from(capture.get_datalink().0)?),
            index: known.index,
            settings: self.clone(),
            capture,
            dropped: Wrapping::default(),
            interface_dropped: Wrapping::default(),
            looked_at: Instant::now(),
            quiet: true,
        })
    }
}

impl Open {
    /// Takes what the kernel has, though not too much at once: packets whose
    /// stamps, in microseconds, `count`. How many packets there were.
    pub fn take(
        &mut self,
        sink: &mut PacketSink,
        count: impl Fn(i64) -> bool,
    ) -> Result<usize, pcap::Error> {
        self.quiet = false;
        let link = self.link;
        let taken = self.capture.dispatch(Some(MOST_AT_ONCE), |packet| {
            let stamp = packet.header.ts;
            if count(stamp.tv_sec * 1_000_000 + stamp.tv_usec) {
                sink.offer(&Packet {
                    data: packet.data,
                    wire_len: packet.header.len,
                    // Nobody asks: stamps jump with the wall clock.
                    time: 0,
                    link,
                    interface: 0,
                });
            }
        });
        sink.hand_over();
        taken
    }

    /// Whether the kernel hands packets over in blocks.
    pub fn is_in_blocks(&self) -> bool {
        self.settings.is_in_blocks()
    }

    /// Books what the kernel and the interface have lost; none to forget it.
    pub fn count_drops(&mut self, tally: Option<&Tally>) {
        (self.looked_at, self.quiet) = (Instant::now(), true);
        let Ok(stats) = self.capture.stats() else {
            return;
        };
        let lost = self.dropped.advance(stats.dropped);
        let interface_lost = self.interface_dropped.advance(stats.if_dropped);
        if let Some(tally) = tally {
            tally.kernel_drops.fetch_add(lost, Relaxed);
            tally.interface_drops.fetch_add(interface_lost, Relaxed);
        }
    }
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
