//! A [`Window`] is a period of time with the sketches, counts, times and names of its packets.
//! The worker owns it while it is being filled. When it is over it is immutable and any thread
//! may read it. Lists, answers and metrics are computed from it in the same way for a live
//! capture, a file and a window of another run.
//!
//! | module | holds |
//! |---|---|
//! | [`windows`] | the windows of one interface, and when the next one begins |
//! | [`run`] | storing batches in them, by one thread or two |
//! | [`WindowClock`], [`WallWindows`], [`PacketTime`] | when a window ends |
//! | [`lists`], [`list`], [`keys`], [`info`], [`estimate`] | the lists of a window and their rows |
//! | [`answer`], [`services`] | answers to questions |
//! | [`rates`] | rates of the last seconds, of all keys known by name |
//! | [`state`] | times and totals of a window |
//! | [`snapshot`], [`view`] | the published state of all interfaces, and how it is shown |
//! | [`groups`], [`exact`] | exact counts beside sketches |

pub mod answer;
pub mod conversations;
pub mod estimate;
pub mod exact;
pub mod groups;
pub mod info;
pub mod keys;
pub mod list;
pub mod lists;
mod packet_time;
pub mod rates;
pub mod run;
pub mod services;
pub mod snapshot;
pub mod state;
pub mod view;
mod wall_windows;
pub mod windows;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use packet_time::{Assignment, PacketTime};
pub use wall_windows::WallWindows;

use crate::lookup::Lookup;
use crate::sketches::Sketches;
use crate::traffic::batch::Totals;
use crate::traffic::names::Names;
use crate::traffic::packet::NO_TIME;

/// Start and end of a window, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub start: u64,
    pub end: u64,
}

/// Converts to the unit of packet times.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The end of the period that a window covers so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The end of the window, because it is over.
    End,
    /// Now, because the window is live. It began at this moment.
    Now(Instant),
    /// The latest packet, because the packets are from a file.
    Latest,
}

/// What ends windows: [`WallWindows`] of a live capture, [`PacketTime`] of a file. Neither reads a
/// clock itself.
pub enum WindowClock {
    /// A single window without an end.
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

    /// The end of the period that a window being filled covers so far.
    pub fn until(&self) -> Until {
        match self {
            Self::Wall(windows) => Until::Now(windows.began()),
            Self::Packets(_) | Self::Never => Until::Latest,
        }
    }
}

pub struct Window {
    /// Number of the window. Positions in its sketches depend on it.
    pub number: u64,
    /// Start in nanoseconds since 1970, or the largest number until it is known.
    pub start: u64,
    /// End. `None` if the window never ends.
    pub end: Option<u64>,
    until: Until,
    /// Time of the latest packet, for packets of a file.
    latest: u64,
    /// Nanoseconds of the window in which no agent ran.
    pub unseen: u64,
    /// Packets stored, scaled if sampled.
    pub packets: u64,
    pub bytes: u64,
    pub sketches: Sketches,
    /// Names of networks, if they are configured.
    pub names: Option<Arc<Names>>,
    /// Databases and host names of addresses.
    pub lookup: Arc<Lookup>,
}

impl Window {
    pub fn new(
        number: u64,
        bounds: Option<Bounds>,
        until: Until,
        sketches: Sketches,
        names: Option<Arc<Names>>,
        lookup: Arc<Lookup>,
    ) -> Self {
        Self {
            number,
            start: bounds.map_or(u64::MAX, |bounds| bounds.start),
            end: bounds.map(|bounds| bounds.end),
            until,
            latest: 0,
            unseen: 0,
            packets: 0,
            bytes: 0,
            sketches,
            names,
            lookup,
        }
    }

    /// Adds the totals of a batch whose packets are stored in the sketches.
    fn count(&mut self, batch: &Totals) {
        self.latest = self.latest.max(batch.latest);
        self.packets += batch.packets;
        self.bytes += batch.bytes;
    }

    /// Whether the window ends after `time`.
    pub fn ends_after(&self, time: u64) -> bool {
        self.end.is_some_and(|end| end > time)
    }

    /// Ends the window with its latest packet, after the last packet of a file. A packet with a
    /// wrong time may be later than its window.
    pub fn cut(&mut self) {
        let end = self.end.unwrap_or(u64::MAX);
        self.end = Some(self.latest.min(end).max(self.start));
    }

    /// Makes the window immutable. A window without an end keeps none.
    pub fn finish(mut self) -> Arc<Self> {
        self.sketches.freeze();
        if self.end.is_some() {
            self.until = Until::End;
        }
        Arc::new(self)
    }

    /// Start and end in nanoseconds since 1970. `None` before the first packet defines them, and
    /// for files whose packets have no time.
    pub fn times(&self) -> (Option<u64>, Option<u64>) {
        let is_dated = self.start != u64::MAX && self.start != NO_TIME;
        (
            Some(self.start).filter(|_| is_dated),
            self.end.filter(|_| is_dated),
        )
    }

    pub fn is_complete(&self) -> bool {
        self.until == Until::End
    }

    /// Length of the window so far, in seconds.
    pub fn seconds(&self) -> f64 {
        let end = self.end.unwrap_or(u64::MAX);
        let until = match self.until {
            Until::End => end,
            Until::Now(began) => return began.elapsed().as_secs_f64(),
            // A packet with a wrong time may be later than its window.
            Until::Latest => self.latest.min(end),
        };
        match self.start {
            u64::MAX => 0.0,
            start => until.saturating_sub(start) as f64 / 1e9,
        }
    }
}
