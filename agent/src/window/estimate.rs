//! The numbers of an answer, in the form that all JSON has.

use crane_model::Flow;
use crane_model::fan::Peers;
use serde::{Deserialize, Serialize};

use crate::text::units::Units;

/// An estimate, its 90 % interval and its guaranteed bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    pub packets: u64,
    /// Lower end of the 90 % interval.
    pub low: u64,
    /// Upper end of the 90 % interval.
    pub high: u64,
    /// Guaranteed lower bound.
    pub at_least: Option<u64>,
    /// Guaranteed upper bound; 0 means no packets.
    pub at_most: Option<u64>,
    pub bytes: u64,
    pub bytes_low: u64,
    pub bytes_high: u64,
    pub bytes_at_least: Option<u64>,
    pub bytes_at_most: Option<u64>,
}

impl Estimate {
    /// Whether the number of packets is exact.
    pub fn is_exact(&self) -> bool {
        self.at_least.is_some() && self.at_least == self.at_most
    }
}

impl<K> From<&Flow<K>> for Estimate {
    fn from(flow: &Flow<K>) -> Self {
        let Flow { packets, bytes, .. } = flow;
        Self {
            packets: packets.estimate,
            low: packets.low,
            high: packets.high,
            at_least: packets.at_least,
            at_most: packets.at_most,
            bytes: bytes.estimate,
            bytes_low: bytes.low,
            bytes_high: bytes.high,
            bytes_at_least: bytes.at_least,
            bytes_at_most: bytes.at_most,
        }
    }
}

/// An estimated number of peers and its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerEstimate {
    pub peers: u64,
    pub low: u64,
    pub high: u64,
    /// Whether all peers were counted by name.
    #[serde(default)]
    pub exact: bool,
}

impl PeerEstimate {
    /// Both ends of the interval as text.
    pub fn between(&self, units: Units) -> String {
        match (units.count(self.low), units.count(self.high)) {
            _ if self.exact => "exact".into(),
            (low, high) if low == high => low,
            (low, high) => format!("{low} to {high}"),
        }
    }
}

impl From<Peers> for PeerEstimate {
    fn from(peers: Peers) -> Self {
        Self {
            peers: peers.peers,
            low: peers.low,
            high: peers.high,
            exact: peers.exact,
        }
    }
}
