//! Names of networks: an address has the name of the longest prefix that holds
//! it, and is [`OTHER`] where there is none.
//!
//! Addresses are taken as they stand in packets: `::ffff:10.0.0.0/104` holds
//! IPv6 addresses, and none of 10.0.0.0/8. A lookup is a walk through a tree
//! bitmap, five bits at a step.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use prefix_trie::PrefixMap;
use serde::{Deserialize, Serialize};

/// What is in no network with a name. A prefix may have it, too: that part of
/// a larger network is as if it had no name.
pub const OTHER: &str = "other";
/// So many names fit, beside [`OTHER`].
pub const MOST_NAMES: usize = u8::MAX as usize;

/// Prefixes and their names.
pub struct Names {
    v4: PrefixMap<(u32, u8), Given>,
    v6: PrefixMap<(u128, u8), Given>,
    /// By their numbers; the first is [`OTHER`].
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u8>,
    limit: usize,
    /// Hashes of names that there is no room for.
    too_many: HashSet<u64>,
}

/// A name by its number, and where it was given, in the words of whoever did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Given {
    name: u8,
    place: u32,
}

/// The same prefix was given another name before.
#[derive(Debug, PartialEq, Eq)]
pub struct Clash {
    /// That name.
    pub name: Arc<str>,
    /// And where it was given.
    pub place: u32,
}

/// What was sent from one network to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Name of the network it was sent from.
    pub src: Arc<str>,
    /// Name of the network it was sent to.
    pub dst: Arc<str>,
    /// Packets, scaled if sampled.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Names of the networks of a pair, if any are configured.
#[derive(Debug, Serialize, Deserialize)]
pub struct PairNames {
    /// Of who sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src_name: Option<String>,
    /// Of who receives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_name: Option<String>,
}

impl Names {
    /// No prefixes yet, and room for so many names beside [`OTHER`].
    pub fn new(limit: usize) -> Self {
        let other: Arc<str> = OTHER.into();
        Self {
            v4: PrefixMap::new(),
            v6: PrefixMap::new(),
            names: vec![Arc::clone(&other)],
            numbers: HashMap::from([(other, 0)]),
            limit: limit.min(MOST_NAMES),
            too_many: HashSet::new(),
        }
    }

    /// Gives a prefix a name. A name that there is no room for is only counted.
    pub fn give(&mut self, prefix: IpNet, name: &str, place: u32) -> Result<(), Clash> {
        let Some(name) = self.number(name) else {
            return Ok(());
        };
        let given = Given { name, place };
        let before = match prefix {
            IpNet::V4(net) => {
                let key = (net.network().to_bits(), net.prefix_len());
                *self.v4.entry(key).or_insert(given)
            }
            IpNet::V6(net) => {
                let key = (net.network().to_bits(), net.prefix_len());
                *self.v6.entry(key).or_insert(given)
            }
        };
        if before.name == name {
            return Ok(());
        }
        Err(Clash {
            name: Arc::clone(&self.names[usize::from(before.name)]),
            place: before.place,
        })
    }

    /// The number of a name, a new one if need be; none if there is no room.
    fn number(&mut self, name: &str) -> Option<u8> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        if self.names.len() > self.limit {
            self.too_many.insert(self.numbers.hasher().hash_one(name));
            return None;
        }
        let (number, name) = (self.names.len() as u8, Arc::<str>::from(name));
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        Some(number)
    }

    /// Whether no prefix has a name.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// How many names were given, [`OTHER`] not among them; more than there is
    /// room for if they do not fit.
    pub fn distinct(&self) -> usize {
        self.names.len() - 1 + self.too_many.len()
    }

    /// How many numbers there are.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The name with this number.
    pub fn name(&self, number: usize) -> &Arc<str> {
        &self.names[number]
    }

    /// The number of the name of an address.
    pub fn number_of(&self, address: IpAddr) -> u8 {
        let given = match address {
            IpAddr::V4(address) => self.v4.get_lpm(&(address.to_bits(), 32)).map(|(_, it)| it),
            IpAddr::V6(address) => self.v6.get_lpm(&(address.to_bits(), 128)).map(|(_, it)| it),
        };
        given.map_or(0, |given| given.name)
    }

    /// The name of an address.
    pub fn of(&self, address: IpAddr) -> &str {
        &self.names[usize::from(self.number_of(address))]
    }
}

impl PairNames {
    /// The names of two addresses.
    pub fn of(names: Option<&Names>, src: IpAddr, dst: IpAddr) -> Self {
        Self {
            src_name: name_of(names, src),
            dst_name: name_of(names, dst),
        }
    }

    /// Both addresses for people.
    pub fn show(&self, src: IpAddr, dst: IpAddr) -> [String; 2] {
        let (from, to) = (self.src_name.as_deref(), self.dst_name.as_deref());
        [show(src, from), show(dst, to)]
    }
}

/// The name of an address, if there are any names at all.
pub fn name_of(names: Option<&Names>, address: IpAddr) -> Option<String> {
    names.map(|names| names.of(address).to_owned())
}

/// An address for people, with its name if it has one.
pub fn show(address: IpAddr, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{address} ({})", crate::plain::text(name)),
        None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(given: &[(&str, &str)]) -> Names {
        let mut names = Names::new(64);
        for (prefix, name) in given {
            names.give(prefix.parse().unwrap(), name, 0).unwrap();
        }
        names
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
            // As on the wire: neither is the other.
            ("::ffff:10.1.2.3", "mapped"),
            ("::ffff:11.1.2.3", "other"),
        ] {
            assert_eq!(names.of(address.parse().unwrap()), name, "{address}");
        }
        assert_eq!(names.distinct(), 5);
        let all = self::names(&[("0.0.0.0/0", "v4"), ("::/0", "v6")]);
        assert_eq!(all.of([255, 255, 255, 255].into()), "v4");
        assert_eq!(all.of(IpAddr::from([255; 16])), "v6");
    }

    #[test]
    fn a_prefix_has_one_name() {
        let mut names = Names::new(64);
        let prefix: IpNet = "10.0.0.0/8".parse().unwrap();
        assert_eq!(names.give(prefix, "office", 3), Ok(()));
        assert_eq!(names.give(prefix, "office", 4), Ok(()), "nothing new");
        let clash = names.give(prefix, "lab", 5).unwrap_err();
        assert_eq!((&*clash.name, clash.place), ("office", 3));
    }

    #[test]
    fn names_without_room_are_counted() {
        let mut names = Names::new(2);
        for n in 0..100u8 {
            let prefix = IpNet::from(IpAddr::from([10, 0, 0, n]));
            names.give(prefix, &format!("n{}", n % 7), 0).unwrap();
        }
        assert_eq!((names.count(), names.distinct()), (3, 7));
    }
}
