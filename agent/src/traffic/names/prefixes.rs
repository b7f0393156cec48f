//! Collects prefixes and their names.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use prefix_trie::PrefixMap;

use super::ranges::Ranges;
use super::{MAX_NAMES, Names, OTHER};

/// Parses a prefix like 10.1.0.0/16, or a single address.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    let net = match text.contains('/') {
        true => text.parse::<IpNet>().ok(),
        false => text.parse::<IpAddr>().ok().map(IpNet::from),
    };
    let net = net.ok_or_else(|| {
        format!("{text:?} is not a prefix: write it like 10.1.0.0/16 or 2001:db8::/32")
    })?;
    if net.addr() != net.network() {
        let network = net.trunc();
        return Err(format!(
            "{text:?} has host bits set: the network is {network}"
        ));
    }
    Ok(net)
}

pub struct Prefixes {
    v4: PrefixMap<(u32, u8), Given>,
    v6: PrefixMap<(u128, u8), Given>,
    /// By number. The first is [`OTHER`].
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u8>,
    limit: usize,
    /// Hashes of names beyond the limit.
    too_many: HashSet<u64>,
}

/// Number of a name, and where it was given, in the numbering of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    pub name: u8,
    place: u32,
}

/// The same prefix already has another name.
#[derive(Debug, PartialEq, Eq)]
pub struct Clash {
    pub name: Arc<str>,
    /// Where the other name was given, in the numbering of the caller.
    pub place: u32,
}

impl Prefixes {
    /// No prefixes yet. At most `limit` names are stored, besides [`OTHER`].
    pub fn new(limit: usize) -> Self {
        let other: Arc<str> = OTHER.into();
        Self {
            v4: PrefixMap::new(),
            v6: PrefixMap::new(),
            names: vec![Arc::clone(&other)],
            numbers: HashMap::from([(other, 0)]),
            limit: limit.min(MAX_NAMES),
            too_many: HashSet::new(),
        }
    }

    /// Gives a prefix a name. A name beyond the limit is only counted.
    pub fn add(&mut self, prefix: IpNet, name: &str, place: u32) -> Result<(), Clash> {
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

    /// Gives a prefix a name, unless a prefix that contains it already has one.
    pub fn add_unless_named(&mut self, prefix: IpNet, name: &str, place: u32) {
        let is_named = match prefix {
            IpNet::V4(net) => {
                let key = (net.network().to_bits(), net.prefix_len());
                self.v4.get_lpm(&key).is_some()
            }
            IpNet::V6(net) => {
                let key = (net.network().to_bits(), net.prefix_len());
                self.v6.get_lpm(&key).is_some()
            }
        };
        if !is_named {
            // This cannot fail, because the prefix has no name yet.
            let _ = self.add(prefix, name, place);
        }
    }

    /// Returns the number of a name, which is added if necessary. `None` if the limit is
    /// reached.
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

    /// Returns the number of distinct names without [`OTHER`], including those beyond the
    /// limit.
    pub fn distinct(&self) -> usize {
        self.names.len() - 1 + self.too_many.len()
    }

    /// Builds the lookup structures.
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
