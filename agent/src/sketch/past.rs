//! What is kept of a file for its report: the windows that are over, and exact
//! counts beside the sketch.

use std::collections::HashMap;

use crane_model::name::Name;
use crane_model::{Arrival, Flow};

use super::batch::Batch;
use super::sketches::Sketches;
use super::window::Window;
use crate::edge::Pair;
use crate::export::hitters::Hitters;

/// More windows than anyone reads; memory has to end somewhere.
const MOST_WINDOWS: usize = 100_000;

/// What is kept of a window that is over.
pub struct PastWindow {
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The pairs with most packets.
    pub top: Vec<Flow<Pair>>,
}

/// A pair as it was, and what the sketch says of it.
pub struct Compared {
    /// Packets, exactly.
    pub packets: u64,
    /// Bytes, exactly.
    pub bytes: u64,
    /// The sketch's answer.
    pub flow: Flow<Pair>,
}

/// The past of one file.
pub struct Past {
    /// Pairs in the list of a window; none if windows are not reported.
    top: Option<usize>,
    windows: Vec<PastWindow>,
    /// Whether there were more windows than are kept.
    forgets: bool,
    /// Packets and bytes. The standard library's map is keyed: no capture can
    /// slow it down.
    exact: Option<HashMap<Pair, (u64, u64)>>,
}

impl Past {
    /// Keeps windows with so many pairs each, if any, and counts exactly if
    /// that is wanted.
    pub fn new(top: Option<usize>, exactly: bool) -> Self {
        Self {
            top,
            windows: Vec::new(),
            forgets: false,
            exact: exactly.then(HashMap::default),
        }
    }

    /// Counts a batch exactly, if that is wanted.
    pub fn count(&mut self, batch: &Batch) {
        if let Some(exact) = &mut self.exact {
            count(exact, batch.narrow.pairs());
            count(exact, batch.wide.pairs());
        }
    }

    /// Keeps what a report says of a window of `interface`.
    pub fn remember(&mut self, over: &Window, interface: &str) {
        let Some(top) = self.top else {
            return;
        };
        if self.windows.len() == MOST_WINDOWS {
            if !std::mem::replace(&mut self.forgets, true) {
                tracing::warn!(interface, "the report ends after {MOST_WINDOWS} windows");
            }
            return;
        }
        self.windows.push(PastWindow {
            start: over.start,
            end: over.end.unwrap_or(u64::MAX),
            packets: over.packets,
            bytes: over.bytes,
            top: Hitters::of(over.sketches.named_pairs(), top).by_packets,
        });
    }

    /// The windows that are over; they are handed out once.
    pub fn take_windows(&mut self) -> Vec<PastWindow> {
        std::mem::take(&mut self.windows)
    }

    /// All pairs beside what `sketches` say of them, if they were counted; in
    /// the order of addresses, so that sums come out the same every time.
    pub fn compare(&self, sketches: &Sketches) -> crane_model::Result<Option<Vec<Compared>>> {
        let Some(exact) = &self.exact else {
            return Ok(None);
        };
        let mut exact: Vec<(Pair, (u64, u64))> =
            exact.iter().map(|(pair, count)| (*pair, *count)).collect();
        exact.sort_unstable();
        let compared = exact.into_iter().map(|(pair, (packets, bytes))| {
            sketches.pair(pair).map(|flow| Compared {
                packets,
                bytes,
                flow,
            })
        });
        compared.collect::<crane_model::Result<_>>().map(Some)
    }
}

fn count<N: Name>(exact: &mut HashMap<Pair, (u64, u64)>, arrivals: &[Arrival<N>]) {
    for arrival in arrivals {
        let pair = Pair::of_name(arrival.name.any());
        let (packets, bytes) = exact.entry(pair).or_default();
        *packets += arrival.packets;
        *bytes += arrival.bytes;
    }
}
