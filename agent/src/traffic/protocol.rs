//! The transport protocol of an IP packet.

/// Protocols that are counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    /// UDP, including tunnels in UDP.
    Udp,
    Icmp,
    Icmpv6,
    Sctp,
    Gre,
    /// The encrypted part of IPsec.
    Esp,
    Other,
}

impl Protocol {
    pub const ALL: [Self; 8] = [
        Self::Tcp,
        Self::Udp,
        Self::Icmp,
        Self::Icmpv6,
        Self::Sctp,
        Self::Gre,
        Self::Esp,
        Self::Other,
    ];

    /// Returns the protocol with this number in the IP header. It is looked up in a table,
    /// because a branch on it cannot be predicted.
    #[inline]
    pub fn of(number: u8) -> Self {
        const BY_NUMBER: [Protocol; 256] = {
            let mut all = [Protocol::Other; 256];
            let mut number = 0;
            while number < all.len() {
                all[number] = Protocol::numbered(number as u8);
                number += 1;
            }
            all
        };
        BY_NUMBER[usize::from(number)]
    }

    const fn numbered(number: u8) -> Self {
        match number {
            6 => Self::Tcp,
            17 => Self::Udp,
            1 => Self::Icmp,
            58 => Self::Icmpv6,
            132 => Self::Sctp,
            47 => Self::Gre,
            50 => Self::Esp,
            _ => Self::Other,
        }
    }

    /// Whether its header begins with two ports.
    #[inline]
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp | Self::Sctp)
    }

    /// Value of the metrics label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmpv6",
            Self::Sctp => "sctp",
            Self::Gre => "gre",
            Self::Esp => "esp",
            Self::Other => "other",
        }
    }
}
