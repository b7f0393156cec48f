//! Decodes a packet to its source and destination address, protocol and service.
//!
//! [`link`] strips everything below IP, [`network`] reads the IP header, and [`tunnel`]
//! finds the innermost IP header if that is configured. Truncated frames are decoded if they
//! contain the addresses. Nothing is verified or copied: the common case is a few
//! comparisons and two loads.

mod link;
mod network;
mod tunnel;

#[cfg(test)]
pub mod testing;

use crate::config::{self, Decap, Direction};
use crate::traffic::edge::Pair;
use crate::traffic::packet::Link;
use crate::traffic::protocol::Protocol;
use crate::traffic::service::Service;
use crate::traffic::tally::Ignored;
use network::Ip;

/// Options of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub decap: Decap,
    /// Whether IPv6 packets are decoded or ignored.
    pub ipv6: bool,
    /// Which packets are decoded. Applies only to link types that have a direction.
    pub direction: Direction,
}

impl From<&config::Capture> for Options {
    fn from(config: &config::Capture) -> Self {
        Self {
            decap: config.decap,
            ipv6: config.ipv6,
            direction: config.direction,
        }
    }
}

/// Result of decoding a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    pub pair: Pair,
    /// Protocol of the IP packet with these addresses.
    pub protocol: Protocol,
    pub service: Service,
}

/// Decodes a packet. The error is the reason why it is ignored.
#[inline]
pub fn decode(link: Link, data: &[u8], options: &Options) -> Result<Decoded, Ignored> {
    if options.direction != Direction::Both
        && link::direction(link, data).is_some_and(|known| known != options.direction)
    {
        return Err(Ignored::Direction);
    }
    // Nearly all traffic is plain IPv4. Its separate path halves the cost, because the result is
    // not merged with that of the general path.
    if let Some(packet) = link::plain_ipv4(link, data) {
        return addresses(packet, options);
    }
    addresses(link::strip(link, data)?, options)
}

