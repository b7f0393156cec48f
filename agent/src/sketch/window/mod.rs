//! When windows turn: of a live capture by the monotonic [`Cadence`], of a file
//! by [`PacketTime`]. Neither reads a clock itself.

mod cadence;
mod packet_time;

use std::time::{Duration, Instant};

pub use cadence::Cadence;
pub use packet_time::{PacketTime, Place};

/// What turns the windows of an interface.
pub enum WindowClock {
    /// Nothing: there is one window for everything.
    Never,
    /// The monotonic clock.
    Monotonic(Cadence),
    /// The time of packets.
    Packets(PacketTime),
}

/// When a window begins and ends, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// When it begins.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

impl WindowClock {
    /// Where a packet belongs; see [`PacketTime::place`].
    #[inline]
    pub fn place(&mut self, time: u64, next: Option<u64>) -> Place {
        match self {
            Self::Packets(clock) => clock.place(time, next),
            Self::Monotonic(_) | Self::Never => Place::Current,
        }
    }

    /// Whether it is `now` time to turn the window, whatever packets say.
    pub fn is_over(&self, now: Instant) -> bool {
        matches!(self, Self::Monotonic(cadence) if cadence.is_over(now))
    }

    /// The first window, if it begins now, which is `wall` by the wall clock;
    /// none if packets have to tell.
    pub fn first(&self, wall: u64) -> Option<Bounds> {
        match self {
            Self::Monotonic(cadence) => Some(cadence.bounds(wall)),
            Self::Packets(_) | Self::Never => None,
        }
    }
}

/// In the unit of packet times.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
