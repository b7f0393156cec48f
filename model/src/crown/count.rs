//! What is known of an edge in the crown, and what it ranks by.

use super::bucket::EARLIER_PARTS;

/// Bytes that weigh as much as one packet when the lightest entry is sought,
/// so that an edge of few large packets can stay beside one of many small.
pub const BYTES_PER_PACKET: u64 = 512;

/// What is known of an edge in the crown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Its packets: those counted since it was admitted, which are exact, and
    /// those it is believed to have had before.
    pub packets: u64,
    /// How many of them it had before, or fewer.
    pub earlier: u64,
    /// How many more it may have had before.
    pub slack: u64,
    /// Its bytes that were counted: those since it was admitted.
    pub bytes: u64,
    /// A guess at what it had before it was counted. Good enough to rank by,
    /// never told.
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

    /// How much it counts when the lightest entry has to go.
    pub fn rank(&self) -> u64 {
        rank(self.packets, self.bytes.saturating_add(self.guessed_bytes))
    }

    /// What was counted since it was admitted: it has had no fewer packets.
    pub fn counted(&self) -> u64 {
        self.packets.saturating_sub(self.earlier)
    }

    /// Bytes of a packet that was counted, in the mean. `earlier` is rounded up, so
    /// that more may have been counted than [`counted`](Self::counted) says; how many,
    /// the guess at earlier bytes tells, which was made of the first packets counted.
    pub fn mean_bytes(&self) -> f64 {
        let bytes = self.bytes as f64;
        let (fewest, rounded_by) = (self.counted().max(1), self.earlier / EARLIER_PARTS);
        let most = fewest.saturating_add(rounded_by);
        let first = self.guessed_bytes as f64 / self.earlier.max(1) as f64;
        first.clamp(bytes / most as f64, bytes / fewest as f64)
    }

    /// It has had no more packets than this.
    pub fn bound(&self) -> u64 {
        self.packets.saturating_add(self.slack)
    }
}

/// The rank of so many packets and bytes.
#[inline]
pub(super) fn rank(packets: u64, bytes: u64) -> u64 {
    packets.max(bytes / BYTES_PER_PACKET)
}
