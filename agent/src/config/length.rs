//! Lengths of windows with units: `60s`, `500ms`, `5m`, `2h`, `1d`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowLength(pub Duration);

/// Units in milliseconds. `ms` comes before `s`, which is its suffix.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

const LIMITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(366 * 86400));

impl WindowLength {
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for WindowLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS.iter().find(|(name, _)| text.ends_with(name));
        let parse = |(name, factor): &(&str, u64)| {
            let number: u64 = text.strip_suffix(name)?.trim().parse().ok()?;
            number.checked_mul(*factor).map(Duration::from_millis)
        };
        let length = unit.and_then(parse).ok_or_else(|| {
            format!("{text:?} is not a length of time: write it like 60s, 500ms or 5m")
        })?;
        if length < LIMITS.0 || length > LIMITS.1 {
            return Err("must be 100ms to 366d".into());
        }
        Ok(Self(length))
    }
}

impl fmt::Display for WindowLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis() as u64;
        let fits = |(_, factor): &&(&str, u64)| millis > 0 && millis.is_multiple_of(*factor);
        let (name, factor) = UNITS.iter().rev().find(fits).copied().unwrap_or(UNITS[0]);
        write!(f, "{}{name}", millis / factor)
    }
}

impl Serialize for WindowLength {
    /// In seconds, as in the commented file.
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(&format_args!("{}s", self.0.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_written() {
        for (text, millis) in [
            ("60s", 60_000),
            ("500ms", 500),
            ("5m", 300_000),
            ("1 h", 3_600_000),
        ] {
            let length: WindowLength = text.parse().unwrap();
            assert_eq!(length.0.as_millis(), millis);
            assert_eq!(length.to_string().parse(), Ok(length));
        }
        assert_eq!(WindowLength::seconds(90).to_string(), "90s");
        for bad in ["", "s", "-1s", "60", "1.5s", "99999999999999999999d"] {
            assert!(bad.parse::<WindowLength>().is_err(), "{bad}");
        }
        for bad in ["0s", "99ms", "367d"] {
            let error = bad.parse::<WindowLength>().unwrap_err();
            assert!(error.contains("100ms to 366d"));
        }
    }
}
