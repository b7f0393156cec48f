//! A packet of every kind, with the expected result of decoding.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::frame::*;

/// A packet as captured.
#[derive(Clone)]
pub struct TestPacket {
    pub name: &'static str,
    pub link: u32,
    pub data: Vec<u8>,
    /// Addresses of the outermost IP packet, or the reason why the packet is ignored.
    pub outer: Result<Ends, &'static str>,
    /// Addresses of the innermost IP packet.
    pub inner: Result<Ends, &'static str>,
}

pub fn v4(n: u8) -> Ends {
    let address = |host| Ipv4Addr::new(10, 0, n, host).into();
    (address(1), address(2))
}

pub fn v6(n: u8) -> Ends {
    let address = |host| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, n.into(), host).into();
    (address(1), address(2))
}

pub fn all() -> Vec<TestPacket> {
    let versions: [fn(u8) -> Ends; 2] = [v4, v6];
    let mut packets = junk();
    for ends in versions {
        packets.extend(links(ends));
        packets.extend(fragments_and_truncated(ends));
        packets.extend(undecodable_tunnels(ends));
        for inner in versions {
            packets.extend(tunnels(ends, inner));
        }
    }
    packets
}

fn payload() -> Vec<u8> {
    udp(53, b"hello")
}

fn plain(name: &'static str, link: u32, data: Vec<u8>, ends: Ends) -> TestPacket {
    let (outer, inner) = (Ok(ends), Ok(ends));
    TestPacket {
        name,
        link,
        data,
        outer,
        inner,
    }
}

/// Puts a link header before a packet, given its ethertype and its PPP protocol.
type Wrap<'a> = &'a dyn Fn(&[u8], u16, &[u8]) -> Vec<u8>;

/// IP after every kind of link header.
pub fn links(ends: fn(u8) -> Ends) -> Vec<TestPacket> {
    let mut n = 0;
    let mut make = |name, link, wrap: Wrap<'_>| {
        n += 1;
        let packet = ip(ends(n), UDP, &payload());
        let (kind, ppp) = (kind(ends(n).0), ppp(ends(n).0));
        plain(name, link, wrap(&packet, kind, &ppp), ends(n))
    };
    let family = if ends(0).0.is_ipv4() { 2 } else { 30 };
    let raw = if ends(0).0.is_ipv4() { 228 } else { 229 };
    let snap_alone = |kind, packet: &[u8]| snap(kind, packet)[14..].to_vec();
    vec![
        make("ethernet", 1, &|ip, kind, _| ethernet(kind, ip)),
        make("vlan", 1, &|ip, kind, _| ethernet(VLAN, &tag(kind, ip))),
        make("qinq", 1, &|ip, kind, _| {
            ethernet(QINQ, &tag(VLAN, &tag(kind, ip)))
        }),
        make("old qinq", 1, &|ip, kind, _| {
            ethernet(0x9100, &tag(VLAN, &tag(kind, ip)))
        }),
        make("snap", 1, &|ip, kind, _| snap(kind, ip)),
        make("tagged snap", 1, &|ip, kind, _| {
            ethernet(VLAN, &[&[0, 5], &snap(kind, ip)[12..]].concat())
        }),
        make("mpls", 1, &|ip, _, _| ethernet(MPLS, &mpls(1, ip))),
        make("labels", 1, &|ip, _, _| ethernet(MPLS, &mpls(3, ip))),
        make("tagged mpls", 1, &|ip, _, _| {
            ethernet(VLAN, &tag(MPLS, &mpls(2, ip)))
        }),
        make("pppoe", 1, &|ip, _, ppp| {
            ethernet(PPPOE_SESSION, &pppoe(0, &[ppp, ip].concat()))
        }),
        make("bridged", 1, &|ip, kind, _| {
            ethernet(ETHERNET, &ethernet(kind, ip))
        }),
        make("null, little endian", 0, &|ip, _, _| {
            [&[family, 0, 0, 0], ip].concat()
        }),
        make("null, big endian", 0, &|ip, _, _| {
            [&[0, 0, 0, family], ip].concat()
        }),
        make("loop", 108, &|ip, _, _| [&[0, 0, 0, family], ip].concat()),
        make("ppp", 9, &|ip, _, ppp| [ppp, ip].concat()),
        make("ppp, short", 9, &|ip, _, ppp| [&ppp[1..], ip].concat()),
        make("ppp, framed", 9, &|ip, _, ppp| {
            [&[0xff, 3], ppp, ip].concat()
        }),
        make("ppp, labelled", 9, &|ip, _, _| {
            [&[0xff, 3, 2, 0x81], &mpls(1, ip)[..]].concat()
        }),
        make("serial ppp", 50, &|ip, _, ppp| {
            [&[0xff, 3], ppp, ip].concat()
        }),
        make("serial hdlc", 50, &|ip, kind, _| {
            [&[0x0f, 0], &kind.to_be_bytes()[..], ip].concat()
        }),
        make("pppoe alone", 51, &|ip, _, ppp| {
            pppoe(0, &[ppp, ip].concat())
        }),
        make("cisco hdlc", 104, &|ip, kind, _| {
            [&[0x0f, 0], &kind.to_be_bytes()[..], ip].concat()
        }),
        make("ppp, sent", 204, &|ip, _, ppp| {
            [&[1, 0xff, 3], ppp, ip].concat()
        }),
        make("raw", 101, &|ip, _, _| ip.to_vec()),
        make("raw, one version", raw, &|ip, _, _| ip.to_vec()),
        make("cooked", 113, &|ip, kind, _| sll(0, kind, ip)),
        make("cooked, sent", 113, &|ip, kind, _| sll(4, kind, ip)),
        make("cooked, tagged", 113, &|ip, kind, _| {
            sll(0, VLAN, &tag(kind, ip))
        }),
        make("cooked, llc", 113, &|ip, kind, _| {
            sll(0, 4, &snap_alone(kind, ip))
        }),
        make("cooked v2", 276, &|ip, kind, _| sll2(0, kind, ip)),
        make("cooked v2, sent", 276, &|ip, kind, _| sll2(4, kind, ip)),
        make("cooked v2, llc", 276, &|ip, kind, _| {
            sll2(0, 4, &snap_alone(kind, ip))
        }),
    ]
}

