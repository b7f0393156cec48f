//! Windows by the timestamps of packets.
//!
//! A packet at or after the end of a window begins the next one; windows without packets are
//! skipped. Timestamps may be wrong, and a wrong one must not put the packets after it into a wrong
//! window:
//!
//! - *Ahead*: if a packet would skip a whole window, the next packet decides. If that one is at
//!   most one window earlier, time has advanced, so a night without packets is skipped. Otherwise
//!   the timestamp was wrong and the packet counts in the current window. The timestamp of the last
//!   packet of a file is taken as correct.
//! - *Behind*: a packet before the current window counts in the current window. The clock was set
//!   back, and a new window begins, only if all packets were more than a window behind, for the
//!   length of a window by their own timestamps. Single packets ahead do not interrupt this.
//! - *At the start*: if the second packet is more than a window before the first, the first window
//!   begins with the second. If the timestamp of the second was wrong, the third and the fourth
//!   packet correct it.
//!
//! So no packet is lost. A single timestamp that is wrong by more than a window does not affect
//! other packets. Several wrong timestamps in a row that agree, or a clock that is set, put at most
//! the packets of one window into a wrong window.

use super::{Bounds, nanoseconds};
use crate::config::length::WindowLength;

pub struct PacketTime {
    length: u64,
    /// The current window. `None` before the first packet.
    window: Option<Bounds>,
    /// Earliest time of the packets that are more than a window behind, since the last packet in
    /// the window. `None` if there are none.
    behind: Option<u64>,
}

/// The window that a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    Current,
    /// The first window, with these bounds.
    First(Bounds),
    /// A new window, with these bounds.
    Next(Bounds),
    /// The time of the next packet decides.
    Unknown,
}

impl PacketTime {
    pub fn new(length: WindowLength) -> Self {
        Self {
            length: nanoseconds(length.0),
            window: None,
            behind: None,
        }
    }

    /// Returns the window of the packet of `time`. `next` is the time of the packet after it. If
    /// the result is [`Assignment::Unknown`], call this again when `next` is known.
    #[inline]
    pub fn place(&mut self, time: u64, next: Option<u64>) -> Assignment {
        let Some(Bounds { start, end }) = self.window else {
            let Some(next) = next else {
                return Assignment::Unknown;
            };
            let first = if self.is_behind(next, time) {
                next
            } else {
                time
            };
            return Assignment::First(self.begin(first));
        };
        if time >= end {
            return self.place_ahead(time, end, next);
        }
        if !self.is_behind(time, start) {
            self.behind = None;
            return Assignment::Current;
        }
        let earliest = self.behind.map_or(time, |behind| behind.min(time));
        self.behind = Some(earliest);
        self.place_after(time, earliest)
    }

    /// Returns the window of a packet at or after the end of the current one.
    fn place_ahead(&mut self, time: u64, end: u64, next: Option<u64>) -> Assignment {
        if end == u64::MAX {
            return Assignment::Current; // no later window can be represented
        }
        if time - end >= self.length {
            match next {
                None => return Assignment::Unknown,
                Some(next) if self.is_behind(next, time) => return Assignment::Current,
                Some(_) => {}
            }
        }
        Assignment::Next(self.begin(time - (time - end) % self.length))
    }

    /// Returns the window of a packet that is behind, as are all since the one of `earliest`.
    fn place_after(&mut self, time: u64, earliest: u64) -> Assignment {
        let lasted = time - earliest;
        if lasted < self.length {
            return Assignment::Current;
        }
        Assignment::Next(self.begin(time - lasted % self.length))
    }

    /// Whether `time` is more than a window before `other`.
    fn is_behind(&self, time: u64, other: u64) -> bool {
        time < other.saturating_sub(self.length)
    }

