//! The books of one interface: every packet ends in exactly one counter.
//!
//! `received = edges + ignored + dropped`, plus what is in the ring just now.
//! Written by the capture and the worker, read by anyone at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::batches::Batches;
use crate::protocol::Protocol;

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
    /// Left out because only one packet in N is looked at.
    Sampled,
    /// IPv6, which was switched off.
    Ipv6Off,
    /// Went the way that was not asked for.
    Direction,
    /// Decoded, but not stored: a replay that measures decoding alone.
    NotStored,
}

impl Ignored {
    /// All reasons.
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

    /// The reason as a label.
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

/// Counters of one interface or capture file.
#[derive(Debug, Default)]
pub struct Tally {
    /// Packets the source handed over.
    pub packets: AtomicU64,
    /// Their bytes on the wire.
    pub bytes: AtomicU64,
    /// Packets stored in the sketch.
    pub edges: AtomicU64,
    /// Packets that met a full ring.
    pub ring_full: AtomicU64,
    /// Packets the kernel dropped before they were handed over.
    pub kernel_drops: AtomicU64,
    /// Packets the interface or its driver dropped.
    pub interface_drops: AtomicU64,
    /// Whether the interface is up and its capture open.
    pub up: AtomicBool,
    /// Whether there is no such interface just now.
    pub gone: AtomicBool,
    /// Kernel buffer of its capture; 0 before it is first open.
    pub buffer_bytes: AtomicU64,
    /// Slots of its ring.
    pub ring_slots: AtomicU64,
    /// How many of them were taken when the worker last looked.
    pub ring_used: AtomicU64,
    /// Times its window could not be saved.
    pub save_failures: AtomicU64,
    /// How large its batches are and how long they take.
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
    /// Counts packets that were handed over.
    pub fn receive(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts packets that became no edge.
    pub fn ignore(&self, reason: Ignored, packets: u64) {
        self.ignored[reason as usize].fetch_add(packets, Relaxed);
    }

    /// How many were ignored for this reason.
    pub fn ignored(&self, reason: Ignored) -> u64 {
        self.ignored[reason as usize].load(Relaxed)
    }

    /// How many were ignored for whatever reason.
    pub fn ignored_total(&self) -> u64 {
        Ignored::ALL
            .iter()
            .map(|reason| self.ignored(*reason))
            .sum()
    }

    /// Every reason a packet was ignored for, with how many. Whoever stores
    /// packets need not read that some were not.
    pub fn ignored_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = Ignored::ALL.map(|reason| (reason, self.ignored(reason)));
        let shown = counted
            .into_iter()
            .filter(|(reason, count)| *reason != Ignored::NotStored || *count > 0);
        shown.map(|(reason, count)| (reason.name(), count))
    }

    /// Counts packets that have addresses, by what they carry.
    pub fn carry(&self, protocol: Protocol, packets: u64, bytes: u64) {
        let traffic = &self.protocols[protocol as usize];
        traffic.packets.fetch_add(packets, Relaxed);
        traffic.bytes.fetch_add(bytes, Relaxed);
    }

    /// Every protocol with its packets and bytes. Together they are all packets
    /// that were decoded to a pair, whether there was room for them or not.
    pub fn protocols(&self) -> [(&'static str, u64, u64); Protocol::ALL.len()] {
        Protocol::ALL.map(|protocol| {
            let Traffic { packets, bytes } = &self.protocols[protocol as usize];
            (protocol.name(), packets.load(Relaxed), bytes.load(Relaxed))
        })
    }

    /// Every reason a packet was lost for, with how many.
    pub fn dropped(&self) -> [(&'static str, u64); 3] {
        [
            ("ring_full", self.ring_full.load(Relaxed)),
            ("kernel", self.kernel_drops.load(Relaxed)),
            ("interface", self.interface_drops.load(Relaxed)),
        ]
    }

    /// Packets not yet accounted for: those in the ring. 0 once all is drained.
    pub fn outstanding(&self) -> i128 {
        let done = [
            self.ignored_total(),
            self.edges.load(Relaxed),
            self.ring_full.load(Relaxed),
        ];
        i128::from(self.packets.load(Relaxed)) - done.map(i128::from).iter().sum::<i128>()
    }
}
