//! Windows that end at multiples of their length by the wall clock, so that windows of all
//! interfaces and hosts have the same bounds, and sixty windows of a minute are exactly one hour.
//!
//! When a window begins, the wall clock defines its end, and the monotonic clock measures the time
//! until then. The window is ended when the worker next checks the time, and packets that are in
//! the ring at that moment belong to it. The recorded bounds are the nominal multiples, not the
//! time of that check. The first window is shorter than the others.
//!
//! After a step of the wall clock the next window begins at the new time and is shortened, so that
//! it ends at a multiple again. So no window is lost or longer than its length, and no packet is
//! counted in two windows. Whole windows during which the worker was delayed are skipped. The
//! monotonic clock does not advance while the machine is suspended, so a suspension counts as a
//! step of the wall clock.

use std::time::{Duration, Instant};

use super::{Bounds, nanoseconds};
use crate::config::length::WindowLength;

/// Both clocks are read one after the other, and the machine may be busy in between. So differences
/// up to this many nanoseconds do not count as a step.
const NOT_A_STEP: u64 = 100_000_000;

pub struct WallWindows {
    length: u64,
    /// When the current window began.
    began: Instant,
    /// When it has to end.
    deadline: Instant,
    bounds: Bounds,
}

impl WallWindows {
    /// Windows of this length. The first begins `now`, which is `wall` by the wall clock.
    pub fn new(length: WindowLength, now: Instant, wall: u64) -> Self {
        let length = nanoseconds(length.0).max(1);
        let bounds = Bounds {
            start: wall,
            end: next_multiple(wall, length),
        };
        Self {
            length,
            began: now,
            deadline: now + Duration::from_nanos(bounds.end - wall),
            bounds,
        }
    }

    /// Continues a window that began at `start` by the wall clock, `lasted` nanoseconds ago.
    pub fn resume(&mut self, start: u64, lasted: u64) {
        self.bounds.start = start.min(self.bounds.end);
        // The machine may have booted more recently than that.
        let began = self.began.checked_sub(Duration::from_nanos(lasted));
        self.began = began.unwrap_or(self.began);
    }