    fn begin(&mut self, start: u64) -> Bounds {
        let end = start.saturating_add(self.length);
        let window = Bounds { start, end };
        self.window = Some(window);
        self.behind = None;
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400 * SECOND;
    /// Some day in 2023.
    const NOON: u64 = 1_700_000_000 * SECOND;

    /// The windows of 1 s in which packets of these times are counted: the start of each, and the
    /// times of its packets.
    fn windows(times: &[u64]) -> Vec<(u64, Vec<u64>)> {
        let mut clock = PacketTime::new(WindowLength::seconds(1));
        let mut windows: Vec<(u64, Vec<u64>)> = Vec::new();
        for (at, time) in times.iter().enumerate() {
            let mut place = clock.place(*time, None);
            if place == Assignment::Unknown {
                place = clock.place(*time, Some(*times.get(at + 1).unwrap_or(time)));
            }
            match place {
                Assignment::Unknown => panic!("the next packet is known"),
                Assignment::Current => {}
                Assignment::First(bounds) | Assignment::Next(bounds) => {
                    assert!(bounds.start < bounds.end || bounds.end == u64::MAX);
                    windows.push((bounds.start, Vec::new()));
                }
            }
            windows.last_mut().unwrap().1.push(*time);
        }
        windows
    }

    /// The start of each window and its number of packets.
    fn shape(times: &[u64]) -> Vec<(u64, usize)> {
        let windows = windows(times).into_iter();
        windows.map(|(start, times)| (start, times.len())).collect()
    }

    /// Ten packets a second, from `start` on.
    fn steady(start: u64, count: u64) -> Vec<u64> {
        (0..count).map(|n| start + n * SECOND / 10).collect()
    }

    #[test]
    fn single_wrong_timestamps_do_not_affect_other_packets() {
        let mut times = steady(NOON, 40);
        for (at, stray) in [
            (7, NOON + DAY),
            (9, NOON + 10 * SECOND),
            (13, 0),
            (15, u64::MAX),
            (20, NOON + 400 * DAY),
            (22, NOON - DAY),
            (29, NOON + DAY),
        ] {
            times[at] = stray;
        }
        // Packet 20 would have begun the third window; packet 21 begins it instead.
        let expected: Vec<_> = [10, 11, 9, 10]
            .into_iter()
            .enumerate()
            .map(|(n, count)| (NOON + n as u64 * SECOND, count))
            .collect();
        assert_eq!(shape(&times), expected);
    }

    #[test]
    fn gaps_are_skipped_however_few_packets_there_are() {
        let night = NOON + DAY / 3;
        let times = [steady(NOON, 15), steady(night + SECOND / 2, 10)].concat();
        let expected = [
            (NOON, 10),
            (NOON + SECOND, 5),
            (night, 5),
            (night + SECOND, 5),
        ];
        assert_eq!(shape(&times), expected);
        // One packet an hour, each with a window of its own.
        let sparse: Vec<u64> = (0..5).map(|n| NOON + n * 3600 * SECOND).collect();
        let expected: Vec<_> = sparse.iter().map(|time| (*time, 1)).collect();
        assert_eq!(shape(&sparse), expected);
    }

    #[test]
    fn a_wrong_timestamp_at_the_start_is_corrected() {
        let good = steady(NOON, 30);
        let seconds = [NOON, NOON + SECOND, NOON + 2 * SECOND];
        for late in [NOON + DAY, u64::MAX] {
            let counts = shape(&[&[late], &good[..]].concat());
            let expected: Vec<_> = seconds.into_iter().zip([11, 10, 10]).collect();
            assert_eq!(counts, expected);
        }
        let counts = shape(&[&[0], &good[..]].concat());
        let expected = [0].into_iter().chain(seconds).zip([1, 10, 10, 10]);
        assert_eq!(counts, expected.collect::<Vec<_>>());
        // The second timestamp is wrong.
        let mut times = good.clone();
        times[1] = 0;
        let expected = [(0, 2), (NOON, 8), (NOON + SECOND, 10), (seconds[2], 10)];
        assert_eq!(shape(&times), expected);
    }

    #[test]
    fn after_the_clock_is_set_back_at_most_one_window_of_packets_is_misplaced() {
        for (back, strays) in [(DAY, false), (DAY, true), (5 * SECOND, false)] {
            let (before, mut after) = (steady(NOON, 15), steady(NOON - back, 45));
            if strays {
                // Single packets ahead do not interrupt the detection.
                (after[3], after[12]) = (NOON + DAY, NOON + 2 * DAY);
            }
            let counts = shape(&[before, after].concat());
            let expected: Vec<_> = [
                (NOON, 10),
                (NOON + SECOND, 5 + 10),
                (NOON - back + SECOND, 10),
                (NOON - back + 2 * SECOND, 10),
                (NOON - back + 3 * SECOND, 10),
                (NOON - back + 4 * SECOND, 5),
            ]
            .into();
            assert_eq!(counts, expected, "{back} {strays}");
        }
    }

    #[test]
    fn wrong_timestamps_in_a_row_misplace_at_most_one_window_of_packets() {
        for wrong in [0, NOON - DAY, NOON + DAY, u64::MAX] {
            for run in 2..5 {
                let mut times = steady(NOON, 60);
                times[12..12 + run].fill(wrong);
                let windows = windows(&times);
                let misplaced = windows.iter().flat_map(|(start, times)| {
                    let inside = *start..start.saturating_add(SECOND);
                    times.iter().filter(move |time| !inside.contains(time))
                });
                let misplaced = misplaced.filter(|time| **time != wrong).count();
                assert!(misplaced <= 10, "{wrong} {run}: {windows:?}");
                let last = windows.last().unwrap();
                assert!(last.0 > NOON + 4 * SECOND && last.0 < NOON + 6 * SECOND);
            }
        }
    }

    #[test]
    fn reordered_packets_begin_no_window() {
        let mut times = steady(NOON, 30);
        for pair in times.chunks_exact_mut(2) {
            pair.swap(0, 1);
        }
        assert_eq!(shape(&times).len(), 3);
    }
}
