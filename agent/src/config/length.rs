//! Lengths of time as people write them: `60s`, `500ms`, `5m`, `2h`, `1d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// Units in milliseconds; `ms` before `s`, which it ends with.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// The shortest and the longest window.
const WINDOW: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(366 * 86400));

impl Span {
    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// In nanoseconds, the unit of packet times.
    pub fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Reads the length of a window.
    pub fn window(text: &str) -> Result<Self, String> {
        let span: Self = text.parse()?;
        if span.0 < WINDOW.0 || span.0 > WINDOW.1 {
            return Err(format!(
                "a window of {text} is not possible, allowed is 100ms to 366d"
            ));
        }
        Ok(span)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS.iter().find(|(name, _)| text.ends_with(name));
        let parse = |(name, factor): &(&str, u64)| {
            let number: u64 = text.strip_suffix(name)?.trim().parse().ok()?;
            number.checked_mul(*factor)
        };
        unit.and_then(parse)
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| {
                format!("{text:?} is not a length of time: write it like 60s, 500ms or 5m")
            })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis() as u64;
        let fits = |(_, factor): &&(&str, u64)| millis > 0 && millis.is_multiple_of(*factor);
        let (name, factor) = UNITS.iter().rev().find(fits).copied().unwrap_or(UNITS[0]);
        write!(f, "{}{name}", millis / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (text, millis) in [
            ("60s", 60_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1 h", 3_600_000),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0.as_millis(), millis);
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        assert_eq!(Span::seconds(90).to_string(), "90s");
        for bad in ["", "s", "-1s", "60", "1.5s", "99999999999999999999d"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        for bad in ["0s", "99ms", "367d"] {
            assert!(Span::window(bad).unwrap_err().contains("100ms to 366d"));
        }
    }
}
