//! What was counted by name at one time.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::sketches::counts::NamedCounts;
use crate::window::windows::Windows;
use crate::window::{Window, WindowClock};

/// What live times are counted from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What was counted in the current window of an interface, and when that was.
pub struct Moment {
    /// By a clock that only goes on; in a file the time of its latest packet.
    pub at: Duration,
    /// The number of the window.
    pub window: u64,
    pub counts: NamedCounts,
    /// What was counted in the window before, in all, if that one is wanted.
    pub ended: Option<Ended>,
}

/// A window that is over.
pub enum Ended {
    Window(Arc<Window>),
    #[cfg(test)]
    Counts(u64, Box<NamedCounts>),
}

impl Moment {
    /// What windows have now. `known` is the window that was seen last: if it is over, what
    /// it got until its end is wanted, too.
    pub fn of(windows: &Windows, known: Option<u64>) -> Self {
        let window = windows.current();
        let at = match windows.clock() {
            WindowClock::Wall(_) => START.elapsed(),
            // Files are read as fast as their packets come.
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
    /// Its number.
    pub fn number(&self) -> u64 {
        match self {
            Self::Window(window) => window.number,
            #[cfg(test)]
            Self::Counts(number, _) => *number,
        }
    }

    /// What was counted in it.
    pub fn counts(self) -> NamedCounts {
        match self {
            Self::Window(window) => window.sketches.counts(),
            #[cfg(test)]
            Self::Counts(_, counts) => *counts,
        }
    }
}
