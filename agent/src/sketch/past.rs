//! What is kept of a file for its report: the windows that are over, and exact
//! counts beside the sketch.

use std::collections::HashMap;

use crane_model::name::Name;
use crane_model::{Arrival, Flow};

use super::answer::{About, Asked, By};
use super::batch::Pairs;
use super::sketches::Sketches;
use super::window::Window;
use crate::edge::Pair;
use crate::names::Names;

/// More windows than anyone reads; memory has to end somewhere.
const MOST_WINDOWS: usize = 100_000;

/// What a report wants to know of a file.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Entries in the list of a window; none if windows are not reported.
    pub windows: Option<usize>,
    /// What that list and conversations are ordered by.
    pub by: By,
    /// Count exactly, too.
    pub exactly: bool,
    /// Pairs, networks and nodes to tell of, whether they are heavy or not.
    pub ask: Vec<About>,
    /// Conversations, too.
    pub both: bool,
    /// What the sketches look like inside, too.
    pub inside: bool,
}

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
    /// The heaviest pairs.
    pub top: Vec<Flow<Pair>>,
    /// What was asked.
    pub asked: Vec<Asked>,
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
    wanted: Wanted,
    windows: Vec<PastWindow>,
    /// Whether there were more windows than are kept.
    forgets: bool,
    /// Packets and bytes. The standard library's map is keyed: no capture can
    /// slow it down.
    exact: Option<HashMap<Pair, (u64, u64)>>,
}

impl Past {
    /// Keeps what is wanted.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            exact: wanted.exactly.then(HashMap::default),
            wanted,
            windows: Vec::new(),
            forgets: false,
        }
    }

    /// What is kept.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Counts a batch exactly, if that is wanted.
    pub fn count(&mut self, pairs: &Pairs) {
        if let Some(exact) = &mut self.exact {
            count(exact, pairs.narrow.arrivals());
            count(exact, pairs.wide.arrivals());
        }
    }

    /// Keeps what a report says of a window of `interface`.
    pub fn remember(
        &mut self,
        over: &Window,
        interface: &str,
        names: Option<&Names>,
    ) -> crane_model::Result<()> {
        let Some(top) = self.wanted.windows else {
            return Ok(());
        };
        if self.windows.len() == MOST_WINDOWS {
            if !std::mem::replace(&mut self.forgets, true) {
                tracing::warn!(interface, "the report ends after {MOST_WINDOWS} windows");
            }
            return Ok(());
        }
        let heaviest = over.sketches.heaviest_pairs(top);
        self.windows.push(PastWindow {
            start: over.start,
            end: over.end.unwrap_or(u64::MAX),
            packets: over.packets,
            bytes: over.bytes,
            top: match self.wanted.by {
                By::Packets => heaviest.by_packets,
                By::Bytes => heaviest.by_bytes,
            },
            asked: over.sketches.asked(&self.wanted.ask, names)?,
        });
        Ok(())
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
