//! An answer as text: the estimate, its 90 % interval and the guaranteed bounds.

use crate::text::units::{self, Units};
use crate::window::estimate::{Estimate, PeerEstimate};

/// One line for packets and one for bytes, or a single line if the upper bound is 0. `share` follows
/// the number of packets.
pub fn lines(answer: &Estimate, share: Option<&str>, units: Units) -> Vec<String> {
    if answer.at_most == Some(0) {
        return vec!["no packets (exact)".into()];
    }
    let share = share.map_or_else(String::new, |share| format!(" ({share})"));
    let packets = units.count(answer.packets);
    let of_packets = accuracy(
        [answer.low, answer.high],
        [answer.at_least, answer.at_most],
        |number| units.count(number),
    );
    let of_bytes = accuracy(
        [answer.bytes_low, answer.bytes_high],
        [answer.bytes_at_least, answer.bytes_at_most],
        |number| units.bytes(number),
    );
    let noun = units::noun(answer.packets, "packets");
    vec![
        format!("{packets} {noun}{share}, {of_packets}"),
        format!("{}, {of_bytes}", units.bytes(answer.bytes)),
    ]
}

/// A line for a number of peers, which begins with `direction`. `None` if there are none.
pub fn peers(direction: &str, answer: &PeerEstimate, units: Units) -> Option<String> {
    let noun = match answer.peers {
        0 if answer.high == 0 => return None,
        1 => "address",
        _ => "addresses",
    };
    let count = units.count(answer.peers);
    let likely = match answer.between(units) {
        exact if answer.exact => exact,
        interval => format!("{interval} (90 %)"),
    };
    Some(format!("{direction} {count} {noun}, {likely}"))
}

/// The 90 % interval and the guaranteed bounds of a number.
fn accuracy(
    [low, high]: [u64; 2],
    guaranteed: [Option<u64>; 2],
    show: impl Fn(u64) -> String,
) -> String {
    let range = |low: u64, high: u64| match (show(low), show(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} to {high}"),
    };
    let likely = format!("{} (90 %)", range(low, high));
    match guaranteed {
        [Some(least), Some(most)] if least == most => "exact".into(),
        [None | Some(0), Some(most)] => format!("{likely}, guaranteed at most {}", show(most)),
        [Some(least), Some(most)] => format!("{likely}, guaranteed {}", range(least, most)),
        [Some(least), None] if least > 0 => {
            format!("{likely}, guaranteed at least {}", show(least))
        }
        [_, None] => likely,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(packets: [u64; 3], guaranteed: [Option<u64>; 2]) -> Estimate {
        let [low, packets, high] = packets;
        let [at_least, at_most] = guaranteed;
        Estimate {
            packets,
            low,
            high,
            at_least,
            at_most,
            bytes: 1024 * packets,
            bytes_low: 1024 * low,
            bytes_high: 1024 * high,
            bytes_at_least: at_least.map(|least| 64 * least),
            bytes_at_most: at_most.map(|most| 65536 * most),
        }
    }

    fn words(packets: [u64; 3], guaranteed: [Option<u64>; 2]) -> String {
        let answer = estimate(packets, guaranteed);
        lines(&answer, None, Units::Readable).join("; ")
    }

    #[test]
    fn only_an_upper_bound_of_zero_is_shown_as_no_packets() {
        assert_eq!(words([0; 3], [Some(0); 2]), "no packets (exact)");
        assert_eq!(
            words([0; 3], [Some(0), Some(3)]),
            "0 packets, 0 (90 %), guaranteed at most 3; 0 B, 0 B (90 %), guaranteed at most 192 KiB"
        );
        assert_eq!(
            words([0; 3], [None; 2]),
            "0 packets, 0 (90 %); 0 B, 0 B (90 %)"
        );
    }

    #[test]
    fn interval_and_bounds_are_shown_together() {
        assert_eq!(
            words([1, 1, 2], [Some(1), None]),
            "1 packet, 1 to 2 (90 %), guaranteed at least 1; \
             1.0 KiB, 1.0 KiB to 2.0 KiB (90 %), guaranteed at least 64 B"
        );
        let exact = Estimate {
            bytes_at_least: Some(7),
            bytes_at_most: Some(7),
            ..estimate([7; 3], [Some(7); 2])
        };
        let exact = lines(&exact, Some("1.50%"), Units::Exact);
        assert_eq!(exact, ["7 packets (1.50%), exact", "7168 B, exact"]);
    }

    #[test]
    fn a_line_has_80_columns_at_most() {
        let wide = estimate(
            [98_000_000, 123_456, 98_000_000],
            [Some(98_700), Some(u64::MAX >> 17)],
        );
        for line in lines(&wide, Some("12.34%"), Units::Readable) {
            assert!(line.chars().count() + 4 <= 80, "{line}");
        }
    }
}
