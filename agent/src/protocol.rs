//! What an IP packet carries.

/// The protocols that are counted by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP, and the tunnels that travel in it.
    Udp,
    /// ICMP.
    Icmp,
    /// ICMP of IPv6.
    Icmpv6,
    /// SCTP.
    Sctp,
    /// GRE.
    Gre,
    /// The encrypted part of IPsec.
    Esp,
    /// All others.
    Other,
}

impl Protocol {
    /// All of them.
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

    /// The protocol with this number in the IP header: looked up, because nobody
    /// can predict a branch on it.
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

    /// Whether what it carries begins with two ports.
    #[inline]
    pub fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp | Self::Sctp)
    }

    /// As a label.
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
