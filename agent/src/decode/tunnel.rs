//! IP packets in tunnels: VXLAN, GRE and IP-in-IP.

use etherparse::{EtherType, UdpHeaderSlice, ip_number};

use super::link;
use super::network::Ip;

/// Most nested packets that are unpacked. Deeper nesting only occurs in attacks.
const MAX_DEPTH: usize = 8;
/// The port of VXLAN, and the one that Linux used before it was assigned.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];

/// Returns the innermost IP packet whose addresses can be read. If the content of a tunnel
/// cannot be decoded (truncated, a later fragment, no IP), the outer packet is returned.
pub fn innermost(outer: Ip<'_>) -> Ip<'_> {
    let mut packet = outer;
    for _ in 0..MAX_DEPTH {
        match inner_packet(packet) {
            Some(inner) if inner.pair().is_ok() => packet = inner,
            _ => break,
        }
    }
    packet
}

fn inner_packet(packet: Ip<'_>) -> Option<Ip<'_>> {
    match packet.payload()? {
        (ip_number::IPV4, payload) => Some(Ip::V4(payload)),
        (ip_number::IPV6, payload) => Some(Ip::V6(payload)),
        (ip_number::GRE, payload) => gre(payload),
        (ip_number::UDP, payload) => vxlan(payload),
        _ => None,
    }
}

/// GRE as in RFC 2784 and 2890. Version 1 (PPTP) and source routes (RFC 1701)
/// are not decapsulated.
fn gre(data: &[u8]) -> Option<Ip<'_>> {
    const CHECKSUM: u8 = 0x80;
    const ROUTING: u8 = 0x40;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;

    let ([flags, version, kind @ ..], rest) = data.split_first_chunk::<4>()?;
    if flags & ROUTING != 0 || version & 7 != 0 {
        return None;
    }
    let optional = (flags & (CHECKSUM | KEY | SEQUENCE)).count_ones() as usize;
    let kind = EtherType(u16::from_be_bytes(*kind));
    link::ethertype(kind, rest.get(4 * optional..)?).ok()
}

/// VXLAN, recognised by its port and the flag for a valid identifier.
fn vxlan(data: &[u8]) -> Option<Ip<'_>> {
    const VALID: u8 = 0x08;

    let udp = UdpHeaderSlice::from_slice(data).ok()?;
    if !VXLAN_PORTS.contains(&udp.destination_port()) {
        return None;
    }
    let (header, frame) = data[udp.slice().len()..].split_first_chunk::<8>()?;
    if header[0] & VALID == 0 {
        return None;
    }
    link::ethernet(frame).ok()
}
