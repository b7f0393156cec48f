//! What ends windows: [`WallWindows`] of a live capture, [`PacketTime`] of a file. Neither reads a
//! clock itself.

use std::time::Instant;

use super::{Assignment, Bounds, PacketTime, Until, WallWindows};

pub enum WindowClock {
    /// Nothing: there is a single window.
    Never,
    Wall(WallWindows),
    Packets(PacketTime),
}

impl WindowClock {
    /// Which window a packet belongs to; see [`PacketTime::place`].
    #[inline]
    pub fn place(&mut self, time: u64, next: Option<u64>) -> Assignment {
        match self {
            Self::Packets(clock) => clock.place(time, next),
            Self::Wall(_) | Self::Never => Assignment::Current,
        }
    }

    /// Whether the window has to end `now` by the wall clock.
    pub fn is_over(&self, now: Instant) -> bool {
        matches!(self, Self::Wall(windows) if windows.is_over(now))
    }

    /// The bounds of the first window. `None` if packets define them.
    pub fn first(&self) -> Option<Bounds> {
        match self {
            Self::Wall(windows) => Some(windows.bounds()),
            Self::Packets(_) | Self::Never => None,
        }
    }

    /// Until when a window that is being filled has lasted.
    pub fn until(&self) -> Until {
        match self {
            Self::Wall(windows) => Until::Now(windows.began()),
            Self::Packets(_) | Self::Never => Until::Latest,
        }
    }
}
