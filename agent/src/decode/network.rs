//! The IP header.

use std::net::Ipv4Addr;

use etherparse::err::{ipv4, ipv6};
use etherparse::{
    IpNumber, Ipv4HeaderSlice, Ipv6ExtensionSlice, Ipv6HeaderSlice, LaxIpv4Slice, LaxIpv6Slice,
};

use crate::traffic::edge::Pair;
use crate::traffic::protocol::Protocol;
use crate::traffic::service::Service;
use crate::traffic::tally::Ignored;

/// Offset of the protocol in an IPv4 header.
const V4_PROTOCOL: usize = 9;
/// Bits of the fragment offset in an IPv4 header.
const V4_OFFSET: u16 = 0x1fff;
/// Offset of the next-header field in an IPv6 header.
const V6_NEXT: usize = 6;
/// Size of an IPv6 header.
const V6_HEADER: usize = 40;
/// The only extension header of IPv4.
const AUTHENTICATION: u8 = 51;

/// An IP packet, with the version that the previous header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ip<'a> {
    V4(&'a [u8]),
    V6(&'a [u8]),
}

impl<'a> Ip<'a> {
    /// Detects the version by the first half-byte, where no header names it.
    pub fn sniff(data: &'a [u8]) -> Result<Self, Ignored> {
        match data.first().map(|byte| byte >> 4) {
            Some(4) => Ok(Self::V4(data)),
            Some(6) => Ok(Self::V6(data)),
            Some(_) => Err(Ignored::NotIp),
            None => Err(Ignored::Truncated),
        }
    }

    #[inline]
    pub fn pair(self) -> Result<Pair, Ignored> {
        match self {
            Self::V4(data) => match Ipv4HeaderSlice::from_slice(data) {
                Ok(header) => Ok(Pair::V4(header.source_addr(), header.destination_addr())),
                // Truncated within the options, which follow the addresses.
                Err(ipv4::HeaderSliceError::Len(_)) => match data.get(12..20) {
                    Some(&[a, b, c, d, e, f, g, h]) => Ok(Pair::V4(
                        Ipv4Addr::new(a, b, c, d),
                        Ipv4Addr::new(e, f, g, h),
                    )),
                    _ => Err(Ignored::Truncated),
                },
                Err(ipv4::HeaderSliceError::Content(_)) => Err(Ignored::Malformed),
            },
            Self::V6(data) => match Ipv6HeaderSlice::from_slice(data) {
                Ok(header) => Ok(Pair::V6(header.source_addr(), header.destination_addr())),
                Err(ipv6::HeaderSliceError::Len(_)) => Err(Ignored::Truncated),
                Err(ipv6::HeaderSliceError::Content(_)) => Err(Ignored::Malformed),
            },
        }
    }

    /// Returns the protocol after all extension headers, and the service. A later fragment
    /// has the protocol but no ports. If the capture ends before the protocol, it is
    /// [`Protocol::Other`].
    #[inline]
    pub fn carries(self) -> (Protocol, Service) {
        let (number, transport) = match self {
            Self::V4(data) => match data.first_chunk::<{ V4_PROTOCOL + 1 }>() {
                Some(head) => {
                    let header = 4 * usize::from(head[0] & 0xf);
                    let offset = u16::from_be_bytes([head[6], head[7]]) & V4_OFFSET;
                    let number = head[V4_PROTOCOL];
                    match offset {
                        0 if number == AUTHENTICATION => {
                            after_extensions(number, data.get(header..).unwrap_or_default())
                        }
                        0 => (number, data.get(header..)),
                        _ => (number, None),
                    }
                }
                None => (u8::MAX, Some(&[][..])),
            },
            Self::V6(data) => {
                let rest = data.get(V6_HEADER..).unwrap_or_default();
                match data.get(V6_NEXT) {
                    Some(next @ (6 | 17 | 58)) => (*next, Some(rest)),
                    Some(next) => after_extensions(*next, rest),
                    None => (u8::MAX, Some(rest)),
                }
            }
        };
        let protocol = Protocol::of(number);
        let service = match transport {
            None => Service::FRAGMENT,
            Some(&[a, b, c, d, ..]) if protocol.has_ports() => Service::between(
                protocol,
                u16::from_be_bytes([a, b]),
                u16::from_be_bytes([c, d]),
            ),
            Some(_) => Service::of(protocol),
        };
        (protocol, service)
    }

    /// Returns protocol and payload after all extension headers. `None` for a later fragment,
    /// whose payload does not start with a header.
    pub fn payload(self) -> Option<(IpNumber, &'a [u8])> {
        let (payload, begins) = match self {
            Self::V4(data) => {
                let (packet, _) = LaxIpv4Slice::from_slice(data).ok()?;
                let begins = packet.header().fragments_offset().value() == 0;
                (packet.payload().clone(), begins)
            }
            Self::V6(data) => {
                let (packet, error) = LaxIpv6Slice::from_slice(data).ok()?;
                // etherparse 0.21 iterates over extension headers beyond the end of the packet
                // if one of them could not be read.
                if error.is_some() {
                    return None;
                }
                let mut extensions = packet.extensions().clone().into_iter();
                let begins = extensions.all(|extension| match extension {
                    Ipv6ExtensionSlice::Fragment(it) => it.fragment_offset().value() == 0,
                    _ => true,
                });
                (packet.payload().clone(), begins)
            }
        };
        begins.then_some((payload.ip_number, payload.payload))
    }
}

/// Returns the protocol number and payload after extension headers, the first of which has
/// the type `number`. The payload is `None` for a later fragment. Few packets have extension
/// headers.
#[cold]
fn after_extensions(mut number: u8, mut data: &[u8]) -> (u8, Option<&[u8]>) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    const MOBILITY: u8 = 135;

    while let Some([next, length, offset @ ..]) = data.first_chunk::<4>() {
        let length = usize::from(*length);
        let size = match number {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY => 8 * (1 + length),
            AUTHENTICATION => 4 * (2 + length),
            FRAGMENT if u16::from_be_bytes(*offset) >> 3 != 0 => return (*next, None),
            FRAGMENT => 8,
            _ => break,
        };
        number = *next;
        data = data.get(size..).unwrap_or_default();
    }
    (number, Some(data))
}
