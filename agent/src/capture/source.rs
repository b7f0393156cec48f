//! The interface of an open capture. It is called once for many packets, not once per packet.

use std::os::fd::BorrowedFd;

use super::sink::PacketSink;

/// The packets of one open capture. Dropping it closes the capture.
pub trait PacketSource: Send {
    /// Passes packets that are ready to `sink`, oldest first, without waiting; their number
    /// is limited. Packets with timestamps outside `stamps` are skipped. After an error the
    /// capture cannot be used any more.
    fn take(&mut self, sink: &mut PacketSink, stamps: Stamps) -> anyhow::Result<Taken>;

    /// A descriptor that is readable while packets are ready.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Losses since the last call, or since the capture was opened.
    fn losses(&mut self) -> Losses;
}

/// A closed interval of packet timestamps, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    first: i64,
    last: i64,
}

impl Stamps {
    pub const ALL: Self = Self {
        first: i64::MIN,
        last: i64::MAX,
    };

    pub fn until(last: i64) -> Self {
        Self { last, ..Self::ALL }
    }

    pub fn after(last: i64) -> Self {
        let first = last.saturating_add(1);
        Self { first, ..Self::ALL }
    }

    #[inline]
    pub fn contains(self, stamp: i64) -> bool {
        self.first <= stamp && stamp <= self.last
    }
}

/// Result of one read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Including those that were skipped.
    pub packets: usize,
    /// Packets whose timestamps were outside the interval.
    pub skipped: usize,
}

/// Packets that were lost before they could be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Packets that did not fit the kernel buffer.
    pub kernel: u64,
    /// Packets dropped by the interface or its driver.
    pub interface: u64,
}
