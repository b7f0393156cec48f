//! How fast a file is replayed, and how long it is.
//!
//! Stamps may be wrong, and one wrong stamp must not make a replay wait for
//! years. So packets that are further apart than [`LONGEST_PAUSE`], to either
//! side, say nothing of each other.

use std::time::{Duration, Instant};

/// The longest pause between packets that is kept: an hour.
const LONGEST_PAUSE: u64 = 3_600_000_000_000;

/// How fast a file is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// As fast as it goes.
    Max,
    /// This many times as fast as it was captured.
    Times(f64),
}

fn is_leap(before: u64, time: u64) -> bool {
    time.abs_diff(before) > LONGEST_PAUSE
}

/// Keeps the distances between packets, divided by the speed.
pub struct Pace {
    speed: Speed,
    /// When a packet was due, and its time: others are due after it.
    from: Option<(Instant, u64)>,
    before: u64,
}

impl Pace {
    /// The pace of a file that begins now.
    pub fn new(speed: Speed) -> Self {
        Self {
            speed,
            from: None,
            before: 0,
        }
    }

    /// How long it is until the packet of `time` is due, if that is worth
    /// waiting for.
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

/// From when to when the packets of a file are, as far as neighbours confirm
/// each other.
#[derive(Default)]
pub struct Extent {
    before: Option<u64>,
    ends: Option<(u64, u64)>,
}

impl Extent {
    /// Takes the next packet into account.
    #[inline]
    pub fn add(&mut self, time: u64) {
        if let Some(before) = self.before.replace(time)
            && !is_leap(before, time)
        {
            self.ends.get_or_insert((before, time)).1 = time;
        }
    }

    /// How long the file is, in nanoseconds.
    pub fn length(&self) -> u64 {
        self.ends
            .map_or(0, |(first, last)| last.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = LONGEST_PAUSE;

    #[test]
    fn a_stray_does_not_make_a_file_longer() {
        let length = |times: &[u64]| {
            let mut extent = Extent::default();
            times.iter().for_each(|time| extent.add(*time));
            extent.length()
        };
        let good = [HOUR, HOUR + 1, HOUR + 2, 10 * HOUR, 10 * HOUR + 5];
        assert_eq!(length(&good), 9 * HOUR + 5, "a gap counts");
        for at in [0, 3, 5] {
            let mut times = good.to_vec();
            times.insert(at, 10_000 * HOUR);
            assert_eq!(length(&times), 9 * HOUR + 5, "{at}");
        }
        assert_eq!((length(&[]), length(&[7])), (0, 0));
    }

    #[test]
    fn a_pace_keeps_pauses_but_not_leaps() {
        let mut pace = Pace::new(Speed::Times(2.0));
        assert_eq!(pace.early(50 * HOUR), None);
        let early = pace.early(51 * HOUR).unwrap().as_secs_f64();
        assert!((1790.0..=1800.0).contains(&early), "{early}");
        assert_eq!(pace.early(u64::MAX), None, "a stray");
        assert_eq!(pace.early(51 * HOUR), None);
        assert!(pace.early(51 * HOUR + HOUR / 2).is_some());
        assert_eq!(Pace::new(Speed::Max).early(7), None);
    }
}
