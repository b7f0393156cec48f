//! Everything below IP: link headers, tags, labels and sessions.

use etherparse::{EtherType, Ethernet2HeaderSlice, SingleVlanHeaderSlice, ether_type};

use crate::capture::Link;
use crate::tally::Ignored;

/// What follows the link headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// IPv4 by its ethertype.
    Ipv4,
    /// IPv6 by its ethertype.
    Ipv6,
    /// One of both; the first half-byte tells.
    Ip,
}

type Stripped<'a> = Result<(Protocol, &'a [u8]), Ignored>;

/// Tags, labels and sessions stacked deeper than this are an attack.
const MAX_DEPTH: usize = 16;
/// Values below this are a length, and LLC follows.
const FIRST_ETHERTYPE: u16 = 0x0600;
/// QinQ as it was before 802.1ad.
const OLD_QINQ: EtherType = EtherType(0x9100);
const MPLS: EtherType = EtherType(0x8847);
const MPLS_MULTICAST: EtherType = EtherType(0x8848);
const PPPOE_SESSION: EtherType = EtherType(0x8864);

/// Strips the headers of `link`.
pub fn strip(link: Link, data: &[u8]) -> Stripped<'_> {
    match link.0 {
        1 => {
            let header = Ethernet2HeaderSlice::from_slice(data).map_err(|_| Ignored::Truncated)?;
            ethertype(header.ether_type(), &data[header.slice().len()..])
        }
        // BSD null (either byte order) and loopback: an address family.
        0 | 108 => {
            let (family, rest) = split::<4>(data)?;
            let family = if link.0 == 0 && family[0] != 0 {
                family[0]
            } else {
                family[3]
            };
            // 2 is IPv4 everywhere; IPv6 is 10, 24, 28 or 30 by system.
            match family {
                2 | 10 | 24 | 28 | 30 => Ok((Protocol::Ip, rest)),
                _ => Err(Ignored::NotIp),
            }
        }
        9 => ppp(data),
        // Raw IP as numbered in files and, on some systems, by the kernel.
        12 | 14 | 101 => Ok((Protocol::Ip, data)),
        228 => Ok((Protocol::Ipv4, data)),
        229 => Ok((Protocol::Ipv6, data)),
        // Linux cooked v1: the protocol in the last 2 of 16 bytes.
        113 => {
            let (header, rest) = split::<16>(data)?;
            ethertype(
                EtherType(u16::from_be_bytes([header[14], header[15]])),
                rest,
            )
        }
        // Linux cooked v2: the protocol in the first 2 of 20 bytes.
        276 => {
            let (header, rest) = split::<20>(data)?;
            ethertype(EtherType(u16::from_be_bytes([header[0], header[1]])), rest)
        }
        _ => Err(Ignored::UnsupportedLink),
    }
}

fn ethertype(mut kind: EtherType, mut rest: &[u8]) -> Stripped<'_> {
    for _ in 0..MAX_DEPTH {
        match kind {
            ether_type::IPV4 => return Ok((Protocol::Ipv4, rest)),
            ether_type::IPV6 => return Ok((Protocol::Ipv6, rest)),
            ether_type::VLAN_TAGGED_FRAME | ether_type::PROVIDER_BRIDGING | OLD_QINQ => {
                let tag =
                    SingleVlanHeaderSlice::from_slice(rest).map_err(|_| Ignored::Truncated)?;
                kind = tag.ether_type();
                rest = &rest[tag.slice().len()..];
            }
            MPLS | MPLS_MULTICAST => return mpls(rest),
            PPPOE_SESSION => return ppp(split::<6>(rest)?.1),
            EtherType(length) if length < FIRST_ETHERTYPE => {
                let (llc, after) = split::<8>(rest)?;
                if llc[..6] != [0xaa, 0xaa, 3, 0, 0, 0] {
                    return Err(Ignored::NotIp);
                }
                kind = EtherType(u16::from_be_bytes([llc[6], llc[7]]));
                rest = after;
            }
            _ => return Err(Ignored::NotIp),
        }
    }
    Err(Ignored::Malformed)
}

/// Labels up to the one at the bottom of the stack.
fn mpls(mut rest: &[u8]) -> Stripped<'_> {
    for _ in 0..MAX_DEPTH {
        let (label, after) = split::<4>(rest)?;
        rest = after;
        if label[2] & 1 == 1 {
            return match rest.first().map(|byte| byte >> 4) {
                Some(4) => Ok((Protocol::Ipv4, rest)),
                Some(6) => Ok((Protocol::Ipv6, rest)),
                Some(_) => Err(Ignored::NotIp),
                None => Err(Ignored::Truncated),
            };
        }
    }
    Err(Ignored::Malformed)
}

/// PPP: address and control may be left out, the protocol may be one byte.
fn ppp(data: &[u8]) -> Stripped<'_> {
    let data = data.strip_prefix(&[0xff, 0x03]).unwrap_or(data);
    let first = *data.first().ok_or(Ignored::Truncated)?;
    let (protocol, rest) = if first & 1 == 1 {
        (u16::from(first), &data[1..])
    } else {
        let (protocol, rest) = split::<2>(data)?;
        (u16::from_be_bytes(*protocol), rest)
    };
    match protocol {
        0x0021 => Ok((Protocol::Ipv4, rest)),
        0x0057 => Ok((Protocol::Ipv6, rest)),
        _ => Err(Ignored::NotIp),
    }
}

fn split<const N: usize>(data: &[u8]) -> Result<(&[u8; N], &[u8]), Ignored> {
    data.split_first_chunk().ok_or(Ignored::Truncated)
}
