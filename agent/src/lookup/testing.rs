//! Writes files in the MaxMind DB format, for tests.
#![allow(dead_code, clippy::unwrap_used)]

use std::net::IpAddr;

use ipnet::IpNet;

/// A value of a record.
pub enum Value {
    Text(&'static str),
    Short(u16),
    Number(u32),
    Long(u64),
    Map(Vec<(&'static str, Value)>),
    List(Vec<Value>),
}

/// How a file is laid out.
#[derive(Clone, Copy)]
pub struct Layout {
    pub kind: &'static str,
    /// 24, 28 or 32 bits.
    pub record_size: u16,
    /// 4 or 6.
    pub ip_version: u16,
}

#[derive(Clone, Copy)]
enum Child {
    None,
    Node(usize),
    /// Offset of a record.
    Data(usize),
}

/// A record of GeoLite2-ASN.
pub fn geolite_asn(asn: u32, name: &'static str) -> Value {
    Value::Map(vec![
        ("autonomous_system_number", Value::Number(asn)),
        ("autonomous_system_organization", Value::Text(name)),
    ])
}

/// A record of GeoLite2-Country.
pub fn geolite_country(code: &'static str) -> Value {
    let names = Value::Map(vec![("en", Value::Text("a country"))]);
    let country = vec![
        ("geoname_id", Value::Number(7)),
        ("iso_code", Value::Text(code)),
        ("names", names),
    ];
    let continent = vec![("code", Value::Text("EU"))];
    Value::Map(vec![
        ("continent", Value::Map(continent)),
        ("country", Value::Map(country)),
    ])
}

/// A record of IPinfo.
pub fn ipinfo(asn: &'static str, name: &'static str, code: &'static str) -> Value {
    Value::Map(vec![
        ("asn", Value::Text(asn)),
        ("as_name", Value::Text(name)),
        ("as_domain", Value::Text("example.org")),
        ("country", Value::Text("a country")),
        ("country_code", Value::Text(code)),
    ])
}

/// The bytes of a file with these networks, none of which contains another. In an IPv6
/// file IPv4 networks are below ::/96, and ::ffff:0:0/96 repeats them.
pub fn database(layout: Layout, networks: &[(&str, Value)]) -> Vec<u8> {
    let is_v6 = layout.ip_version == 6;
    let (mut nodes, mut data) = (vec![[Child::None; 2]], Vec::new());
    for (network, value) in networks {
        let offset = data.len();
        encode(value, &mut data);
        let (bits, length) = bits(network.parse().unwrap(), is_v6);
        insert(&mut nodes, bits, length, Child::Data(offset));
    }
    if is_v6 {
        let mut at = Child::Node(0);
        for _ in 0..96 {
            at = match at {
                Child::Node(node) => nodes[node][0],
                other => other,
            };
        }
        if matches!(at, Child::Node(_)) {
            insert(&mut nodes, 0xffff << 32, 96, at);
        }
    }
    let count = nodes.len();
    let mut file = Vec::new();
    for [left, right] in nodes {
        let number = |child| match child {
            Child::None => count as u32,
            Child::Node(node) => node as u32,
            Child::Data(offset) => (count + 16 + offset) as u32,
        };
        let [left, right] = [left, right].map(|child| number(child).to_be_bytes());
        match layout.record_size {
            24 => file.extend([&left[1..], &right[1..]].concat()),
            28 => {
                let middle = left[0] << 4 | right[0];
                file.extend([&left[1..], &[middle], &right[1..]].concat());
            }
            _ => file.extend([left, right].concat()),
        }
    }
    file.extend([0; 16]);
    file.extend(data);
    file.extend(b"\xab\xcd\xefMaxMind.com");
    let metadata = Value::Map(vec![
        ("binary_format_major_version", Value::Short(2)),
        ("binary_format_minor_version", Value::Short(0)),
        ("build_epoch", Value::Long(1_700_000_000)),
        ("database_type", Value::Text(layout.kind)),
        ("description", Value::Map(vec![("en", Value::Text("test"))])),
        ("ip_version", Value::Short(layout.ip_version)),
        ("languages", Value::List(vec![Value::Text("en")])),
        ("node_count", Value::Number(count as u32)),
        ("record_size", Value::Short(layout.record_size)),
    ]);
    encode(&metadata, &mut file);
    file
}

/// Returns the bits of a network on its path through the tree, aligned to the left, and their
/// number.
fn bits(network: IpNet, is_v6: bool) -> (u128, u32) {
    let length = u32::from(network.prefix_len());
    match (network.addr(), is_v6) {
        (IpAddr::V4(address), true) => (u128::from(address.to_bits()), 96 + length),
        (IpAddr::V4(address), false) => (u128::from(address.to_bits()) << 96, length),
        (IpAddr::V6(address), _) => (address.to_bits(), length),
    }
}

fn insert(nodes: &mut Vec<[Child; 2]>, bits: u128, length: u32, child: Child) {
    let mut node = 0;
    for depth in 0..length {
        let bit = (bits >> (127 - depth) & 1) as usize;
        if depth + 1 == length {
            nodes[node][bit] = child;
            return;
        }
        node = match nodes[node][bit] {
            Child::Node(next) => next,
            _ => {
                nodes.push([Child::None; 2]);
                let next = nodes.len() - 1;
                nodes[node][bit] = Child::Node(next);
                next
            }
        };
    }
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    let head = |kind: u8, size: usize, out: &mut Vec<u8>| {
        let (first, more) = match size {
            0..29 => (size as u8, None),
            _ => (29, Some((size - 29) as u8)),
        };
        match kind {
            0..8 => out.push(kind << 5 | first),
            _ => out.extend([first, kind - 7]),
        }
        out.extend(more);
    };
    match value {
        Value::Text(text) => {
            head(2, text.len(), out);
            out.extend(text.as_bytes());
        }
        Value::Short(number) => {
            head(5, 2, out);
            out.extend(number.to_be_bytes());
        }
        Value::Number(number) => {
            head(6, 4, out);
            out.extend(number.to_be_bytes());
        }
        Value::Long(number) => {
            head(9, 8, out);
            out.extend(number.to_be_bytes());
        }
        Value::Map(entries) => {
            head(7, entries.len(), out);
            for (key, value) in entries {
                encode(&Value::Text(key), out);
                encode(value, out);
            }
        }
        Value::List(values) => {
            head(11, values.len(), out);
            values.iter().for_each(|value| encode(value, out));
        }
    }
}
