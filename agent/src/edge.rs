//! What a packet becomes: an edge from one address to another.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crane_model as model;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Source and destination address of a packet. IPv4 is held as IPv4-mapped
/// IPv6, so that both kinds fit one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// Who sent it.
    pub src: Ipv6Addr,
    /// To whom.
    pub dst: Ipv6Addr,
}

/// A packet on its way from the capture to the sketch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// From whom to whom.
    pub pair: Pair,
    /// Its length on the wire.
    pub bytes: u32,
    /// When it was captured, in nanoseconds since 1970; 0 if it is live.
    pub time: u64,
}

impl Pair {
    /// The pair of these two addresses.
    pub fn new(src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Self {
        Self {
            src: widen(src.into()),
            dst: widen(dst.into()),
        }
    }

    /// Source as people write it.
    pub fn src(&self) -> IpAddr {
        self.src.to_canonical()
    }

    /// Destination as people write it.
    pub fn dst(&self) -> IpAddr {
        self.dst.to_canonical()
    }

    /// The pair as the layers know it: an IPv4 address is its own id, an IPv6
    /// address is hashed to 32 bits.
    pub fn model_edge(&self) -> model::Edge {
        model::Edge::new(id(self.src), id(self.dst))
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.src(), self.dst())
    }
}

/// A node as the layers know it: they are asked about one end only.
pub fn model_node(node: &Ipv6Addr) -> model::Edge {
    model::Edge::new(id(*node), 0)
}

/// An address as pairs hold it.
pub fn widen(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

fn id(address: Ipv6Addr) -> u32 {
    match address.to_ipv4_mapped() {
        Some(v4) => v4.into(),
        None => {
            let mut hasher = FxHasher::default();
            address.octets().hash(&mut hasher);
            (hasher.finish() >> 32) as u32
        }
    }
}
