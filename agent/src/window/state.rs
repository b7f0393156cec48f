//! The properties of a window besides lists and answers, in the form that all JSON has.

use serde::{Deserialize, Serialize};

use super::Window;
use crate::traffic::names::Group;

/// A window; times are in seconds since 1970.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct WindowState {
    #[serde(flatten)]
    pub time: WindowTime,
    /// Seconds of the window in which no agent ran; omitted if there are none.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub unseen_seconds: f64,
    pub packets: u64,
    pub bytes: u64,
    /// Number of pairs, an estimate unless exact.
    #[serde(default)]
    pub distinct_pairs: Option<u64>,
    /// Whether every pair and address is counted exactly.
    #[serde(default)]
    pub exact: bool,
}

/// Start and end of a window, in seconds since 1970. `None` from an agent of an earlier version.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowTime {
    pub start: Option<f64>,
    pub end: Option<f64>,
    /// Length of the window so far.
    pub seconds: f64,
}

/// The figures of an interface besides its windows.
#[derive(Debug, Default)]
pub struct Figures {
    /// Mean load of each layer of the sketch of pairs, bottom first.
    pub loads: Vec<f32>,
    /// Layers added since the start.
    pub expansions: usize,
    /// Bytes of all sketches.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// Traffic between named networks since the start, if there are names.
    pub groups: Option<Vec<Group>>,
    /// The window that is being filled.
    pub current: WindowState,
}

fn is_nothing(seconds: &f64) -> bool {
    *seconds == 0.0
}

impl WindowState {
    /// Seconds in which packets were seen, which rates refer to.
    pub fn seen_seconds(&self) -> f64 {
        (self.time.seconds - self.unseen_seconds).max(0.0)
    }
}

impl Window {
    pub fn state(&self) -> WindowState {
        let seconds = |time: u64| time as f64 / 1e9;
        let (start, end) = self.times();
        WindowState {
            time: WindowTime {
                start: start.map(seconds),
                end: end.map(seconds),
                seconds: self.seconds(),
            },
            unseen_seconds: seconds(self.unseen),
            packets: self.packets,
            bytes: self.bytes,
            distinct_pairs: self.sketches.pairs.distinct(),
            exact: self.sketches.is_exact(),
        }
    }
}