/// Fragments, extension headers, and truncated frames.
fn fragments_and_truncated(ends: fn(u8) -> Ends) -> Vec<TestPacket> {
    let kind = kind(ends(0).0);
    let frame = |name, n, packet: Vec<u8>| plain(name, 1, ethernet(kind, &packet), ends(n));
    let mut snapped = frame("snapped", 60, ip(ends(60), UDP, &payload()));
    let head = snapped.data.len() - payload().len();
    snapped.data.truncate(head);
    let mut packets = vec![
        frame(
            "first fragment",
            61,
            fragment(ends(61), 0, true, UDP, &udp(53, &[0; 40])),
        ),
        frame(
            "later fragment",
            62,
            fragment(ends(62), 6, false, UDP, &[0; 40]),
        ),
        frame("no payload", 63, ip(ends(63), 59, &[])),
        snapped,
    ];
    if kind == IPV4 {
        let mut packet = ip(ends(66), UDP, &[0; 2]);
        packet[0] = 0x47; // 8 bytes of options, of which 2 were captured,
        packet[3] = 60; // and none of the payload
        packets.push(frame("cut off in options", 66, packet));
        let packet = ip(ends(67), UDP, &payload());
        packets.push(plain("llc", 1, llc([6, 6, 3], &packet), ends(67)));
        // Its bytes at the offset of the ethertype look like IPv4.
        let misleading = (Ipv4Addr::new(8, 0, 0x45, 0).into(), ends(68).1);
        let packet = ip(misleading, UDP, &payload());
        packets.push(plain("raw, like ethernet", 101, packet, misleading));
    }
    if kind == IPV6 {
        let packet = ip(ends(64), OPTIONS, &options(UDP, &payload()));
        packets.push(frame("extension header", 64, packet));
        let packet = ip(ends(65), OPTIONS, &options(OPTIONS, &[]));
        packets.push(frame("extension header cut off", 65, packet));
    }
    packets
}

