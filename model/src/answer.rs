//! Answers: what a sketch says of an edge.

use crate::crown::Count;
use crate::table::Total;

/// What is known of one edge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow<K> {
    /// The edge.
    pub key: K,
    /// Best estimate of its packets.
    pub packets: u64,
    /// It has had no fewer packets than this, most likely.
    pub low: u64,
    /// It has had no more packets than this, most likely.
    pub high: u64,
    /// Its bytes, where all of them were counted.
    pub bytes: Option<u64>,
    /// Its bytes that were counted: it has had no fewer.
    pub bytes_at_least: u64,
}

impl<K> Flow<K> {
    /// All that an edge has had.
    pub(crate) fn of_table(key: K, total: Total) -> Self {
        Self {
            key,
            packets: total.packets,
            low: total.packets,
            high: total.packets,
            bytes: Some(total.bytes),
            bytes_at_least: total.bytes,
        }
    }

    /// What the crown says.
    pub(crate) fn of_crown(key: K, count: &Count) -> Self {
        Self {
            key,
            packets: count.packets,
            low: count.packets.saturating_sub(count.slack),
            high: count.bound(),
            bytes: count.all_bytes.then_some(count.bytes),
            bytes_at_least: count.bytes,
        }
    }

    /// What layers say: nothing of bytes, unless there are none.
    pub(crate) fn of_layers(key: K, [low, packets, high]: [u64; 3]) -> Self {
        Self {
            key,
            packets,
            low,
            high,
            bytes: (high == 0).then_some(0),
            bytes_at_least: 0,
        }
    }

    /// The same of an edge called otherwise.
    pub fn rename<L>(self, name: impl FnOnce(K) -> L) -> Flow<L> {
        Flow {
            key: name(self.key),
            packets: self.packets,
            low: self.low,
            high: self.high,
            bytes: self.bytes,
            bytes_at_least: self.bytes_at_least,
        }
    }
}
