//! Sizes with units: `64KiB`, `1 MiB`, `4096`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS.iter().find(|(name, _)| text.ends_with(name));
        let (name, factor) = unit.copied().unwrap_or(("", 1));
        let number: Option<u64> = text.trim_end_matches(name).trim().parse().ok();
        number
            .and_then(|number| number.checked_mul(factor))
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a size: write it like 64KiB, 1MiB or 4096"))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, factor): &&(&str, u64)| self.0 >= *factor && self.0.is_multiple_of(*factor);
        let (name, factor) = UNITS.iter().find(fits).copied().unwrap_or(("B", 1));
        write!(f, "{}{name}", self.0 / factor)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        output.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("64KiB", 65536),
            ("1 MiB", 1 << 20),
            ("4096", 4096),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        }
        for bad in ["", "KiB", "-1", "64kb", "99999999999GiB"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
