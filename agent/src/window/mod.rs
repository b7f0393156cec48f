//! A [`Window`] is a length of time and what is known of its packets: sketches, counts,
//! times and names. While it is being filled the worker owns it; when it is over it is an
//! immutable value that any thread may ask. Lists, answers and metrics are functions of
//! it, whether it is live, of a file or of another run.
//!
//! | module | holds |
//! |---|---|
//! | [`windows`] | the windows of one interface, and when the next one begins |
//! | [`run`] | storing batches in them, by one thread or two |
//! | [`WindowClock`], [`WallWindows`], [`PacketTime`] | what turns them |
//! | [`lists`], [`list`], [`keys`], [`info`], [`estimate`] | its lists and their rows |
//! | [`answer`], [`services`] | answers to questions |
//! | [`rates`] | how fast everything is now that is known by name |
//! | [`state`] | its times and totals |
//! | [`snapshot`], [`view`] | what readers see of all interfaces, and how that is shown |
//! | [`groups`], [`exact`] | exact counts beside sketches |

pub mod answer;
mod clock;
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

pub use clock::WindowClock;
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

/// Until when a window has lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Its end, because it is over.
    End,
    /// Now; it is live and began at this moment.
    Now(Instant),
    /// Its latest packet, because it is of a file.
    Latest,
}

pub struct Window {
    /// Number of the window. Positions in its sketches depend on it.
    pub number: u64,
    /// Start in nanoseconds since 1970, or the largest number until it is known.
    pub start: u64,
    /// End. `None` if the window never ends.
    pub end: Option<u64>,
    until: Until,
    /// Time of the latest packet of a file.
    latest: u64,
    /// Nanoseconds of the window in which no agent ran.
    pub unseen: u64,
    /// Packets stored, scaled if sampled.
    pub packets: u64,
    pub bytes: u64,
    pub sketches: Sketches,
    /// Names of networks, if they are configured.
    pub names: Option<Arc<Names>>,
    /// What else is known of addresses.
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

    /// Whether it would end after `time`.
    pub fn ends_after(&self, time: u64) -> bool {
        self.end.is_some_and(|end| end > time)
    }

    /// Ends the window with its latest packet, after the last packet of a file. A packet with a
    /// wrong time may be later than its window.
    pub fn cut(&mut self) {
        let end = self.end.unwrap_or(u64::MAX);
        self.end = Some(self.latest.min(end).max(self.start));
    }

    /// Makes it an immutable value. A window without an end stays without one.
    pub fn finish(mut self) -> Arc<Self> {
        self.sketches.freeze();
        if self.end.is_some() {
            self.until = Until::End;
        }
        Arc::new(self)
    }

    /// When it begins and ends, in nanoseconds since 1970, as far as that is known: not
    /// before its first packet, and not of a file whose packets have no time.
    pub fn times(&self) -> (Option<u64>, Option<u64>) {
        let is_dated = self.start != u64::MAX && self.start != NO_TIME;
        (
            Some(self.start).filter(|_| is_dated),
            self.end.filter(|_| is_dated),
        )
    }

    /// Whether it is over.
    pub fn is_complete(&self) -> bool {
        self.until == Until::End
    }

    /// How long it was, or is so far, in seconds.
    pub fn seconds(&self) -> f64 {
        let end = self.end.unwrap_or(u64::MAX);
        let until = match self.until {
            Until::End => end,
            Until::Now(began) => return began.elapsed().as_secs_f64(),
            // A stray is later than its window.
            Until::Latest => self.latest.min(end),
        };
        match self.start {
            u64::MAX => 0.0,
            start => until.saturating_sub(start) as f64 / 1e9,
        }
    }
}
