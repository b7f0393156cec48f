//! Prefixes with names while they are collected.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use prefix_trie::PrefixMap;

use super::ranges::Ranges;
use super::{MOST_NAMES, Names, OTHER};

/// A prefix like 10.1.0.0/16; an address alone is a network, too.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    let net = match text.contains('/') {
        true => text.parse::<IpNet>().ok(),
        false => text.parse::<IpAddr>().ok().map(IpNet::from),
    };
    let net = net.ok_or_else(|| {
        format!("{text:?} is no prefix: write it like 10.1.0.0/16 or 2001:db8::/32")
    })?;
    if net.addr() != net.network() {
        let meant = net.trunc();
        return Err(format!(
            "{text:?} has bits behind its prefix: the network is {meant}"
        ));
    }
    Ok(net)
}

/// Prefixes and their names.
pub struct Prefixes {
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
pub struct Given {
    pub name: u8,
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

impl Prefixes {
    /// None yet, and room for so many names beside [`OTHER`].
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

    /// Ready for lookups.
    pub fn finish(self) -> Names {
        let block = |((first, length), given): ((u32, u8), &Given)| {
            let hosts = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            (first, first | hosts, given.name)
        };
        Names {
            v4: Ranges::new(self.v4.iter().map(block)),
            v6: self.v6,
            names: self.names,
        }
    }
}
