//! Answers: the packets and bytes of an edge, with intervals and guaranteed bounds.

use crate::table::Total;

/// An estimated number with a 90 % interval and guaranteed bounds.
///
/// `at_least ≤ low ≤ estimate ≤ high ≤ at_most` always holds.
///
/// ```
/// use crane_model::Amount;
///
/// let exact = Amount::exact(7);
/// assert!(exact.is_exact());
///
/// // Guaranteed to be 10 to 50; the estimate 60 is moved to the nearest bound.
/// let estimate = Amount::within((Some(10), Some(50)), [5, 60, 70]);
/// assert_eq!((estimate.low, estimate.estimate, estimate.high), (10, 50, 50));
/// assert_eq!(exact.plus(estimate).at_most, Some(57));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// The best estimate.
    pub estimate: u64,
    /// Lower end of the 90 % interval.
    pub low: u64,
    /// Upper end of the 90 % interval.
    pub high: u64,
    /// Guaranteed lower bound: the number is never less. `None` if the layers guarantee
    /// nothing.
    pub at_least: Option<u64>,
    /// Guaranteed upper bound: the number is never more. `Some(0)` means that the edge
    /// did not occur.
    pub at_most: Option<u64>,
}

impl Amount {
    /// A number that is known exactly.
    pub fn exact(number: u64) -> Self {
        Self {
            estimate: number,
            low: number,
            high: number,
            at_least: Some(number),
            at_most: Some(number),
        }
    }

    /// An estimate with its interval inside guaranteed bounds. Values outside of these
    /// bounds are moved to the nearest bound.
    pub fn within(
        (at_least, at_most): (Option<u64>, Option<u64>),
        [low, estimate, high]: [u64; 3],
    ) -> Self {
        let most = at_most.unwrap_or(u64::MAX);
        let least = at_least.unwrap_or(0).min(most);
        let estimate = estimate.clamp(least, most);
        Self {
            estimate,
            low: low.clamp(least, estimate),
            high: high.clamp(estimate, most),
            at_least,
            at_most,
        }
    }

    /// The sum of two numbers. The ends of the interval and the guaranteed bounds are
    /// added; the sum has a guaranteed bound only if both numbers have one.
    pub fn plus(self, other: Self) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self {
            estimate: self.estimate.saturating_add(other.estimate),
            low: self.low.saturating_add(other.low),
            high: self.high.saturating_add(other.high),
            at_least: both(self.at_least, other.at_least),
            at_most: both(self.at_most, other.at_most),
        }
    }

    /// Whether the guaranteed bounds are equal, so that the number is known exactly.
    pub fn is_exact(&self) -> bool {
        self.at_least.is_some() && self.at_least == self.at_most
    }
}

/// Packets and bytes of one edge, or of a group of edges.
///
/// ```
/// use crane_model::{Amount, Flow};
///
/// let there = Flow { key: "a → b", packets: Amount::exact(3), bytes: Amount::exact(180) };
/// let back = Flow { key: "b → a", packets: Amount::exact(2), bytes: Amount::exact(90) };
/// let both = there.plus(back).rename(|_| "a ↔ b");
/// assert_eq!((both.key, both.packets, both.bytes.estimate), ("a ↔ b", Amount::exact(5), 270));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow<K> {
    /// The name of the edge, or what else the numbers belong to.
    pub key: K,
    /// Number of packets.
    pub packets: Amount,
    /// Number of bytes of these packets.
    pub bytes: Amount,
}

impl<K> Flow<K> {
    /// A flow whose packets and bytes are known exactly.
    pub(crate) fn exact(key: K, total: Total) -> Self {
        Self {
            key,
            packets: Amount::exact(total.packets),
            bytes: Amount::exact(total.bytes),
        }
    }

    /// The sum of two flows, with the key of the first.
    pub fn plus<L>(self, other: Flow<L>) -> Self {
        Self {
            key: self.key,
            packets: self.packets.plus(other.packets),
            bytes: self.bytes.plus(other.bytes),
        }
    }

    /// The same numbers under another key.
    pub fn rename<L>(self, name: impl FnOnce(K) -> L) -> Flow<L> {
        Flow {
            key: name(self.key),
            packets: self.packets,
            bytes: self.bytes,
        }
    }
}
