//! Replaces an open capture by another one of the same interface without losing or
//! double-counting packets.
//!
//! The new capture is opened while the previous one is still open, so both see the same
//! packets for a short time. The timestamp decides which of them counts a packet: the
//! previous capture counts packets up to the switch, the new one later packets. The kernel
//! stamps a packet once for each capture, so the boundary is exact to a few microseconds.
//!
//! Captures deliver packets in order of arrival. After the longest delivery time has passed
//! since the switch, the previous capture is complete once it delivers no more packets from
//! before the switch, and the new one is past the overlap once it skips no more packets.
//! This holds however slowly packets are read.

use std::time::{Duration, Instant};

use super::open::Open;
use super::sink::PacketSink;
use super::source::{Stamps, Taken};
use crate::process::clock::wall_clock;

/// A running replacement of a capture.
pub struct HandOver {
    /// The previous capture, until all of its packets are read.
    previous: Option<Open>,
    /// Packets up to this time belong to the previous capture, in microseconds since 1970.
    last: i64,
    switched_at: Instant,
    /// Longest time between the timestamp of a packet and its delivery by a capture.
    delivery: Duration,
}

impl HandOver {
    /// Starts a replacement: packets that arrive from now on belong to the new capture.
    pub fn start(previous: Open, delivery: Duration) -> Self {
        Self {
            previous: Some(previous),
            last: now(),
            switched_at: Instant::now(),
            delivery,
        }
    }

    /// Reads a limited number of packets from the previous capture. Returns how many were
    /// read.
    pub fn take_previous(&mut self, sink: &mut PacketSink) -> usize {
        // Checked before packets are read, because packets from before the switch may still
        // be delivered meanwhile.
        let is_delivered = self.is_delivered();
        let Some(previous) = &mut self.previous else {
            return 0;
        };
        // After an error the capture has no packets left.
        let taken = previous.take(sink, Stamps::until(self.last));
        let taken = taken.unwrap_or_default();
        if is_delivered && (taken.packets == taken.skipped || self.is_clock_behind()) {
            self.previous = None;
        }
        taken.packets
    }

    /// Reads a limited number of packets from the new capture.
    pub fn take_next(&mut self, next: &mut Open, sink: &mut PacketSink) -> anyhow::Result<Next> {
        let is_delivered = self.is_delivered();
        let Taken { packets, skipped } = next.take(sink, Stamps::after(self.last))?;
        let has_all = skipped == 0 || self.is_clock_behind();
        Ok(Next {
            packets,
            is_complete: self.previous.is_none() && is_delivered && has_all,
        })
    }

    /// Whether all packets of the previous capture are read.
    pub fn has_all_of_previous(&self) -> bool {
        self.previous.is_none()
    }

    /// Whether everything that arrived before the switch has been delivered.
    fn is_delivered(&self) -> bool {
        self.switched_at.elapsed() >= self.delivery
    }

    /// Whether the wall clock was set back to a time before the switch. Timestamps cannot
    /// separate the captures then, possibly for hours.
    fn is_clock_behind(&self) -> bool {
        now() <= self.last
    }
}

/// Packets read from the new capture.
pub struct Next {
    /// Including those that were skipped.
    pub packets: usize,
    /// Whether the replacement is complete: no further packet belongs to the previous
    /// capture.
    pub is_complete: bool,
}

/// The current time in the unit of packet timestamps.
fn now() -> i64 {
    (wall_clock() / 1000) as i64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;
    use crate::capture::settings::CaptureSettings;
    use crate::capture::testing::many;
    use crate::capture::testing::network::FakeNetwork;
    use crate::capture::testing::sink;
    use crate::config;

    /// Otherwise the new capture would count nothing for as long as the clock was set back.
    #[test]
    fn a_clock_that_is_set_back_does_not_prolong_a_hand_over() {
        const HOUR: i64 = 3_600_000_000;
        const DELIVERY: Duration = Duration::from_millis(1);
        let network = FakeNetwork::of(&["eth0"]);
        let settings = CaptureSettings::new(&config::Capture::default(), 8 << 20);
        let open = || Open::new(&network, "eth0", &settings).unwrap();
        let (previous, mut next) = (open(), open());
        let (mut sink, _reader, tally) = sink(1024);
        let mut hand_over = HandOver::start(previous, DELIVERY);
        hand_over.last += HOUR;
        network.send("eth0", &many(10));
        thread::sleep(DELIVERY);
        assert_eq!(hand_over.take_previous(&mut sink), 10);
        assert!(hand_over.has_all_of_previous());
        let taken = hand_over.take_next(&mut next, &mut sink).unwrap();
        assert_eq!((taken.packets, taken.is_complete), (10, true));
        assert_eq!(tally.packets.load(Relaxed), 10);
    }
}