/// A packet within a packet, in every kind of tunnel.
pub fn tunnels(outer: fn(u8) -> Ends, inner: fn(u8) -> Ends) -> Vec<TestPacket> {
    let mut n = if inner(0).0.is_ipv4() { 100 } else { 130 };
    let number = inside_ip(inner(0).0);
    let kind_inside = kind(inner(0).0);
    let mut make = |name, wrap: &dyn Fn(Ends, &[u8]) -> Vec<u8>| {
        n += 1;
        let packet = wrap(outer(n), &ip(inner(n + 80), UDP, &payload()));
        TestPacket {
            name,
            link: 1,
            data: ethernet(kind(outer(n).0), &packet),
            outer: Ok(outer(n)),
            inner: Ok(inner(n + 80)),
        }
    };
    let in_gre = |flags, kind, ends, payload: &[u8]| ip(ends, GRE, &gre(flags, kind, payload));
    let frame = |packet: &[u8]| ethernet(kind_inside, packet);
    let tagged = |packet: &[u8]| ethernet(VLAN, &tag(kind_inside, packet));
    let mut packets = vec![
        make("ip in ip", &|ends, packet| ip(ends, number, packet)),
        make("gre", &|ends, packet| in_gre(0, kind_inside, ends, packet)),
        make("gre, checksum", &|ends, packet| {
            in_gre(CHECKSUM, kind_inside, ends, packet)
        }),
        make("gre, key", &|ends, packet| {
            in_gre(KEY, kind_inside, ends, packet)
        }),
        make("gre, all fields", &|ends, packet| {
            in_gre(CHECKSUM | KEY | SEQUENCE, kind_inside, ends, packet)
        }),
        make("gre, mpls", &|ends, packet| {
            in_gre(0, MPLS, ends, &mpls(2, packet))
        }),
        make("gre, ethernet", &|ends, packet| {
            in_gre(SEQUENCE, ETHERNET, ends, &frame(packet))
        }),
        make("gre, tagged ethernet", &|ends, packet| {
            in_gre(0, ETHERNET, ends, &tagged(packet))
        }),
        make("vxlan", &|ends, packet| {
            ip(ends, UDP, &vxlan(4789, &frame(packet)))
        }),
        make("vxlan, tagged", &|ends, packet| {
            ip(ends, UDP, &vxlan(4789, &tagged(packet)))
        }),
        make("vxlan, old port", &|ends, packet| {
            ip(ends, UDP, &vxlan(8472, &frame(packet)))
        }),
        make("gre in ip", &|ends, packet| {
            let gre = in_gre(0, kind_inside, v4(99), packet);
            ip(ends, IP_IN_IP, &gre)
        }),
        make("ip in vxlan in gre", &|ends, packet| {
            let frame = ethernet(IPV6, &ip(v6(99), number, packet));
            in_gre(0, IPV4, ends, &ip(v4(99), UDP, &vxlan(4789, &frame)))
        }),
        make("first fragment of a tunnel", &|ends, packet| {
            fragment(ends, 0, true, number, packet)
        }),
    ];
    if outer(0).0.is_ipv6() {
        packets.push(make(
            "tunnel behind an extension header",
            &|ends, packet| ip(ends, OPTIONS, &options(number, packet)),
        ));
    }
    packets
}

/// Tunnels whose content cannot be decoded, so that the outer packet is counted.
fn undecodable_tunnels(ends: fn(u8) -> Ends) -> Vec<TestPacket> {
    let frame = |name, n, protocol, payload: &[u8]| {
        let packet = ip(ends(n), protocol, payload);
        plain(name, 1, ethernet(kind(ends(n).0), &packet), ends(n))
    };
    let inner = ip(v4(99), UDP, &payload());
    let later = fragment(ends(80), 6, false, IP_IN_IP, &inner);
    vec![
        plain(
            "later fragment of a tunnel",
            1,
            ethernet(kind(ends(80).0), &later),
            ends(80),
        ),
        frame("tunnel cut off", 81, IP_IN_IP, &inner[..19]),
        frame("gre cut off", 82, GRE, &gre(KEY, IPV4, &[])[..6]),
        frame("gre of nothing", 83, GRE, &gre(0, IPV4, &[])),
        frame("gre, arp", 84, GRE, &gre(0, ARP, &[0; 28])),
        frame("gre, keepalive", 85, GRE, &gre(0, 0, &[])),
        frame(
            "gre, pseudo-wire",
            86,
            GRE,
            &gre(0, MPLS, &mpls(1, &[0; 60])),
        ),
        frame(
            "vxlan, arp",
            87,
            UDP,
            &vxlan(4789, &ethernet(ARP, &[0; 28])),
        ),
        frame("vxlan cut off", 88, UDP, &vxlan(4789, &[])[..12]),
        frame("udp cut off", 89, UDP, &udp(4789, &[])[..7]),
    ]
}

