//! Formats numbers with units.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Units {
    /// About three digits: `12.3 k`, `4.5 MiB`, `1.2 Gbit/s`.
    #[default]
    Readable,
    /// All digits.
    Exact,
}

const THOUSANDS: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];
const BYTES: [&str; 7] = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];
const BITS: [&str; 7] = [
    " bit/s", " kbit/s", " Mbit/s", " Gbit/s", " Tbit/s", " Pbit/s", " Ebit/s",
];

/// Smaller counts are shown with all digits.
const WHOLE: u64 = 10_000;

impl Units {
    pub fn of(exact: bool) -> Self {
        match exact {
            true => Self::Exact,
            false => Self::Readable,
        }
    }

    pub fn count(self, count: u64) -> String {
        match self {
            Self::Readable if count >= WHOLE => scaled(count as f64, 1000.0, &THOUSANDS),
            Self::Readable | Self::Exact => count.to_string(),
        }
    }

    pub fn bytes(self, bytes: u64) -> String {
        match self {
            Self::Readable => scaled(bytes as f64, 1024.0, &BYTES),
            Self::Exact => format!("{bytes} B"),
        }
    }

    pub fn bits_per_second(self, bits: f64) -> String {
        match self {
            Self::Readable => scaled(bits, 1000.0, &BITS),
            Self::Exact => format!("{bits:.0} bit/s"),
        }
    }

    pub fn packets_per_second(self, packets: f64) -> String {
        match self {
            Self::Readable if packets >= WHOLE as f64 => {
                scaled(packets, 1000.0, &THOUSANDS) + " packets/s"
            }
            Self::Readable if packets < 10.0 => format!("{packets:.2} packets/s"),
            Self::Readable | Self::Exact => format!("{packets:.0} packets/s"),
        }
    }
}

/// Scales a value to a unit, with a decimal if there are fewer than three digits before it.
fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut at = 0;
    // A value that would be rounded to a full step uses the next unit.
    while value >= step - 0.5 && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let unit = units.get(at).unwrap_or(&"");
    match at > 0 && value < 99.95 {
        true => format!("{value:.1}{unit}"),
        false => format!("{value:.0}{unit}"),
    }
}

/// A plural that ends in `s`, or its singular if the number is 1.
pub fn noun(number: u64, plural: &str) -> &str {
    match number {
        1 => plural.strip_suffix('s').unwrap_or(plural),
        _ => plural,
    }
}

/// Formats all digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a duration.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (minutes, hours) = (whole / 60, whole / 3600);
    match () {
        _ if seconds < 10.0 => format!("{seconds:.3} s"),
        _ if seconds < 99.95 => format!("{seconds:.1} s"),
        _ if whole < 7200 => format!("{minutes} min {} s", whole % 60),
        _ if whole < 172_800 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// Formats a time in seconds since 1970 as in RFC 3339.
pub fn time(seconds: f64) -> String {
    // Times outside this range do not occur in files.
    let milliseconds = (seconds * 1000.0).round().clamp(0.0, 1e15) as u64;
    let of_day = milliseconds / 1000 % 86_400;
    let (year, month, day) = date(milliseconds / 86_400_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        milliseconds % 1000
    )
}

/// Returns year, month and day of a number of days since 1970-01-01 in the Gregorian
/// calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // If years begin in March, the leap day is the last day, and 400 years always have the
    // same length.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months of 153 days: 31, 30, 31, 30, 31.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_use_the_next_unit_from_a_thousand_on() {
        let shown = |count| Units::Readable.count(count);
        let counts = [0, 9999, 10_000, 12_345, 99_949, 99_951, 999_499, 999_501];
        let expected = [
            "0", "9999", "10.0 k", "12.3 k", "99.9 k", "100 k", "999 k", "1.0 M",
        ];
        assert_eq!(counts.map(shown), expected);
        assert_eq!(shown(u64::MAX), "18.4 E");
        let bytes = [1023, 1024, 4_718_592, 1_048_575];
        let expected = ["1023 B", "1.0 KiB", "4.5 MiB", "1.0 MiB"];
        assert_eq!(bytes.map(|bytes| Units::Readable.bytes(bytes)), expected);
        assert_eq!(Units::Readable.bits_per_second(1.23e9), "1.2 Gbit/s");
        assert_eq!(Units::Readable.packets_per_second(0.5), "0.50 packets/s");
        assert_eq!(Units::Exact.bits_per_second(1.23e9), "1230000000 bit/s");
        assert_eq!(Units::Exact.bytes(4_718_592), "4718592 B");
        let groups = [0, 999, 1000, 13_616, 1_234_567].map(grouped);
        assert_eq!(groups, ["0", "999", "1,000", "13,616", "1,234,567"]);
    }

    #[test]
    fn times_and_durations_are_formatted() {
        for (seconds, text) in [
            (0.0, "1970-01-01T00:00:00.000Z"),
            (951_782_400.0, "2000-02-29T00:00:00.000Z"),
            (951_868_800.0, "2000-03-01T00:00:00.000Z"),
            (1_700_000_000.063, "2023-11-14T22:13:20.063Z"),
            (1_735_689_599.0, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400.0, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(time(seconds), text);
        }
        let lengths = [0.0, 0.2494, 59.96, 125.0, 7300.0, 200_000.0].map(duration);
        let expected = [
            "0.000 s",
            "0.249 s",
            "60.0 s",
            "2 min 5 s",
            "2 h 1 min",
            "2 d 7 h",
        ];
        assert_eq!(lengths, expected);
    }
}
