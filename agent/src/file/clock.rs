//! The clock of an interface in a pcapng file.

/// Converts the ticks of an interface to nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    unit: Unit,
    /// Nanoseconds to add.
    offset: i64,
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    /// Nanoseconds per tick.
    Nanoseconds(u64),
    /// Ticks per nanosecond.
    PerNanosecond(u64),
    /// Ticks per second, as a power of two.
    PowerOfTwo(u32),
}

impl Clock {
    /// A clock with ticks of 10^-n seconds for a `resolution` n, or 2^-n seconds if the
    /// highest bit is set. `offset` is in seconds.
    pub fn new(resolution: u8, offset: i64) -> Self {
        let exponent = u32::from(resolution & 0x7f);
        let unit = match exponent {
            _ if resolution & 0x80 != 0 => Unit::PowerOfTwo(exponent),
            0..=9 => Unit::Nanoseconds(10u64.pow(9 - exponent)),
            _ => Unit::PerNanosecond(10u64.saturating_pow(exponent - 9)),
        };
        Self {
            unit,
            offset: offset.saturating_mul(1_000_000_000),
        }
    }

    /// Returns nanoseconds since 1970, or the largest value on overflow.
    #[inline]
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        let time = match self.unit {
            Unit::Nanoseconds(each) => ticks.saturating_mul(each),
            Unit::PerNanosecond(ticks_each) => ticks / ticks_each,
            Unit::PowerOfTwo(exponent) => {
                let time = (u128::from(ticks) * 1_000_000_000) >> exponent;
                u64::try_from(time).unwrap_or(u64::MAX)
            }
        };
        time.saturating_add_signed(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resolution_gives_the_same_time() {
        let (second, half) = (1_700_000_000u64, 500_000_000);
        for (resolution, ticks) in [
            (0, second),
            (1, second * 10 + 5),
            (3, second * 1000 + 500),
            (6, second * 1_000_000 + 500_000),
            (9, second * 1_000_000_000 + half),
            (10, (second * 1_000_000_000 + half) * 10),
            (0x80, second),
            (0x81, second * 2 + 1),
            (0x80 | 20, (second << 20) + (1 << 19)),
            (0x80 | 32, (second << 32) + (1 << 31)),
        ] {
            let whole = [0, 0x80].contains(&resolution);
            let expected = second * 1_000_000_000 + if whole { 0 } else { half };
            let time = Clock::new(resolution, 0).nanoseconds(ticks);
            assert_eq!(time, expected, "resolution {resolution:#x}");
        }
    }

    #[test]
    fn offsets_are_added_and_nothing_overflows() {
        assert_eq!(Clock::new(0, 100).nanoseconds(5), 105_000_000_000);
        assert_eq!(Clock::new(3, -1).nanoseconds(1500), 500_000_000);
        assert_eq!(Clock::new(3, -2).nanoseconds(1500), 0);
        for resolution in 0..=u8::MAX {
            for offset in [i64::MIN, -1, 0, 1, i64::MAX] {
                for ticks in [0, 1, u64::MAX] {
                    Clock::new(resolution, offset).nanoseconds(ticks);
                }
            }
        }
        assert_eq!(Clock::new(0, i64::MAX).nanoseconds(u64::MAX), u64::MAX);
        assert_eq!(Clock::new(0x80, 0).nanoseconds(u64::MAX), u64::MAX);
        assert_eq!(Clock::new(0x7f, 0).nanoseconds(1 << 40), 0);
    }
}