/// Packets that are ignored.
pub fn junk() -> Vec<TestPacket> {
    let junk = |name, reason, link, data: Vec<u8>| TestPacket {
        name,
        link,
        data,
        outer: Err(reason),
        inner: Err(reason),
    };
    let packet = ip(v4(0), UDP, &payload());
    let bpdu = llc([0x42, 0x42, 3], &[0; 35]);
    vec![
        junk("arp", "not_ip", 1, ethernet(ARP, &[0; 46])),
        junk(
            "tagged arp",
            "not_ip",
            1,
            ethernet(VLAN, &tag(ARP, &[0; 46])),
        ),
        junk("lldp", "not_ip", 1, ethernet(0x88cc, &[0; 46])),
        junk("spanning tree", "not_ip", 1, bpdu),
        junk(
            "snap, foreign",
            "not_ip",
            1,
            llc([0xaa, 0xaa, 3], &[0, 0, 0x0c, 0x20, 0, 1, 2]),
        ),
        junk(
            "pppoe discovery",
            "not_ip",
            1,
            ethernet(PPPOE_DISCOVERY, &pppoe(9, &[1, 1, 0, 0])),
        ),
        junk(
            "pppoe, lcp",
            "not_ip",
            1,
            ethernet(
                PPPOE_SESSION,
                &pppoe(0, &[0xc0, 0x21, 9, 1, 0, 8, 1, 2, 3, 4]),
            ),
        ),
        junk(
            "pseudo-wire",
            "not_ip",
            1,
            ethernet(MPLS, &mpls(1, &[0; 60])),
        ),
        junk(
            "cut off in ethernet",
            "truncated",
            1,
            ethernet(IPV4, &packet)[..13].to_vec(),
        ),
        junk(
            "cut off in a tag",
            "truncated",
            1,
            ethernet(VLAN, &[0, 1, 8]),
        ),
        junk(
            "cut off in labels",
            "truncated",
            1,
            ethernet(MPLS, &mpls(2, &[])[..6]),
        ),
        junk(
            "cut off in ip",
            "truncated",
            1,
            ethernet(IPV4, &packet[..19]),
        ),
        junk(
            "cut off in ipv6",
            "truncated",
            1,
            ethernet(IPV6, &ip(v6(0), UDP, &[])[..39]),
        ),
        junk(
            "header of 4 bytes",
            "malformed",
            1,
            ethernet(IPV4, &[&[0x41], &packet[1..]].concat()),
        ),
        junk(
            "null, not ip",
            "not_ip",
            0,
            [&[7, 0, 0, 0], &[0; 40][..]].concat(),
        ),
        junk(
            "loop, not ip",
            "not_ip",
            108,
            [&[0, 0, 0, 7], &[0; 40][..]].concat(),
        ),
        junk(
            "ppp, lcp",
            "not_ip",
            9,
            vec![0xff, 3, 0xc0, 0x21, 9, 1, 0, 8, 1, 2, 3, 4],
        ),
        junk("discovery alone", "not_ip", 51, pppoe(9, &[1, 1, 0, 0])),
        junk("raw, not ip", "not_ip", 101, vec![0; 40]),
        junk("cooked arp", "not_ip", 113, sll(1, ARP, &[0; 28])),
        junk("cooked, raw 802.3", "not_ip", 113, sll(0, 1, &[0xff; 40])),
        junk("cooked v2, arp", "not_ip", 276, sll2(1, ARP, &[0; 28])),
        junk(
            "cooked v2, cut off",
            "truncated",
            276,
            sll2(0, IPV4, &[])[..19].to_vec(),
        ),
        junk("wireless", "unsupported_link", 105, vec![8; 60]),
    ]
}