    /// Nanoseconds until the window ends.
    pub fn left(&self, now: Instant) -> u64 {
        nanoseconds(self.deadline.saturating_duration_since(now))
    }

    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// Nanoseconds since the window began.
    pub fn lasted(&self, now: Instant) -> u64 {
        nanoseconds(now.saturating_duration_since(self.began))
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// The nominal bounds of the window.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Begins the next window `now`, which is `wall` by the wall clock.
    pub fn turn(&mut self, now: Instant, wall: u64) -> Bounds {
        // Where the wall clock would be without a step.
        let late = nanoseconds(now.saturating_duration_since(self.deadline));
        let expected = self.bounds.end.saturating_add(late);
        let tolerated = NOT_A_STEP.min(self.length / 4);
        let start = match wall.abs_diff(expected) <= tolerated {
            // Windows that have passed in the meantime are skipped.
            true => self.bounds.end + late / self.length * self.length,
            false => wall,
        };
        let end = next_multiple(start, self.length);
        // The window is never longer than its length, even if the clock is slightly behind.
        let left = end.saturating_sub(wall).min(self.length);
        self.began = now;
        self.deadline = now + Duration::from_nanos(left);
        self.bounds = Bounds { start, end };
        self.bounds
    }
}

/// The first multiple of `length` after `time`.
fn next_multiple(time: u64, length: u64) -> u64 {
    (time / length + 1).saturating_mul(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;
    /// A full hour of some day in 2023.
    const NOON: u64 = 472_222 * 3600 * SECOND;

    /// The end of a window: its time and the length of the window in milliseconds, and the next
    /// window.
    type Turn = (u64, u64, Bounds);

    /// The ends of windows of 60 s if the worker checks the time at these milliseconds since the
    /// start, each with the time of the wall clock.
    fn turns(looks: impl IntoIterator<Item = (u64, u64)>) -> Vec<Turn> {
        let mut looks = looks.into_iter().peekable();
        let origin = Instant::now();
        let (_, wall) = *looks.peek().unwrap();
        let mut windows = WallWindows::new(WindowLength::seconds(60), origin, wall);
        let mut turns = Vec::new();
        for (at, wall) in looks {
            let now = origin + Duration::from_millis(at);
            if windows.is_over(now) {
                let lasted = windows.lasted(now) / 1_000_000;
                assert!(lasted <= 60_050, "no longer than its length: {lasted}");
                turns.push((at, lasted, windows.turn(now, wall)));
            }
        }
        turns
    }

    fn bounds(start: u64, end: u64) -> Bounds {
        Bounds { start, end }
    }

    #[test]
    fn windows_end_at_multiples_of_their_length() {
        // 20 s before the full hour. The time is checked every 50 ms, so a little after each end.
        let start = NOON - 20 * SECOND + 7_000_000;
        let wall = |at: u64| start + at * 1_000_000;
        let turns = turns((0..=200_000).step_by(50).map(|at| (at, wall(at))));
        let windows: Vec<Bounds> = turns.iter().map(|(.., bounds)| *bounds).collect();
        let nominal = |n: u64| bounds(NOON + n * MINUTE, NOON + (n + 1) * MINUTE);
        assert_eq!(windows, [nominal(0), nominal(1), nominal(2), nominal(3)]);
        assert_eq!(turns[0].1, 20_000, "the first window is shorter");
        assert!(turns[1..].iter().all(|turn| turn.1 == 60_000));
    }

    #[test]
    fn after_a_step_of_the_clock_one_window_is_short() {
        for step in [
            -3 * SECOND as i64,
            -70 * SECOND as i64,
            25 * SECOND as i64,
            86_400 * SECOND as i64,
            -(86_400 * SECOND as i64),
        ] {
            // The clock is set 30 s into the second window.
            let wall = |at: u64| {
                let wall = NOON + at * 1_000_000;
                match at < 90_000 {
                    true => wall,
                    false => wall.saturating_add_signed(step),
                }
            };
            let turns = turns((0..=400_000).step_by(50).map(|at| (at, wall(at))));
            assert_eq!(
                (turns[0].0, turns[1].0),
                (60_000, 120_000),
                "windows before the step are not affected"
            );
            let (_, _, short) = turns[1];
            let set = (NOON + 2 * MINUTE).saturating_add_signed(step);
            assert_eq!(short.start, set);
            assert!(short.end.is_multiple_of(MINUTE) && short.end - short.start <= MINUTE);
            assert_eq!(turns[2].1 * 1_000_000, short.end - short.start);
            let mut before = short;
            for (_, _, window) in &turns[2..] {
                assert_eq!(*window, bounds(before.end, before.end + MINUTE));
                before = *window;
            }
        }
    }

    #[test]
    fn a_late_check_changes_no_bounds_and_missed_windows_are_skipped() {
        let looks = [0, 60_030, 120_010, 179_999, 180_040];
        let looks = looks.map(|at| (at, NOON + at * 1_000_000));
        let found: Vec<u64> = turns(looks).iter().map(|(.., b)| b.start).collect();
        assert_eq!(found, [1, 2, 3].map(|n| NOON + n * MINUTE));
        // The worker is delayed for more than two windows.
        let origin = Instant::now();
        let mut windows = WallWindows::new(WindowLength::seconds(60), origin, NOON);
        let late = 200 * SECOND;
        let next = windows.turn(origin + Duration::from_nanos(late), NOON + late);
        assert_eq!(next, bounds(NOON + 3 * MINUTE, NOON + 4 * MINUTE));
        assert_eq!(
            windows.left(origin + Duration::from_nanos(late)),
            40 * SECOND
        );
    }

    #[test]
    fn a_resumed_window_ends_at_its_nominal_end() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let wall = NOON + 25 * SECOND;
        let mut windows = WallWindows::new(WindowLength::seconds(60), now, wall);
        windows.resume(NOON, 25 * SECOND);
        assert_eq!(windows.bounds(), bounds(NOON, NOON + MINUTE));
        assert_eq!(windows.lasted(at(5)), 30 * SECOND);
        assert_eq!(windows.left(at(5)), 30 * SECOND);
        assert!(!windows.is_over(at(34)) && windows.is_over(at(35)));
    }
}
