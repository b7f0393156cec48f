//! Counters of one interface. Every received packet is in exactly one of these:
//!
//! `packets = edges + ignored + ring_full`, plus packets that are in the ring at the moment.
//!
//! Packets dropped by the kernel or the interface were not received.
//!
//! The capture and the worker write them; any thread may read them at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::traffic::batches::Batches;
use crate::traffic::protocol::Protocol;

/// Why a packet did not become an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignored {
    /// Neither IPv4 nor IPv6: ARP, LLDP, spanning tree and the like.
    NotIp,
    /// Captured too short to hold its addresses.
    Truncated,
    /// Headers that contradict themselves.
    Malformed,
    /// A link type this agent cannot decode.
    UnsupportedLink,
    /// Not decoded because of sampling.
    Sampled,
    /// IPv6, if that is turned off.
    Ipv6Off,
    /// In the direction that is not captured.
    Direction,
    /// Decoded but not stored, in a replay that measures decoding alone.
    NotStored,
}

impl Ignored {
    pub const ALL: [Self; 8] = [
        Self::NotIp,
        Self::Truncated,
        Self::Malformed,
        Self::UnsupportedLink,
        Self::Sampled,
        Self::Ipv6Off,
        Self::Direction,
        Self::NotStored,
    ];

    /// Value of the metrics label.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotIp => "not_ip",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::UnsupportedLink => "unsupported_link",
            Self::Sampled => "sampled",
            Self::Ipv6Off => "ipv6_off",
            Self::Direction => "direction",
            Self::NotStored => "not_stored",
        }
    }
}

#[derive(Debug, Default)]
pub struct Tally {
    /// Packets received from the capture.
    pub packets: AtomicU64,
    /// Bytes of these packets on the wire.
    pub bytes: AtomicU64,
    /// Packets stored in the sketches.
    pub edges: AtomicU64,
    /// Packets dropped because the ring was full.
    pub ring_full: AtomicU64,
    /// Packets dropped by the kernel before the capture received them.
    pub kernel_drops: AtomicU64,
    /// Packets dropped by the interface or its driver.
    pub interface_drops: AtomicU64,
    /// Whether the interface is up and its capture is open.
    pub up: AtomicBool,
    /// Whether the interface does not exist at the moment.
    pub gone: AtomicBool,
    /// Size of the kernel buffer; 0 before the first capture is open.
    pub buffer_bytes: AtomicU64,
    pub ring_slots: AtomicU64,
    /// Used slots of the ring when the worker last read it.
    pub ring_used: AtomicU64,
    pub save_failures: AtomicU64,
    /// Lines of its windows that were not written to `export.jsonl`.
    pub lines_lost: AtomicU64,
    pub batches: Batches,
    ignored: [AtomicU64; Ignored::ALL.len()],
    protocols: [Traffic; Protocol::ALL.len()],
}

#[derive(Debug, Default)]
struct Traffic {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    /// Counts received packets.
    pub fn receive(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts packets that were ignored.
    pub fn ignore(&self, reason: Ignored, packets: u64) {
        self.ignored[reason as usize].fetch_add(packets, Relaxed);
    }

    pub fn ignored(&self, reason: Ignored) -> u64 {
        self.ignored[reason as usize].load(Relaxed)
    }

    pub fn ignored_total(&self) -> u64 {
        Ignored::ALL
            .iter()
            .map(|reason| self.ignored(*reason))
            .sum()
    }

    /// Returns every reason with its number of ignored packets. The reason for packets that
    /// were not stored is omitted unless it occurs.
    pub fn ignored_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = Ignored::ALL.map(|reason| (reason, self.ignored(reason)));
        let shown = counted
            .into_iter()
            .filter(|(reason, count)| *reason != Ignored::NotStored || *count > 0);
        shown.map(|(reason, count)| (reason.name(), count))
    }

    /// Counts decoded packets by protocol.
    pub fn count_protocol(&self, protocol: Protocol, packets: u64, bytes: u64) {
        let traffic = &self.protocols[protocol as usize];
        traffic.packets.fetch_add(packets, Relaxed);
        traffic.bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns every protocol with its packets and bytes. The sum is the number of decoded
    /// packets, stored or dropped.
    pub fn protocols(&self) -> [(&'static str, u64, u64); Protocol::ALL.len()] {
        Protocol::ALL.map(|protocol| {
            let Traffic { packets, bytes } = &self.protocols[protocol as usize];
            (protocol.name(), packets.load(Relaxed), bytes.load(Relaxed))
        })
    }

    /// Returns every reason with its number of dropped packets.
    pub fn dropped(&self) -> [(&'static str, u64); 3] {
        [
            ("ring_full", self.ring_full.load(Relaxed)),
            ("kernel", self.kernel_drops.load(Relaxed)),
            ("interface", self.interface_drops.load(Relaxed)),
        ]
    }

    /// Packets that are in no other counter yet: those in the ring. 0 when the ring is
    /// empty.
    pub fn outstanding(&self) -> i128 {
        let done = [
            self.ignored_total(),
            self.edges.load(Relaxed),
            self.ring_full.load(Relaxed),
        ];
        i128::from(self.packets.load(Relaxed)) - done.map(i128::from).iter().sum::<i128>()
    }
}
