//! A capture by libpcap on an interface of this machine.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::Context;
use pcap::{Active, Capture};

use super::devices;
use super::settings::CaptureSettings;
use super::sink::PacketSink;
use super::source::{Losses, PacketSource, Stamps, Taken};
use crate::config::Direction;
use crate::filter::FilterError;
use crate::traffic::packet::{Link, Packet};

/// How long the kernel may hold packets back to deliver many at once.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_millis(50);
/// Most packets read from one interface before the next one is served.
const MAX_PACKETS: usize = 4096;

pub struct Libpcap {
    capture: Capture<Active>,
    link: Link,
    kernel_drops: Wrapping,
    interface_drops: Wrapping,
}

/// A 32-bit counter of libpcap, which wraps around.
#[derive(Default)]
struct Wrapping(u32);

impl Wrapping {
    /// Returns the increase since the last call. A decrease counts as 0: libpcap reports 0
    /// if it cannot read the counter.
    fn advance(&mut self, now: u32) -> u64 {
        let step = now.wrapping_sub(self.0);
        if step > u32::MAX / 2 {
            return 0;
        }
        self.0 = now;
        step.into()
    }
}

impl Libpcap {
    /// Opens a capture on the interface `name`.
    pub fn open(name: &str, settings: &CaptureSettings) -> anyhow::Result<Self> {
        let mut capture = Capture::from_device(name)
            .map_err(|error| devices::cannot_capture(name, error))?
            .snaplen(settings.snaplen)
            .promisc(settings.promiscuous)
            .buffer_size(i32::try_from(settings.buffer)?)
            .timeout(DELIVERY_TIMEOUT.as_millis() as i32)
            .immediate_mode(!settings.is_in_blocks())
            .open()
            .map_err(|error| devices::cannot_capture(name, error))?
            .setnonblock()?;
        let direction = match settings.direction {
            Direction::Both => None,
            Direction::In => Some(pcap::Direction::In),
            Direction::Out => Some(pcap::Direction::Out),
        };
        if let Some(direction) = direction {
            let chosen = capture.direction(direction);
            chosen.with_context(|| format!("{name} does not support a direction"))?;
        }
        if let Some(filter) = &settings.filter {
            capture.filter(filter, true).map_err(|error| {
                let place = format!("capture.filter = {filter:?} on {name}");
                FilterError::new(error).into_error(place)
            })?;
        }
        Ok(Self {
            link: Link(u32::try_from(capture.get_datalink().0)?),
            capture,
            kernel_drops: Wrapping::default(),
            interface_drops: Wrapping::default(),
        })
    }
}

impl PacketSource for Libpcap {
    fn take(&mut self, sink: &mut PacketSink, stamps: Stamps) -> anyhow::Result<Taken> {
        let link = self.link;
        let mut skipped = 0;
        let packets = self.capture.dispatch(Some(MAX_PACKETS), |packet| {
            let stamp = packet.header.ts;
            if !stamps.contains(stamp.tv_sec * 1_000_000 + stamp.tv_usec) {
                skipped += 1;
                return;
            }
            sink.offer(&Packet {
                data: packet.data,
                wire_len: packet.header.len,
                // Not used for live packets, because timestamps jump with the wall clock.
                time: 0,
                link,
                interface: 0,
            });
        })?;
        Ok(Taken { packets, skipped })
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.capture.as_fd()
    }

    fn losses(&mut self) -> Losses {
        let Ok(stats) = self.capture.stats() else {
            return Losses::default();
        };
        Losses {
            kernel: self.kernel_drops.advance(stats.dropped),
            interface: self.interface_drops.advance(stats.if_dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_wraps_but_does_not_decrease() {
        let mut counter = Wrapping(u32::MAX - 1);
        assert_eq!(counter.advance(3), 5);
        // libpcap could not read the counter.
        assert_eq!(counter.advance(0), 0);
        assert_eq!(counter.advance(4), 1);
    }
}
