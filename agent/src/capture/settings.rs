//! How a capture is opened, and how often it is checked.

use std::time::Duration;

use super::libpcap::DELIVERY_TIMEOUT;
use crate::config::{self, Direction};

/// Least and greatest size of an interface's kernel buffer.
const BUFFER: (u64, u64) = (256 << 10, 64 << 20);
/// Smallest buffer with which the kernel delivers packets in blocks. A block has 256 KiB,
/// and with fewer than four blocks the kernel soon has none to write to.
const IN_BLOCKS: u64 = 1 << 20;

/// Settings of a capture. If they change, the capture is replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct CaptureSettings {
    /// Bytes captured of each packet.
    pub snaplen: i32,
    pub promiscuous: bool,
    pub direction: Direction,
    /// In the language of tcpdump.
    pub filter: Option<String>,
    /// Size of the kernel buffer in bytes.
    pub buffer: u64,
}

impl CaptureSettings {
    /// Settings of an interface whose share of all buffers is `share` bytes.
    pub fn new(capture: &config::Capture, share: u64) -> Self {
        Self {
            snaplen: capture.snaplen.into(),
            promiscuous: capture.promiscuous,
            direction: capture.direction,
            filter: capture.filter.clone(),
            buffer: share.clamp(BUFFER.0, BUFFER.1),
        }
    }

    /// Whether the kernel delivers packets in blocks.
    pub fn is_in_blocks(&self) -> bool {
        self.buffer >= IN_BLOCKS
    }
}

/// How often captures and their interfaces are checked. The default suits the kernel; tests
/// use shorter times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Longest time until a capture thread notices a stop, a message or a vanished
    /// interface.
    pub tick: Duration,
    /// Pause between attempts to open an interface, and between checks of an interface with
    /// traffic.
    pub retry: Duration,
    /// Pause between checks of an interface without traffic.
    pub quiet: Duration,
    /// Longest time between the timestamp of a packet and its delivery by a capture.
    pub delivery: Duration,
    /// Shortest pause between two lists of all interfaces, however often they change.
    pub list_pause: Duration,
    /// Longest pause between two lists if no change is reported: a report may be lost, and
    /// an interface that has vanished may have to be removed.
    pub list_interval: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            tick: Duration::from_millis(100),
            retry: Duration::from_secs(1),
            quiet: Duration::from_secs(10),
            delivery: DELIVERY_TIMEOUT.saturating_mul(4),
            list_pause: Duration::from_millis(250),
            list_interval: Duration::from_secs(1),
        }
    }
}
