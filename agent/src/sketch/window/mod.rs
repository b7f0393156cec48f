//! A [`Window`] is a length of time and what is known of its packets. A
//! [`WindowClock`] says when the next one begins.

mod cadence;
mod clock;
mod packet_time;

use std::net::IpAddr;
use std::time::Duration;

pub use cadence::Cadence;
pub use clock::{WindowClock, wall_clock};
pub use packet_time::{PacketTime, Place};

use super::batch::Batch;
use super::sketches::Sketches;
use crate::edge::Pair;
use crate::export::fans::FanLists;
use crate::export::hitters::Hitters;
use crate::export::snapshot::{Until, WindowView};

/// When a window begins and ends, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// When it begins.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

/// In the unit of packet times.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A window. See the head of this module.
pub struct Window {
    /// When it begins, in nanoseconds since 1970; the largest number until
    /// that is known.
    pub start: u64,
    /// When it ends; none if it never does. Of a live capture: when it began,
    /// and how long it lasts by the monotonic clock.
    pub end: Option<u64>,
    /// Time of the latest packet of a file.
    latest: u64,
    /// For how long no agent ran while it lasted, in nanoseconds.
    pub unseen: u64,
    /// Packets stored, scaled if sampled.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who sent them to whom.
    pub sketches: Sketches,
}

impl Window {
    /// An empty window.
    pub fn new(bounds: Option<Bounds>, sketches: Sketches) -> Self {
        Self {
            start: bounds.map_or(u64::MAX, |bounds| bounds.start),
            end: bounds.map(|bounds| bounds.end),
            latest: 0,
            unseen: 0,
            packets: 0,
            bytes: 0,
            sketches,
        }
    }

    /// Stores a batch.
    pub fn store(&mut self, batch: &mut Batch) -> crane_model::Result<()> {
        self.latest = self.latest.max(batch.pairs.latest);
        self.packets += batch.pairs.packets;
        self.bytes += batch.pairs.bytes;
        self.sketches.store(batch)
    }

    /// Whether it would end after `time`.
    pub fn ends_after(&self, time: u64) -> bool {
        self.end.is_some_and(|end| end > time)
    }

    /// Ends it with its latest packet: nothing more comes. A stray is later than
    /// its window.
    pub fn cut(&mut self) {
        let end = self.end.unwrap_or(u64::MAX);
        self.end = Some(self.latest.min(end).max(self.start));
    }

    /// Its picture, with its `top` heaviest.
    pub fn view(&self, top: usize, until: Until) -> WindowView {
        WindowView {
            sources: Hitters::of(self.sketches.named_sources(), top),
            destinations: Hitters::of(self.sketches.named_destinations(), top),
            services: Hitters::of(self.sketches.named_services(), top),
            fans: self.sketches.largest_fans(top),
            ..self.view_of(Hitters::of(self.sketches.named_pairs(), top), until)
        }
    }

    /// The same without any lists but of the `top` heaviest pairs that a node is an end of.
    pub fn view_with(&self, node: IpAddr, top: usize, until: Until) -> WindowView {
        let pairs = self.sketches.named_pairs();
        let pairs = pairs.filter(|flow| flow.key.src() == node || flow.key.dst() == node);
        self.view_of(Hitters::of(pairs, top), until)
    }

    /// The same without any lists.
    pub fn view_alone(&self, until: Until) -> WindowView {
        self.view_of(Hitters::default(), until)
    }

    fn view_of(&self, pairs: Hitters<Pair>, until: Until) -> WindowView {
        WindowView {
            start: (self.start < u64::MAX).then_some(self.start),
            end: self.end,
            until,
            latest: self.latest,
            unseen: self.unseen,
            packets: self.packets,
            bytes: self.bytes,
            distinct: self.sketches.pairs.distinct(),
            exact: self.sketches.is_exact(),
            main_services: self.sketches.main_services(pairs.union()),
            pairs,
            sources: Hitters::default(),
            destinations: Hitters::default(),
            services: Hitters::default(),
            fans: FanLists::default(),
        }
    }
}
