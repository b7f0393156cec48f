//! Builds headers for tests of decoding.

use std::net::IpAddr;

/// Source and destination.
pub type Ends = (IpAddr, IpAddr);

pub const IPV4: u16 = 0x0800;
pub const IPV6: u16 = 0x86dd;
pub const ARP: u16 = 0x0806;
pub const VLAN: u16 = 0x8100;
pub const QINQ: u16 = 0x88a8;
pub const MPLS: u16 = 0x8847;
pub const PPPOE_DISCOVERY: u16 = 0x8863;
pub const PPPOE_SESSION: u16 = 0x8864;
pub const ETHERNET: u16 = 0x6558;

pub const IP_IN_IP: u8 = 4;
pub const UDP: u8 = 17;
pub const IPV6_IN_IP: u8 = 41;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const GRE: u8 = 47;
pub const AUTHENTICATION: u8 = 51;
pub const OPTIONS: u8 = 60;

/// GRE's optional fields.
pub const CHECKSUM: u8 = 0x80;
pub const KEY: u8 = 0x20;
pub const SEQUENCE: u8 = 0x10;

/// The ethertype of packets with this address.
pub fn kind(address: IpAddr) -> u16 {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// The protocol number of packets with this address inside another IP packet.
pub fn inside_ip(address: IpAddr) -> u8 {
    if address.is_ipv4() {
        IP_IN_IP
    } else {
        IPV6_IN_IP
    }
}

pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    [&macs, &kind.to_be_bytes()[..], payload].concat()
}

/// Ethernet with a length instead of an ethertype, and LLC.
pub fn llc(header: [u8; 3], payload: &[u8]) -> Vec<u8> {
    ethernet(
        (header.len() + payload.len()) as u16,
        &[&header, payload].concat(),
    )
}

pub fn snap(kind: u16, payload: &[u8]) -> Vec<u8> {
    llc(
        [0xaa, 0xaa, 3],
        &[&[0, 0, 0], &kind.to_be_bytes()[..], payload].concat(),
    )
}

/// The tag after an ethertype VLAN or QINQ.
pub fn tag(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[0x20, 5], &kind.to_be_bytes()[..], payload].concat()
}

pub fn mpls(labels: u8, payload: &[u8]) -> Vec<u8> {
    let label = |n| [0, 1, 0x20 + u8::from(n + 1 == labels), 64];
    let stack: Vec<u8> = (0..labels).flat_map(label).collect();
    [&stack, payload].concat()
}

pub fn pppoe(code: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    [&[0x11, code, 0, 9], &length[..], payload].concat()
}

/// The PPP protocol of packets with this address.
pub fn ppp(address: IpAddr) -> [u8; 2] {
    if address.is_ipv4() {
        [0, 0x21]
    } else {
        [0, 0x57]
    }
}

pub fn sll(packet_type: u8, kind: u16, payload: &[u8]) -> Vec<u8> {
    let head = [0, packet_type, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    [&head, &kind.to_be_bytes()[..], payload].concat()
}

pub fn sll2(packet_type: u8, kind: u16, payload: &[u8]) -> Vec<u8> {
    let interface = [0, 0, 0, 0, 0, 3, 0, 1];
    let sender = [6, 2, 0, 0, 0, 0, 1, 0, 0];
    let kind = kind.to_be_bytes();
    [&kind[..], &interface, &[packet_type], &sender, payload].concat()
}

/// An IPv4 or IPv6 packet, depending on its addresses.
pub fn ip((src, dst): Ends, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let total = (20 + length).to_be_bytes();
            let head = [0x45, 0, total[0], total[1], 0, 7, 0, 0, 64, protocol, 0, 0];
            [&head, &src.octets()[..], &dst.octets(), payload].concat()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let length = length.to_be_bytes();
            let head = [0x60, 0, 0, 0, length[0], length[1], protocol, 64];
            [&head, &src.octets()[..], &dst.octets(), payload].concat()
        }
        _ => panic!("both addresses must have the same IP version"),
    }
}

/// A fragment; `offset` in units of 8 bytes.
pub fn fragment(ends: Ends, offset: u16, more: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    if ends.0.is_ipv4() {
        let mut packet = ip(ends, protocol, payload);
        let field = offset | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        return packet;
    }
    let field = (offset << 3 | u16::from(more)).to_be_bytes();
    let header = [protocol, 0, field[0], field[1], 0, 0, 0, 7];
    ip(ends, FRAGMENT, &[&header, payload].concat())
}

/// An IPv6 destination options header without options, followed by `next`.
pub fn options(next: u8, payload: &[u8]) -> Vec<u8> {
    [&[next, 0, 1, 4, 0, 0, 0, 0], payload].concat()
}

pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len() as u16).to_be_bytes();
    let ports = [0xc0, 0, port.to_be_bytes()[0], port.to_be_bytes()[1]];
    [&ports[..], &length, &[0, 0], payload].concat()
}

pub fn gre(flags: u8, kind: u16, payload: &[u8]) -> Vec<u8> {
    let optional = vec![0; 4 * flags.count_ones() as usize];
    [&[flags, 0], &kind.to_be_bytes()[..], &optional, payload].concat()
}

/// VXLAN in UDP.
pub fn vxlan(port: u16, frame: &[u8]) -> Vec<u8> {
    udp(port, &[&[8, 0, 0, 0, 0, 0, 9, 0], frame].concat())
}
