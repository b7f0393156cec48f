//! When windows turn: of a live capture by the monotonic [`Cadence`], of a file
//! by [`PacketTime`]. Neither reads a clock itself.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{Bounds, Cadence, PacketTime, Place};

/// What turns the windows of an interface.
pub enum WindowClock {
    /// Nothing: there is one window for everything.
    Never,
    /// The monotonic clock.
    Monotonic(Cadence),
    /// The time of packets.
    Packets(PacketTime),
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

/// Now by the wall clock, in nanoseconds since 1970. It may jump.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
