//! An edge: what the sketches store of a packet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crane_model::name::{AnyName, Name, Narrow, Wide};

use crate::traffic::service::Service;

/// Source and destination address of a packet. An IPv4-mapped IPv6 address
/// (`::ffff:5.6.7.8`) is an IPv6 address, as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pair {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Pair {
    /// Returns the pair of two addresses. `None` if one is IPv4 and the other IPv6, because
    /// no packet can have both.
    pub fn between(src: IpAddr, dst: IpAddr) -> Option<Self> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(Self::V4(src, dst)),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Self::V6(src, dst)),
            _ => None,
        }
    }

    pub fn src(&self) -> IpAddr {
        match self {
            Self::V4(src, _) => (*src).into(),
            Self::V6(src, _) => (*src).into(),
        }
    }

    pub fn dst(&self) -> IpAddr {
        match self {
            Self::V4(_, dst) => (*dst).into(),
            Self::V6(_, dst) => (*dst).into(),
        }
    }

    pub fn reversed(&self) -> Self {
        match *self {
            Self::V4(src, dst) => Self::V4(dst, src),
            Self::V6(src, dst) => Self::V6(dst, src),
        }
    }

    /// Returns the key of the pair in sketches.
    #[inline]
    pub fn name(&self) -> AnyName {
        match self {
            Self::V4(src, dst) => {
                let (src, dst) = (u32::from(*src), u32::from(*dst));
                AnyName::Narrow([u64::from(src) << 32 | u64::from(dst)])
            }
            Self::V6(src, dst) => {
                let ([a, b], [c, d]) = (halves(*src), halves(*dst));
                AnyName::Wide([a, b, c, d])
            }
        }
    }

    /// Returns the pair of a key.
    pub fn of_name(name: AnyName) -> Self {
        match name {
            AnyName::Narrow([name]) => Self::V4(((name >> 32) as u32).into(), (name as u32).into()),
            AnyName::Wide([a, b, c, d]) => Self::V6(whole([a, b]), whole([c, d])),
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.src(), self.dst())
    }
}

fn halves(address: Ipv6Addr) -> [u64; 2] {
    let bits = address.to_bits();
    [(bits >> 64) as u64, bits as u64]
}

fn whole([high, low]: [u64; 2]) -> Ipv6Addr {
    Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))
}

/// Returns the key of an address in sketches.
pub fn node_name(node: IpAddr) -> AnyName {
    match node {
        IpAddr::V4(node) => AnyName::Narrow([u32::from(node).into()]),
        IpAddr::V6(node) => {
            let [high, low] = halves(node);
            AnyName::Wide([high, low, 0, 0])
        }
    }
}

/// Returns the address of a key.
pub fn node_of_name(name: AnyName) -> IpAddr {
    match name {
        AnyName::Narrow([node]) => Ipv4Addr::from(node as u32).into(),
        AnyName::Wide([high, low, ..]) => whole([high, low]).into(),
    }
}

/// The ends of a pair, as keys in sketches.
pub trait Ends: Name {
    fn source(&self) -> Self;
    fn destination(&self) -> Self;
}

impl Ends for Narrow {
    #[inline]
    fn source(&self) -> Self {
        [self[0] >> 32]
    }

    #[inline]
    fn destination(&self) -> Self {
        [self[0] & u64::from(u32::MAX)]
    }
}

impl Ends for Wide {
    #[inline]
    fn source(&self) -> Self {
        [self[0], self[1], 0, 0]
    }

    #[inline]
    fn destination(&self) -> Self {
        [self[2], self[3], 0, 0]
    }
}

/// A decoded packet on its way from the capture to the sketches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Key of the pair.
    pub name: AnyName,
    pub service: Service,
    /// Length on the wire.
    pub bytes: u32,
    /// Capture time in nanoseconds since 1970; 0 for a live packet.
    pub time: u64,
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Pairs of both IP versions.
    pub fn pairs() -> [Pair; 4] {
        let v6 = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        [
            Pair::V4([10, 1, 2, 3].into(), [255, 255, 255, 255].into()),
            Pair::V6(v6("2001:db8::1"), v6("fe80::ffff:1")),
            Pair::V4([0, 0, 0, 0].into(), [0, 0, 0, 1].into()),
            // An IPv4-mapped address is not IPv4.
            Pair::V6(v6("::ffff:5.6.7.8"), v6("::ffff:1.2.3.4")),
        ]
    }

    #[test]
    fn keys_convert_back_to_addresses() {
        for pair in pairs() {
            assert_eq!(Pair::of_name(pair.name()), pair);
            assert_eq!(Pair::between(pair.src(), pair.dst()), Some(pair));
            let (src, dst) = match pair.name() {
                AnyName::Narrow(name) => (name.source().any(), name.destination().any()),
                AnyName::Wide(name) => (name.source().any(), name.destination().any()),
            };
            assert_eq!((src, dst), (node_name(pair.src()), node_name(pair.dst())));
            assert_eq!(node_of_name(src), pair.src());
            assert_eq!(node_of_name(dst), pair.dst());
        }
        let [v4, v6, ..] = pairs();
        assert_eq!(Pair::between(v4.src(), v6.dst()), None);
        assert_eq!(pairs()[3].src().to_string(), "::ffff:5.6.7.8");
    }
}
