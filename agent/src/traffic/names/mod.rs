//! Names of networks. An address has the name of the longest prefix that contains it, or
//! [`OTHER`] if there is none.
//!
//! Addresses are used as they are in packets: `::ffff:10.0.0.0/104` contains IPv6 addresses
//! and none of 10.0.0.0/8. [`Prefixes`] are collected and sorted; addresses are looked up in
//! [`ranges`], which are built from them.

mod address;
mod prefixes;
mod ranges;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use prefixes::{Prefixes, prefix};
use ranges::Ranges;

use crate::text::plain;

/// Name of addresses without a named network. A prefix may have this name, too, which
/// excludes it from a larger network.
pub const OTHER: &str = "other";
/// Most names, besides [`OTHER`].
pub const MAX_NAMES: usize = u8::MAX as usize;

/// Names, ready for lookups.
#[derive(PartialEq)]
pub struct Names {
    v4: Ranges<u32>,
    v6: Ranges<u128>,
    /// By number. The first is [`OTHER`].
    names: Vec<Arc<str>>,
}

/// Traffic from one network to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub src: Arc<str>,
    pub dst: Arc<str>,
    /// Scaled if sampled.
    pub packets: u64,
    pub bytes: u64,
}

/// Names of the networks of a pair. `None` if no names are configured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairNames {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_name: Option<String>,
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // There are too many prefixes to print.
        f.debug_tuple("Names").field(&self.names).finish()
    }
}

impl Names {
    /// Number of names, including [`OTHER`].
    pub fn count(&self) -> usize {
        self.names.len()
    }

    pub fn name(&self, number: usize) -> &Arc<str> {
        &self.names[number]
    }

    /// Returns the number of a name, or `None` if no network has it.
    pub fn number(&self, name: &str) -> Option<u8> {
        let number = self.names.iter().position(|known| **known == *name)?;
        u8::try_from(number).ok()
    }

    /// Returns all names as text, [`OTHER`] last.
    pub fn list(&self) -> String {
        let (other, given) = self.names.split_at(1);
        let names = given.iter().chain(other);
        let names: Vec<_> = names.map(|name| plain::text(name)).collect();
        names.join(", ")
    }

    /// Returns the number of an address's name.
    #[inline]
    pub fn number_of(&self, address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(address) => self.v4.name(address.to_bits()),
            IpAddr::V6(address) => self.v6.name(address.to_bits()),
        }
    }

    pub fn of(&self, address: IpAddr) -> &str {
        &self.names[usize::from(self.number_of(address))]
    }
}

impl PairNames {
    pub fn of(names: Option<&Names>, src: IpAddr, dst: IpAddr) -> Self {
        Self {
            src_name: name_of(names, src),
            dst_name: name_of(names, dst),
        }
    }

    pub fn reversed(&self) -> Self {
        Self {
            src_name: self.dst_name.clone(),
            dst_name: self.src_name.clone(),
        }
    }

    /// Formats both addresses with their names.
    pub fn show(&self, src: IpAddr, dst: IpAddr) -> [String; 2] {
        let (from, to) = (self.src_name.as_deref(), self.dst_name.as_deref());
        [show(src, from), show(dst, to)]
    }
}

/// Returns the name of an address, or `None` if no names are configured.
pub fn name_of(names: Option<&Names>, address: IpAddr) -> Option<String> {
    names.map(|names| names.of(address).to_owned())
}

/// Formats an address with its name, if it has one.
pub fn show(address: impl fmt::Display, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{address} ({})", plain::text(name)),
        None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::{IpNet, Ipv4Net, Ipv6Net};

    fn names(given: &[(&str, &str)]) -> Names {
        let mut prefixes = Prefixes::new(64);
        for (prefix, name) in given {
            prefixes.add(prefix.parse().unwrap(), name, 0);
        }
        prefixes.finish()
    }

    #[test]
    fn the_longest_prefix_wins() {
        let names = names(&[
            ("10.1.2.0/24", "lab"),
            ("10.0.0.0/8", "office"),
            ("10.1.0.0/16", "floor"),
            ("10.1.9.0/24", OTHER),
            ("10.1.2.3/32", "printer"),
            ("2001:db8::/32", "office"),
            ("2001:db8:0:1::/64", "lab"),
            ("::ffff:10.0.0.0/104", "mapped"),
        ]);
        for (address, name) in [
            ("10.1.2.3", "printer"),
            ("10.1.2.4", "lab"),
            ("10.1.3.1", "floor"),
            ("10.2.0.0", "office"),
            ("10.255.255.255", "office"),
            ("10.1.9.1", "other"),
            ("11.0.0.0", "other"),
            ("0.0.0.0", "other"),
            ("2001:db8:0:1::7", "lab"),
            ("2001:db8:0:2::7", "office"),
            ("2001:db9::", "other"),
            // As on the wire: an IPv4-mapped address is not IPv4.
            ("::ffff:10.1.2.3", "mapped"),
            ("::ffff:11.1.2.3", "other"),
        ] {
            assert_eq!(names.of(address.parse().unwrap()), name, "{address}");
        }
        assert_eq!(names.count(), 6);
        let all = self::names(&[("0.0.0.0/0", "v4"), ("::/0", "v6")]);
        assert_eq!(all.of([255, 255, 255, 255].into()), "v4");
        assert_eq!(all.of(IpAddr::from([255; 16])), "v6");
    }

    /// Prefixes of all lengths close together, and every boundary of each.
    #[test]
    fn a_lookup_finds_what_a_search_through_all_finds() {
        let mut state = 1u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let (mut prefixes, mut list, mut addresses) = (Prefixes::new(64), Vec::new(), Vec::new());
        for _ in 0..400 {
            // Around one boundary of the first 16 bits, and at both ends.
            let base = [0, 0x0a00_fe00, 0xffff_fe00][next() as usize % 3] + next() as u32 % 512;
            let length = if next() % 8 == 0 { 0..33 } else { 20..33 };
            let length = length.start + next() as u8 % (length.end - length.start);
            let v4 = Ipv4Net::new(base.into(), length).unwrap().trunc();
            let wide = u128::from(base) << 64;
            let v6 = Ipv6Net::new(wide.into(), 32 + length).unwrap().trunc();
            let name = format!("n{}", next() % 60);
            for prefix in [IpNet::V4(v4), IpNet::V6(v6)] {
                if list.iter().all(|(other, _)| *other != prefix) {
                    prefixes.add(prefix, &name, 0);
                    list.push((prefix, name.clone()));
                }
            }
            for border in [v4.network(), v4.broadcast()].map(u32::from) {
                let around = [border.wrapping_sub(1), border, border.wrapping_add(1)];
                addresses.extend(around.map(|bits| IpAddr::V4(bits.into())));
                let around = around.map(|bits| u128::from(bits) << 64);
                addresses.extend(around.map(|bits| IpAddr::V6(bits.into())));
            }
        }
        let names = prefixes.finish();
        for address in addresses {
            let holding = list.iter().filter(|(prefix, _)| prefix.contains(&address));
            let longest = holding.max_by_key(|(prefix, _)| prefix.prefix_len());
            let name = longest.map_or(OTHER, |(_, name)| name);
            assert_eq!(names.of(address), name, "{address}");
        }
    }
}
