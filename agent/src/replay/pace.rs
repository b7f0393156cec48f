//! The speed of a replay, and the time span of a file.
//!
//! Timestamps may be wrong, and a wrong one must not delay a replay for years. So the
//! interval between two packets is ignored if it is longer than [`LONGEST_PAUSE`] in either
//! direction.

use std::time::{Duration, Instant};

use crate::traffic::packet::NO_TIME;
use crate::window::Bounds;

/// Longest pause between packets that is kept: one hour, in nanoseconds.
const LONGEST_PAUSE: u64 = 3_600_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    Max,
    /// Factor of the speed at which it was captured.
    Times(f64),
}

/// Whether the interval between two packets is too long to be kept.
pub fn is_leap(before: u64, time: u64) -> bool {
    time.abs_diff(before) > LONGEST_PAUSE
}

/// Keeps the intervals between packets, divided by the speed.
pub struct Pace {
    speed: Speed,
    /// When a packet was due, and its time. Later packets are due relative to it.
    from: Option<(Instant, u64)>,
    before: u64,
}

impl Pace {
    pub fn new(speed: Speed) -> Self {
        Self {
            speed,
            from: None,
            before: 0,
        }
    }

    /// Returns the time until the packet of `time` is due, if it is long enough to wait
    /// for.
    #[inline]
    pub fn early(&mut self, time: u64) -> Option<Duration> {
        let Speed::Times(times) = self.speed else {
            return None;
        };
        if is_leap(self.before, time) {
            self.from = None;
        }
        self.before = time;
        let (start, first) = *self.from.get_or_insert((Instant::now(), time));
        let due = Duration::from_nanos((time.saturating_sub(first) as f64 / times) as u64);
        let early = due.saturating_sub(start.elapsed());
        (early > Duration::from_millis(1)).then_some(early)
    }
}

/// The time span of packets, without wrong timestamps. A packet that is far from both
/// neighbours counts only if its time is between theirs, as in a capture of rare packets.
#[derive(Default)]
pub struct TimeSpan {
    before: Option<Stamped>,
    ends: Option<Bounds>,
}

/// A packet whose timestamp is confirmed or rejected by the next one.
#[derive(Clone, Copy)]
struct Stamped {
    time: u64,
    /// Time of the packet before it, if that is far away.
    apart: Option<u64>,
    /// Whether the packet before it is near.
    confirmed: bool,
}

impl TimeSpan {
    /// Adds the next packet.
    #[inline]
    pub fn add(&mut self, time: u64) {
        // Nearly all packets are close to a packet that is itself confirmed.
        if let (Some(before), Some(ends)) = (&mut self.before, &mut self.ends)
            && before.confirmed
            && !is_leap(before.time, time)
        {
            (before.time, before.apart) = (time, None);
            ends.start = ends.start.min(time);
            ends.end = ends.end.max(time);
            return;
        }
        self.add_distant(time);
    }

    /// Adds a packet that is the first one, far from the packet before, or after a packet that is
    /// not confirmed.
    #[cold]
    fn add_distant(&mut self, time: u64) {
        let mut next = Stamped {
            time,
            apart: None,
            confirmed: false,
        };
        let dated = self.ends.is_some_and(|ends| is_leap(NO_TIME, ends.end));
        match self.before {
            None => {}
            // This is the first packet with a time; those before do not define the start.
            Some(_) if self.is_without_times() && is_leap(NO_TIME, time) => self.ends = None,
            Some(before) if dated && before.time == NO_TIME && time == NO_TIME => {
                next.apart = before.apart;
            }
            Some(before) if is_leap(before.time, time) => {
                next.apart = Some(before.time);
                // The first packet has no packet before it.
                let start = before.apart.unwrap_or(0);
                let between = (start.min(time)..=start.max(time)).contains(&before.time);
                if !before.confirmed && between {
                    self.include(before.time);
                }
            }
            Some(before) => {
                next.confirmed = true;
                self.include(before.time);
                self.include(time);
            }
        }
        self.before = Some(next);
    }

    #[inline]
    fn include(&mut self, time: u64) {
        let start_here = Bounds {
            start: time,
            end: time,
        };
        let ends = self.ends.get_or_insert(start_here);
        ends.start = ends.start.min(time);
        ends.end = ends.end.max(time);
    }

