//! Strips everything below IP: link headers, VLAN tags, MPLS labels and PPPoE sessions.

use etherparse::{EtherType, Ethernet2HeaderSlice, SingleVlanHeaderSlice, ether_type};

use super::network::Ip;
use crate::config::Direction;
use crate::traffic::packet::Link;
use crate::traffic::tally::Ignored;

const ETHERNET: Link = Link(1);
/// Deeper stacks of tags, labels and sessions only occur in attacks.
const MAX_DEPTH: usize = 16;
/// Smaller values are not ethertypes.
const FIRST_ETHERTYPE: u16 = 0x0600;
/// QinQ as it was before 802.1ad.
const OLD_QINQ: EtherType = EtherType(0x9100);
const MPLS: EtherType = EtherType(0x8847);
const MPLS_MULTICAST: EtherType = EtherType(0x8848);
const PPPOE_SESSION: EtherType = EtherType(0x8864);
/// An Ethernet frame within another protocol.
const BRIDGED_ETHERNET: EtherType = EtherType(0x6558);

/// Returns the IPv4 packet that directly follows an Ethernet header.
#[inline]
pub fn plain_ipv4(link: Link, data: &[u8]) -> Option<Ip<'_>> {
    match ethernet_header(data) {
        Ok((ether_type::IPV4, rest)) if link == ETHERNET => Some(Ip::V4(rest)),
        _ => None,
    }
}

/// Strips the headers of `link`.
pub fn strip(link: Link, data: &[u8]) -> Result<Ip<'_>, Ignored> {
    match link.0 {
        1 => ethernet(data),
        // BSD null, in the byte order of the capturing machine.
        0 => {
            let (family, rest) = split::<4>(data)?;
            let little = u32::from_le_bytes(*family);
            address_family(little.min(little.swap_bytes()), rest)
        }
        // BSD loopback, always big endian.
        108 => {
            let (family, rest) = split::<4>(data)?;
            address_family(u32::from_be_bytes(*family), rest)
        }
        // PPP, and PPP or Cisco's protocol in HDLC framing.
        9 | 50 => match data {
            [0x0f | 0x8f, _, rest @ ..] => cisco_hdlc(rest),
            _ => ppp(data),
        },
        51 => pppoe(data),
        104 => cisco_hdlc(split::<2>(data)?.1),
        // A byte with the direction, then PPP.
        204 => ppp(split::<1>(data)?.1),
        // Raw IP: 101 in files, 12 and 14 on some systems.
        12 | 14 | 101 => Ip::sniff(data),
        228 => Ok(Ip::V4(data)),
        229 => Ok(Ip::V6(data)),
        // Linux cooked v1: the protocol is in the last 2 of 16 bytes.
        113 => {
            let (header, rest) = split::<16>(data)?;
            cooked([header[14], header[15]], rest)
        }
        // Linux cooked v2: the protocol is in the first 2 of 20 bytes.
        276 => {
            let (header, rest) = split::<20>(data)?;
            cooked([header[0], header[1]], rest)
        }
        _ => Err(Ignored::UnsupportedLink),
    }
}

/// Returns whether a packet came in or went out. `None` if its link header has no direction.
pub fn direction(link: Link, data: &[u8]) -> Option<Direction> {
    let packet_type = match link.0 {
        113 => u16::from_be_bytes(*data.first_chunk()?),
        276 => u16::from(*data.get(10)?),
        204 if *data.first()? == 0 => return Some(Direction::In),
        204 => return Some(Direction::Out),
        _ => return None,
    };
    match packet_type {
        // Received: unicast to this host, broadcast, multicast, unicast to another host.
        0..=3 => Some(Direction::In),
        4 => Some(Direction::Out),
        _ => None,
    }
}

/// Strips an Ethernet header and all headers between it and IP.
pub fn ethernet(data: &[u8]) -> Result<Ip<'_>, Ignored> {
    let (kind, rest) = ethernet_header(data)?;
    ethertype(kind, rest)
}

/// Strips all headers between an ethertype and IP.
pub fn ethertype(mut kind: EtherType, mut rest: &[u8]) -> Result<Ip<'_>, Ignored> {
    for _ in 0..MAX_DEPTH {
        (kind, rest) = match kind {
            ether_type::IPV4 => return Ok(Ip::V4(rest)),
            ether_type::IPV6 => return Ok(Ip::V6(rest)),
            ether_type::VLAN_TAGGED_FRAME | ether_type::PROVIDER_BRIDGING | OLD_QINQ => {
                let tag =
                    SingleVlanHeaderSlice::from_slice(rest).map_err(|_| Ignored::Truncated)?;
                (tag.ether_type(), &rest[tag.slice().len()..])
            }
            MPLS | MPLS_MULTICAST => return mpls(rest),
            PPPOE_SESSION => return pppoe(rest),
            BRIDGED_ETHERNET => ethernet_header(rest)?,
            // A length: LLC follows.
            EtherType(length) if length < FIRST_ETHERTYPE => llc(rest)?,
            _ => return Err(Ignored::NotIp),
        }
    }
    Err(Ignored::Malformed)
}