#[inline(always)]
fn addresses(outer: Ip<'_>, options: &Options) -> Result<Decoded, Ignored> {
    let packet = match options.decap {
        Decap::Outer => outer,
        Decap::Inner => tunnel::innermost(outer),
    };
    match packet {
        Ip::V6(_) if !options.ipv6 => Err(Ignored::Ipv6Off),
        packet => {
            let pair = packet.pair()?;
            let (protocol, service) = packet.carries();
            Ok(Decoded {
                pair,
                protocol,
                service,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use testing::frame::*;
    use testing::packets::{self, TestPacket, v4, v6};

    const OUTER: Options = Options {
        decap: Decap::Outer,
        ipv6: true,
        direction: Direction::Both,
    };
    const INNER: Options = Options {
        decap: Decap::Inner,
        ..OUTER
    };

    fn pair(link: Link, data: &[u8], options: &Options) -> Result<Pair, Ignored> {
        super::decode(link, data, options).map(|decoded| decoded.pair)
    }

    fn decode(test: &TestPacket, options: &Options) -> Result<Pair, &'static str> {
        pair(Link(test.link), &test.data, options).map_err(Ignored::name)
    }

    /// The protocol is read after all extension headers, if they were captured.
    #[test]
    fn the_protocol_is_that_of_the_packet_with_the_addresses() {
        let protocol = |packet: &[u8], options| {
            let decoded = super::decode(Link(101), packet, options).unwrap();
            decoded.protocol.name()
        };
        let numbers = [
            (6, "tcp"),
            (UDP, "udp"),
            (1, "icmp"),
            (58, "icmpv6"),
            (132, "sctp"),
            (GRE, "gre"),
            (50, "esp"),
            (89, "other"),
            (IP_IN_IP, "other"),
        ];
        let authenticated = |number| [&[number, 4][..], &[0; 22]].concat();
        for (number, name) in numbers {
            for ends in [v4(1), v6(1)] {
                for offset in [0, 100] {
                    let packet = fragment(ends, offset, true, number, &[0; 40]);
                    assert_eq!(protocol(&packet, &OUTER), name, "{offset} of {ends:?}");
                }
                let packet = ip(ends, AUTHENTICATION, &authenticated(number));
                assert_eq!(protocol(&packet, &OUTER), name, "authenticated");
            }
            let routed = [&[OPTIONS, 1][..], &[0; 14], &options(number, &[1, 2])].concat();
            let packet = ip(v6(1), OPTIONS, &options(ROUTING, &routed));
            assert_eq!(protocol(&packet, &OUTER), name, "after three headers");
            assert_eq!(protocol(&packet[..50], &OUTER), "other", "cut off before");
            // A later fragment does not start with a header.
            let later = fragment(v6(1), 100, false, OPTIONS, &[number; 40]);
            assert_eq!(protocol(&later, &OUTER), "other");
            let tunnel = ip(v4(1), GRE, &gre(0, IPV4, &ip(v4(2), number, &[0; 40])));
            assert_eq!(protocol(&tunnel, &OUTER), "gre");
            assert_eq!(protocol(&tunnel, &INNER), name, "inside");
        }
    }

    #[test]
    fn every_encapsulation_is_decoded_to_its_pair() {
        for test in packets::all() {
            let expected =
                |ends: Result<Ends, _>| ends.map(|(src, dst)| Pair::between(src, dst).unwrap());
            let name = test.name;
            assert_eq!(decode(&test, &OUTER), expected(test.outer), "{name}, outer");
            assert_eq!(decode(&test, &INNER), expected(test.inner), "{name}, inner");
        }
    }

    #[test]
    fn damaged_packets_never_panic() {
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
        for TestPacket { link, data, .. } in packets::all() {
            for cut in 0..data.len() {
                let _ = pair(Link(link), &data[..cut], &INNER);
            }
            for _ in 0..500 {
                let mut data = data.clone();
                for _ in 0..rng.random_range(1..4) {
                    let at = rng.random_range(0..data.len());
                    data[at] = rng.random();
                }
                data.truncate(rng.random_range(0..=data.len()));
                let outer = pair(Link(link), &data, &OUTER);
                let inner = pair(Link(link), &data, &INNER);
                assert_eq!(
                    outer.is_ok(),
                    inner.is_ok(),
                    "a damaged tunnel must not prevent decoding of the outer packet"
                );
            }
        }
    }

    #[test]
    fn nesting_is_limited() {
        let tags = ethernet(VLAN, &tag(VLAN, &[]).repeat(1000));
        assert_eq!(pair(Link(1), &tags, &OUTER), Err(Ignored::Malformed));
        let labels = ethernet(MPLS, &[0; 4000]);
        assert_eq!(pair(Link(1), &labels, &OUTER), Err(Ignored::Malformed));
        let mut packet = ip(v4(0), UDP, &[]);
        for n in 1..=100 {
            packet = ip(v4(n), IP_IN_IP, &packet);
        }
        let (src, dst) = v4(92);
        assert_eq!(
            pair(Link(101), &packet, &INNER),
            Ok(Pair::between(src, dst).unwrap())
        );
    }

    #[test]
    fn invalid_tunnels_and_sessions_are_not_decapsulated() {
        let (src, dst) = v4(1);
        let inner = ip(v4(2), UDP, &[]);
        let mut pptp = gre(0, IPV4, &inner);
        pptp[1] = 1;
        let mut routed = gre(0, IPV4, &inner);
        routed[0] = 0x40;
        let mut no_vxlan = vxlan(4789, &ethernet(IPV4, &inner));
        no_vxlan[8] = 0;
        for (protocol, payload) in [(GRE, pptp), (GRE, routed), (UDP, no_vxlan)] {
            let packet = ip((src, dst), protocol, &payload);
            assert_eq!(
                pair(Link(101), &packet, &INNER),
                Ok(Pair::between(src, dst).unwrap())
            );
        }
        let discovery = pppoe(9, &[&[0, 0x21], &inner[..]].concat());
        assert_eq!(pair(Link(51), &discovery, &OUTER), Err(Ignored::NotIp));
    }

    #[test]
    fn ipv6_packets_are_ignored_if_ipv6_is_off() {
        let off = Options {
            ipv6: false,
            ..INNER
        };
        for test in packets::all() {
            let expected = match test.inner {
                Ok((src, _)) if src.is_ipv6() => Err("ipv6_off"),
                _ => decode(&test, &INNER),
            };
            if test.inner.is_ok() {
                assert_eq!(decode(&test, &off), expected, "{}", test.name);
            }
        }
        let (src, dst) = v4(181);
        let inside = ethernet(IPV6, &ip(v6(1), IP_IN_IP, &ip((src, dst), UDP, &[])));
        assert_eq!(
            pair(Link(1), &inside, &off),
            Ok(Pair::between(src, dst).unwrap())
        );
    }

    #[test]
    fn packets_are_selected_by_direction_if_the_link_header_has_it() {
        let packet = ip(v4(1), UDP, &[]);
        let framed = |direction| [&[direction, 0xff, 3, 0, 0x21], &packet[..]].concat();
        // Link type, packet, whether it is accepted as incoming, as outgoing.
        let mut cases = vec![
            (204, framed(0), true, false),
            (204, framed(1), false, true),
            (1, ethernet(IPV4, &packet), true, true),
            (101, packet.clone(), true, true),
        ];
        for (kind, is_in, is_out) in [
            (0, true, false),
            (1, true, false),
            (2, true, false),
            (3, true, false),
            (4, false, true),
            (5, true, true),
        ] {
            cases.push((113, sll(kind, IPV4, &packet), is_in, is_out));
            cases.push((276, sll2(kind, IPV4, &packet), is_in, is_out));
        }
        for (link, data, is_in, is_out) in cases {
            for (direction, counts) in [
                (Direction::Both, true),
                (Direction::In, is_in),
                (Direction::Out, is_out),
            ] {
                let options = Options { direction, ..OUTER };
                let result = pair(Link(link), &data, &options);
                assert_eq!(result.is_ok(), counts, "{link} {direction:?}: {result:?}");
                assert!(counts || result == Err(Ignored::Direction));
            }
        }
    }
}
