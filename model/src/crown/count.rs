//! The count of an edge in the crown, and the rank that decides which entry is evicted.

use super::bucket::EARLIER_PARTS;

/// This many bytes rank as high as one packet, so that an edge with few large packets is
/// kept as well as one with many small packets.
pub const BYTES_PER_PACKET: u64 = 512;

/// The count of an edge in the crown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// All packets of the edge: those counted since its admission, which are exact, and
    /// the estimate of those before.
    pub packets: u64,
    /// The part of `packets` that is the estimate of the packets before the admission.
    /// Rounded up.
    pub earlier: u64,
    /// How many more packets the edge may have had before its admission.
    pub slack: u64,
    /// Bytes counted since the admission.
    pub bytes: u64,
    /// A guess of the bytes before the admission. It is used for ranking and is no part
    /// of any answer.
    pub guessed_bytes: u64,
}

impl Count {
    /// A count that is known from the first packet on.
    pub fn exact(packets: u64, bytes: u64) -> Self {
        Self {
            packets,
            bytes,
            ..Self::default()
        }
    }

    /// The rank of the entry. The entry with the lowest rank in a bucket is evicted
    /// first.
    pub fn rank(&self) -> u64 {
        rank(self.packets, self.bytes.saturating_add(self.guessed_bytes))
    }

    /// Packets counted since the admission: a lower bound of the edge's packets.
    pub fn counted(&self) -> u64 {
        self.packets.saturating_sub(self.earlier)
    }

    /// Mean size of the counted packets. Because `earlier` is rounded up, more packets
    /// may have been counted than [`counted`](Self::counted) returns. The mean size of
    /// the first counted packets, from which `guessed_bytes` was computed, selects a
    /// value within that uncertainty.
    pub fn mean_bytes(&self) -> f64 {
        let bytes = self.bytes as f64;
        let (fewest, rounded_by) = (self.counted().max(1), self.earlier / EARLIER_PARTS);
        let most = fewest.saturating_add(rounded_by);
        let first = self.guessed_bytes as f64 / self.earlier.max(1) as f64;
        first.clamp(bytes / most as f64, bytes / fewest as f64)
    }

    /// Upper bound of the edge's packets.
    pub fn bound(&self) -> u64 {
        self.packets.saturating_add(self.slack)
    }
}

/// The rank of an edge with these packets and bytes.
#[inline]
pub(super) fn rank(packets: u64, bytes: u64) -> u64 {
    packets.max(bytes / BYTES_PER_PACKET)
}
