//! Answers: what a sketch says of an edge.

use crate::table::Total;

/// A number that a sketch tells, and how far it can be trusted.
///
/// `at_least ≤ low ≤ estimate ≤ high ≤ at_most`, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// The best guess.
    pub estimate: u64,
    /// In nine of ten cases it is no less than this …
    pub low: u64,
    /// … and no more than this.
    pub high: u64,
    /// It is never less than this, whatever was stored; none where nothing is
    /// guaranteed.
    pub at_least: Option<u64>,
    /// It is never more than this; 0 is a certain no.
    pub at_most: Option<u64>,
}

impl Amount {
    /// A number that is known.
    pub fn exact(number: u64) -> Self {
        Self {
            estimate: number,
            low: number,
            high: number,
            at_least: Some(number),
            at_most: Some(number),
        }
    }

    /// A guess within what is likely within what is certain: who is outside is
    /// moved to the nearest end.
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

    /// Whether there is no doubt about it.
    pub fn is_exact(&self) -> bool {
        self.at_least.is_some() && self.at_least == self.at_most
    }
}

/// What is known of one edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow<K> {
    /// The edge.
    pub key: K,
    /// Its packets.
    pub packets: Amount,
    /// Their bytes.
    pub bytes: Amount,
}

impl<K> Flow<K> {
    /// All that an edge has had.
    pub(crate) fn exact(key: K, total: Total) -> Self {
        Self {
            key,
            packets: Amount::exact(total.packets),
            bytes: Amount::exact(total.bytes),
        }
    }

    /// The same of an edge called otherwise.
    pub fn rename<L>(self, name: impl FnOnce(K) -> L) -> Flow<L> {
        Flow {
            key: name(self.key),
            packets: self.packets,
            bytes: self.bytes,
        }
    }
}
