//! Windows by the monotonic clock.
//!
//! A window begins at a wall time, for people, and lasts a length of the
//! monotonic clock: the wall clock may jump by a day, and so do the stamps of
//! the kernel, which are not looked at. The window turns when the worker first
//! looks at or after its end. Everything that is in the ring by then belongs to
//! it, what the kernel still holds back belongs to the next: packets are in the
//! wrong one by a hand-over or by a nap of the worker at most. The length of a
//! window is what has really passed between two turns. Ends keep a steady pace;
//! whole windows that the worker slept through are left out. While the machine
//! is suspended the clock stands still, and the window goes on afterwards.

use std::time::{Duration, Instant};

use super::{Bounds, nanoseconds};
use crate::config::length::WindowLength;

/// Windows by the monotonic clock.
pub struct Cadence {
    length: Duration,
    /// When the current window began.
    began: Instant,
    /// When it is over.
    end: Instant,
}

impl Cadence {
    /// Windows of this length, as if the first had begun at `origin`: those
    /// with the same origin turn together. The current one begins `now`.
    pub fn new(origin: Instant, length: WindowLength, now: Instant) -> Self {
        let length = length.0;
        let end = next_end(origin, length, now);
        Self {
            length,
            began: now,
            end,
        }
    }

    /// Goes on `now` with a window that has lasted so many nanoseconds and goes on for
    /// `left` more; windows after it have this length.
    pub fn resumed(length: WindowLength, lasted: u64, left: u64, now: Instant) -> Self {
        Self {
            length: length.0,
            // A machine may have run for less than that.
            began: now.checked_sub(Duration::from_nanos(lasted)).unwrap_or(now),
            end: now + Duration::from_nanos(left),
        }
    }

    /// For how long the window still goes on, in nanoseconds.
    pub fn left(&self, now: Instant) -> u64 {
        nanoseconds(self.end.saturating_duration_since(now))
    }

    /// How long windows are.
    pub fn length(&self) -> WindowLength {
        WindowLength(self.length)
    }

    /// Whether the window is over.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.end
    }

    /// How long the window has lasted, in nanoseconds.
    pub fn lasted(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.began))
    }

    /// When the window began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Begins the next window `now`, which is `wall` by the wall clock.
    pub fn turn(&mut self, now: Instant, wall: u64) -> Bounds {
        self.end = next_end(self.end, self.length, now);
        self.began = now;
        self.bounds(wall)
    }

    /// The window, if it began at `wall` by the wall clock.
    pub fn bounds(&self, wall: u64) -> Bounds {
        let left = self.end.saturating_duration_since(self.began);
        Bounds {
            start: wall,
            end: wall.saturating_add(nanoseconds(left)),
        }
    }
}

/// The first end after `now` when one is at `end` and others are whole lengths
/// from it.
fn next_end(end: Instant, length: Duration, now: Instant) -> Instant {
    let since = nanoseconds(now.saturating_duration_since(end));
    let into = since % nanoseconds(length).max(1);
    now + length.saturating_sub(Duration::from_nanos(into))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;
    /// Some day in 2023.
    const NOON: u64 = 1_700_000_000 * SECOND;

    /// Turns of windows of 60 s when the worker looks at these milliseconds
    /// since the start, and what the wall clock says then: at which, after how
    /// many milliseconds, and the bounds of the new window.
    fn turns(looks: impl IntoIterator<Item = (u64, u64)>) -> Vec<(u64, u64, Bounds)> {
        let origin = Instant::now();
        let mut cadence = Cadence::new(origin, WindowLength::seconds(60), origin);
        let mut turns = Vec::new();
        for (at, wall) in looks {
            let now = origin + Duration::from_millis(at);
            if cadence.is_over(now) {
                let lasted = cadence.lasted(now) / 1_000_000;
                turns.push((at, lasted, cadence.turn(now, wall)));
            }
        }
        turns
    }

    #[test]
    fn a_wall_clock_that_jumps_neither_stalls_nor_skips_a_window() {
        let jumps = |at: u64| match at {
            0..90_000 => 0,
            90_000..200_000 => -(DAY as i64),
            200_000..290_000 => 2 * DAY as i64,
            _ => 0,
        };
        let wall = |at: u64| (NOON + at * 1_000_000).saturating_add_signed(jumps(at));
        let looks = (0..=360_000).step_by(50).map(|at| (at, wall(at)));
        let turns = turns(looks);
        assert_eq!(turns.len(), 6);
        for (n, (at, lasted, bounds)) in turns.into_iter().enumerate() {
            assert_eq!((at, lasted), (60_000 * (n as u64 + 1), 60_000));
            assert_eq!(bounds.start, wall(at), "people see the wall clock");
            assert_eq!(bounds.end - bounds.start, 60 * SECOND);
        }
    }

    #[test]
    fn late_looks_do_not_add_up_and_missed_windows_are_left_out() {
        let looks = [60_030, 120_010, 120_020, 179_999, 180_040, 500_000, 540_000];
        let turns = turns(looks.map(|at| (at, NOON)));
        let seen: Vec<_> = turns
            .iter()
            .map(|(at, lasted, bounds)| (*at, *lasted, (bounds.end - NOON) / 1_000_000))
            .collect();
        assert_eq!(
            seen,
            [
                (60_030, 60_030, 59_970),
                (120_010, 59_980, 59_990),
                (180_040, 60_030, 59_960),
                (500_000, 319_960, 40_000),
                (540_000, 40_000, 60_000),
            ]
        );
    }

    #[test]
    fn a_window_of_another_run_ends_when_it_would_have() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let length = WindowLength::seconds(60);
        let mut cadence = Cadence::resumed(length, 25 * SECOND, 35 * SECOND, now);
        assert_eq!(cadence.lasted(at(5)), 30 * SECOND);
        assert_eq!(cadence.left(at(5)), 30 * SECOND);
        assert!(!cadence.is_over(at(34)) && cadence.is_over(at(35)));
        assert_eq!(cadence.turn(at(35), NOON).end, NOON + 60 * SECOND);
        assert_eq!(cadence.length(), length);
    }

    #[test]
    fn an_interface_that_comes_later_turns_with_the_others() {
        let origin = Instant::now();
        let at = |seconds| origin + Duration::from_secs(seconds);
        let cadence = Cadence::new(origin, WindowLength::seconds(60), at(100));
        assert!(!cadence.is_over(at(119)) && cadence.is_over(at(120)));
        assert_eq!(cadence.lasted(at(120)), 20 * SECOND);
        assert_eq!(cadence.bounds(NOON).end, NOON + 20 * SECOND);
    }
}