    /// Whether all packets so far had no time.
    fn is_without_times(&self) -> bool {
        let last = self.before.map(|before| before.time);
        last == Some(NO_TIME) && self.ends.is_none_or(|ends| ends.end == NO_TIME)
    }

    /// Separates the next packet from those before it.
    pub fn separate(&mut self) {
        self.before = None;
    }

    /// Returns the time span of confirmed packets.
    pub fn confirmed(&self) -> Option<Bounds> {
        self.ends
    }

    /// Returns the times of the first and the last packet. `None` if no packet has a time.
    /// The last packet is accepted without confirmation if its time is not before the
    /// others, because no packet follows it.
    pub fn ends(&self) -> Option<Bounds> {
        let last = self.before?.time;
        match self.ends {
            _ if self.is_without_times() => None,
            None => Some(Bounds {
                start: last,
                end: last,
            }),
            Some(ends) => Some(Bounds {
                end: ends.end.max(last),
                ..ends
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = LONGEST_PAUSE;

    #[test]
    fn a_wrong_timestamp_does_not_extend_the_time_span() {
        let length = |times: &[u64]| {
            let mut span = TimeSpan::default();
            times.iter().for_each(|time| span.add(*time));
            span.confirmed().map_or(0, |ends| ends.end - ends.start)
        };
        let good = [HOUR, HOUR + 1, HOUR + 2, 10 * HOUR, 10 * HOUR + 5];
        assert_eq!(
            length(&good),
            9 * HOUR + 5,
            "a gap is part of the time span"
        );
        for at in [0, 3, 5] {
            let mut times = good.to_vec();
            times.insert(at, 10_000 * HOUR);
            assert_eq!(length(&times), 9 * HOUR + 5, "{at}");
        }
        assert_eq!((length(&[]), length(&[7])), (0, 0));
    }

    #[test]
    fn the_time_span_is_that_of_correct_timestamps() {
        let ends = |times: &[u64]| {
            let mut span = TimeSpan::default();
            times.iter().for_each(|time| span.add(*time));
            span.ends().map(|ends| (ends.start, ends.end))
        };
        assert_eq!(ends(&[]), None);
        assert_eq!(ends(&[7]), Some((7, 7)));
        // Packets with time 0 have no time, unless the clock of the capture started at 0.
        assert_eq!(ends(&[NO_TIME, NO_TIME]), None);
        assert_eq!(ends(&[NO_TIME, 9 * HOUR]), Some((9 * HOUR, 9 * HOUR)));
        let late = [NO_TIME, NO_TIME, 9 * HOUR, 9 * HOUR + 5];
        assert_eq!(ends(&late), Some((9 * HOUR, 9 * HOUR + 5)));
        let between = [
            9 * HOUR,
            9 * HOUR + 5,
            NO_TIME,
            NO_TIME,
            NO_TIME,
            9 * HOUR + 7,
        ];
        assert_eq!(ends(&between), Some((9 * HOUR, 9 * HOUR + 7)));
        assert_eq!(ends(&[0, 5, HOUR]), Some((0, HOUR)));
        let rare = [3 * HOUR, 6 * HOUR, 9 * HOUR];
        assert_eq!(ends(&rare), Some((3 * HOUR, 9 * HOUR)));
        let swapped = [HOUR + 2, HOUR, HOUR + 5, HOUR + 3];
        assert_eq!(ends(&swapped), Some((HOUR, HOUR + 5)));
        let strays = [9 * HOUR, 3 * HOUR, 3 * HOUR + 1, 90 * HOUR, 3 * HOUR + 2, 5];
        assert_eq!(ends(&strays), Some((3 * HOUR, 3 * HOUR + 2)));
    }

    #[test]
    fn pauses_are_kept_unless_they_are_too_long() {
        let mut pace = Pace::new(Speed::Times(2.0));
        assert_eq!(pace.early(50 * HOUR), None);
        let early = pace.early(51 * HOUR).unwrap().as_secs_f64();
        assert!((1790.0..=1800.0).contains(&early), "{early}");
        assert_eq!(pace.early(u64::MAX), None, "a wrong timestamp");
        assert_eq!(pace.early(51 * HOUR), None);
        assert!(pace.early(51 * HOUR + HOUR / 2).is_some());
        assert_eq!(Pace::new(Speed::Max).early(7), None);
    }
}
