//! From the bytes of a packet to its source and destination address.
//!
//! [`link`] strips everything below IP, [`network`] reads the outermost IP
//! header. Snapped frames are fine as long as that header is there.

mod link;
mod network;

use crate::capture::Link;
use crate::edge::Pair;
use crate::tally::Ignored;

/// Source and destination of a packet, or why it has none.
pub fn pair(link: Link, data: &[u8]) -> Result<Pair, Ignored> {
    let (protocol, payload) = link::strip(link, data)?;
    match protocol {
        link::Protocol::Ipv4 => network::ipv4(payload),
        link::Protocol::Ipv6 => network::ipv6(payload),
        link::Protocol::Ip => match payload.first().map(|byte| byte >> 4) {
            Some(4) => network::ipv4(payload),
            Some(6) => network::ipv6(payload),
            Some(_) => Err(Ignored::Malformed),
            None => Err(Ignored::Truncated),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use std::net::Ipv4Addr;

    const ETHERNET: Link = Link(1);

    fn expected() -> Pair {
        Pair::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    }

    fn frame() -> Vec<u8> {
        let builder =
            PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut bytes = Vec::new();
        builder.udp(1, 2).write(&mut bytes, b"hello").unwrap();
        bytes
    }

    /// The frame with `between` put between the MAC addresses and the ethertype.
    fn tagged(between: &[u8], ip_from: usize) -> Vec<u8> {
        let frame = frame();
        [&frame[..12], between, &frame[ip_from..]].concat()
    }

    #[test]
    fn every_encapsulation_leads_to_the_same_pair() {
        let ip = &frame()[14..];
        let cases: &[(&str, u32, Vec<u8>)] = &[
            ("ethernet", 1, frame()),
            ("vlan", 1, tagged(&[0x81, 0, 0, 5], 12)),
            ("qinq", 1, tagged(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], 12)),
            (
                "mpls",
                1,
                tagged(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64], 14),
            ),
            (
                "pppoe",
                1,
                tagged(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 30, 0, 0x21], 14),
            ),
            (
                "llc/snap",
                1,
                tagged(&[0, 40, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0], 14),
            ),
            ("null, little endian", 0, [&[2, 0, 0, 0], ip].concat()),
            ("loop, big endian", 108, [&[0, 0, 0, 2], ip].concat()),
            ("raw", 101, ip.to_vec()),
            ("raw ipv4", 228, ip.to_vec()),
            ("ppp", 9, [&[0xff, 3, 0, 0x21], ip].concat()),
            ("ppp, compressed", 9, [&[0x21], ip].concat()),
            (
                "sll",
                113,
                [&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0], ip].concat(),
            ),
            (
                "sll2",
                276,
                [
                    &[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0],
                    ip,
                ]
                .concat(),
            ),
        ];
        for (name, link, data) in cases {
            assert_eq!(pair(Link(*link), data), Ok(expected()), "{name}");
            for cut in 0..data.len() {
                let _ = pair(Link(*link), &data[..cut]);
            }
        }
    }

    #[test]
    fn ipv6_and_snapped_frames_are_read() {
        let (src, dst) = ([1; 16], [2; 16]);
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv6(src, dst, 64);
        builder.tcp(1, 2, 3, 4).write(&mut bytes, &[]).unwrap();
        let expected = Pair::new(std::net::Ipv6Addr::from(src), std::net::Ipv6Addr::from(dst));
        assert_eq!(pair(ETHERNET, &bytes), Ok(expected));
        assert_eq!(
            pair(ETHERNET, &bytes[..54]),
            Ok(expected),
            "cut after the IP header"
        );
        assert_eq!(pair(ETHERNET, &bytes[..53]), Err(Ignored::Truncated));
    }

    #[test]
    fn what_is_not_an_edge_has_a_reason() {
        let arp = tagged(&[8, 6, 0, 1, 8, 0], 14);
        assert_eq!(pair(ETHERNET, &arp), Err(Ignored::NotIp));
        assert_eq!(pair(ETHERNET, &[]), Err(Ignored::Truncated));
        assert_eq!(pair(Link(999), &frame()), Err(Ignored::UnsupportedLink));
        let mut bad = frame();
        bad[14] = 0x41; // a header of 4 bytes
        assert_eq!(pair(ETHERNET, &bad), Err(Ignored::Malformed));
        bad[14] = 0x65; // version 6 under the ethertype of IPv4
        assert_eq!(pair(ETHERNET, &bad), Err(Ignored::Malformed));
        let endless = tagged(&[0x81, 0, 0, 1].repeat(1000), 12);
        assert_eq!(
            pair(ETHERNET, &endless),
            Err(Ignored::Malformed),
            "too many tags"
        );
    }
}