fn ethernet_header(data: &[u8]) -> Result<(EtherType, &[u8]), Ignored> {
    let header = Ethernet2HeaderSlice::from_slice(data).map_err(|_| Ignored::Truncated)?;
    Ok((header.ether_type(), &data[header.slice().len()..]))
}

/// Strips LLC, which names IP directly or is followed by an ethertype (SNAP).
fn llc(data: &[u8]) -> Result<(EtherType, &[u8]), Ignored> {
    match split::<3>(data)? {
        ([0x06, 0x06, 3], rest) => Ok((ether_type::IPV4, rest)),
        ([0xaa, 0xaa, 3], rest) => match split::<5>(rest)? {
            // RFC 1042, and 802.1H for bridges.
            ([0, 0, 0 | 0xf8, high, low], rest) => {
                Ok((EtherType(u16::from_be_bytes([*high, *low])), rest))
            }
            _ => Err(Ignored::NotIp),
        },
        _ => Err(Ignored::NotIp),
    }
}

/// Decodes by the protocol field of Linux cooked headers. Numbers below the ethertypes are
/// specific to Linux: 4 is LLC, the others do not carry IP.
fn cooked(kind: [u8; 2], rest: &[u8]) -> Result<Ip<'_>, Ignored> {
    match u16::from_be_bytes(kind) {
        4 => llc(rest).and_then(|(kind, rest)| ethertype(kind, rest)),
        0..FIRST_ETHERTYPE => Err(Ignored::NotIp),
        kind => ethertype(EtherType(kind), rest),
    }
}

fn address_family(family: u32, rest: &[u8]) -> Result<Ip<'_>, Ignored> {
    match family {
        // 2 is IPv4 everywhere; IPv6 is 10, 24, 28 or 30 depending on the system.
        2 | 10 | 24 | 28 | 30 => Ip::sniff(rest),
        _ => Err(Ignored::NotIp),
    }
}

/// Skips labels up to the bottom of the stack. No field names the type of the payload, so its
/// first half-byte decides; the control word of a pseudo-wire starts with neither 4 nor 6.
fn mpls(mut rest: &[u8]) -> Result<Ip<'_>, Ignored> {
    for _ in 0..MAX_DEPTH {
        let (label, after) = split::<4>(rest)?;
        rest = after;
        if label[2] & 1 == 1 {
            return Ip::sniff(rest);
        }
    }
    Err(Ignored::Malformed)
}

/// Strips a PPPoE header. Code 0 is session data; other codes are discovery.
fn pppoe(data: &[u8]) -> Result<Ip<'_>, Ignored> {
    match split::<6>(data)? {
        ([_, 0, ..], rest) => ppp(rest),
        _ => Err(Ignored::NotIp),
    }
}

/// Strips a PPP header. Address and control may be absent, and the protocol may have one byte.
fn ppp(data: &[u8]) -> Result<Ip<'_>, Ignored> {
    let data = data.strip_prefix(&[0xff, 0x03]).unwrap_or(data);
    let first = *data.first().ok_or(Ignored::Truncated)?;
    let (protocol, rest) = if first & 1 == 1 {
        (u16::from(first), &data[1..])
    } else {
        let (protocol, rest) = split::<2>(data)?;
        (u16::from_be_bytes(*protocol), rest)
    };
    match protocol {
        0x0021 => Ok(Ip::V4(rest)),
        0x0057 => Ok(Ip::V6(rest)),
        0x0281 | 0x0283 => mpls(rest),
        _ => Err(Ignored::NotIp),
    }
}

/// Strips the rest of a Cisco HDLC header after address and control: the ethertype.
fn cisco_hdlc(data: &[u8]) -> Result<Ip<'_>, Ignored> {
    let (kind, rest) = split::<2>(data)?;
    ethertype(EtherType(u16::from_be_bytes(*kind)), rest)
}

fn split<const N: usize>(data: &[u8]) -> Result<(&[u8; N], &[u8]), Ignored> {
    data.split_first_chunk().ok_or(Ignored::Truncated)
}
