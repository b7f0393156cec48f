//! The numbers of an answer, as all JSON has them.

use crane_model::Flow;
use crane_model::fan::Peers;
use serde::{Deserialize, Serialize};

use crate::units::Units;

/// An estimate and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Packets, most likely.
    pub packets: u64,
    /// In nine of ten cases no fewer packets than this …
    pub low: u64,
    /// … and no more than this.
    pub high: u64,
    /// Never fewer packets than this.
    pub at_least: Option<u64>,
    /// Never more packets than this; 0 is a certain no.
    pub at_most: Option<u64>,
    /// Bytes, most likely.
    pub bytes: u64,
    /// In nine of ten cases no fewer bytes than this …
    pub bytes_low: u64,
    /// … and no more than this.
    pub bytes_high: u64,
    /// Never fewer bytes than this.
    pub bytes_at_least: Option<u64>,
    /// Never more bytes than this.
    pub bytes_at_most: Option<u64>,
}

impl Estimate {
    /// Whether there is no doubt about its packets.
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

/// A number of other addresses and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerEstimate {
    /// Most likely.
    pub peers: u64,
    /// In nine of ten cases no fewer than this …
    pub low: u64,
    /// … and no more than this.
    pub high: u64,
    /// Whether all of them were counted by name.
    #[serde(default)]
    pub exact: bool,
}

impl PeerEstimate {
    /// Both ends of the interval for people.
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
