//! Counts of all keys that are known by name, at one time.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::sketches::counts::NamedCounts;
use crate::window::windows::Windows;
use crate::window::{Window, WindowClock};

/// The start of live times.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The counts of the current window of an interface at one time.
pub struct Moment {
    /// Time by a monotonic clock, or the time of the latest packet of a file.
    pub at: Duration,
    /// The number of the window.
    pub window: u64,
    pub counts: NamedCounts,
    /// The complete previous window, if it ended since the last moment.
    pub ended: Option<Ended>,
}

/// A window that is over.
pub enum Ended {
    Window(Arc<Window>),
    #[cfg(test)]
    Counts(u64, Box<NamedCounts>),
}

impl Moment {
    /// The current counts of `windows`. `known` is the number of the window at the last moment; if
    /// that window is over, its final counts are included.
    pub fn of(windows: &Windows, known: Option<u64>) -> Self {
        let window = windows.current();
        let at = match windows.clock() {
            WindowClock::Wall(_) => START.elapsed(),
            // A file is not read at the speed of capture, so the times of its packets count.
            WindowClock::Packets(_) | WindowClock::Never => {
                let start = window.times().0.map(Duration::from_nanos);
                let seconds = Duration::try_from_secs_f64(window.seconds());
                start.unwrap_or_default() + seconds.unwrap_or_default()
            }
        };
        let last = windows.last().filter(|last| Some(last.number) == known);
        Self {
            at,
            window: window.number,
            counts: window.sketches.counts(),
            ended: last.map(|last| Ended::Window(Arc::clone(last))),
        }
    }
}

impl Ended {
    pub fn number(&self) -> u64 {
        match self {
            Self::Window(window) => window.number,
            #[cfg(test)]
            Self::Counts(number, _) => *number,
        }
    }

    pub fn counts(self) -> NamedCounts {
        match self {
            Self::Window(window) => window.sketches.counts(),
            #[cfg(test)]
            Self::Counts(_, counts) => *counts,
        }
    }
}
