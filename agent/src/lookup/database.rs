//! Databases of AS numbers and of countries, from files in the MaxMind DB format.
//!
//! A file is read completely when the configuration is read, and every record is decoded
//! then, so that a damaged file is noticed at once and not by a later query. Only ranges of
//! addresses ([`Ranges`]) and the different values are kept; the file may change or vanish
//! afterwards. Adjacent networks of the same value become one range.
//!
//! Of an IPv6 tree, the part that repeats the IPv4 addresses (`::ffff:0:0/96`, Teredo and
//! 6to4) is left out: such an address has no AS and no country.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maxminddb::{MaxMindDbError, Reader};

use super::ranges::Ranges;
use super::record::Record;

/// Most networks of a file. IPinfo's largest free file has about half as many.
const MAX_NETWORKS: usize = 1 << 23;
/// Most values of a file. There are 120,000 AS numbers in use.
const MAX_VALUES: usize = 1 << 20;
/// The IPv4 addresses of an IPv6 tree end here.
const V4_END: u128 = 1 << 32;
/// Prefixes of IPv6 that repeat the IPv4 addresses: first address and length.
const ALIASES: [(u128, u32); 3] = [(0xffff << 32, 96), (0x2001 << 112, 32), (0x2002 << 112, 16)];

/// The databases that are configured.
#[derive(Debug, Default, PartialEq)]
pub struct Databases {
    pub asns: Option<Asns>,
    pub countries: Option<Countries>,
}

impl Databases {
    /// Logs what was read, and how much memory it takes.
    pub fn log(&self) {
        if let Some(asns) = &self.asns {
            tracing::info!("lookup.asn: {}", asns.describe());
        }
        if let Some(countries) = &self.countries {
            tracing::info!("lookup.country: {}", countries.describe());
        }
    }
}

/// The AS of addresses.
#[derive(Debug, PartialEq)]
pub struct Asns {
    ranges: Ranges,
    /// Number and name, in the order of numbers.
    systems: Vec<(u32, Option<Arc<str>>)>,
    kind: String,
}

/// The country of addresses.
#[derive(Debug, PartialEq)]
pub struct Countries {
    ranges: Ranges,
    codes: Vec<Arc<str>>,
    kind: String,
}

impl Asns {
    /// Reads a file. The error says what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut names: HashMap<u32, Option<Arc<str>>> = HashMap::new();
        let read = read(bytes, "AS number", |record| {
            let asn = record.asn?;
            let name = names.entry(asn).or_default();
            if name.is_none() {
                *name = record.as_name.map(Arc::from);
            }
            Some(asn)
        })?;
        // Sorted by number for the binary search.
        let mut systems: Vec<_> = names.into_iter().collect();
        systems.sort_unstable_by_key(|(asn, _)| *asn);
        let place = |asn: &u32| systems.partition_point(|(other, _)| other < asn) as u32;
        let places: Vec<u32> = read.values.iter().map(place).collect();
        Ok(Self {
            ranges: read.ranges.renumbered(&places),
            systems,
            kind: read.kind,
        })
    }

    /// Returns the AS number of an address.
    #[inline]
    pub fn number(&self, address: IpAddr) -> Option<u32> {
        let place = self.ranges.number(address)?;
        self.systems.get(place as usize).map(|(asn, _)| *asn)
    }

    /// Whether any network belongs to this AS.
    pub fn has(&self, asn: u32) -> bool {
        self.place(asn).is_some()
    }

    /// Returns the name of an AS.
    pub fn name(&self, asn: u32) -> Option<&Arc<str>> {
        self.systems[self.place(asn)?].1.as_ref()
    }

    /// Returns the ranges of addresses of all AS: first address, last address, AS number.
    pub fn ranges(&self) -> impl Iterator<Item = (IpAddr, IpAddr, u32)> {
        let all = self.ranges.all();
        all.map(|(first, last, place)| (first, last, self.systems[place as usize].0))
    }

    fn place(&self, asn: u32) -> Option<usize> {
        self.systems
            .binary_search_by_key(&asn, |(other, _)| *other)
            .ok()
    }

    /// Describes the database for the log.
    pub fn describe(&self) -> String {
        let names = self.systems.iter().filter_map(|(_, name)| name.as_deref());
        let memory = self.ranges.memory_bytes()
            + self.systems.capacity() * size_of::<(u32, Option<Arc<str>>)>()
            + names.map(|name| name.len() + 16).sum::<usize>();
        let (kind, count) = (&self.kind, self.systems.len());
        format!(
            "{kind}, {count} AS, {} KiB of memory",
            memory.div_ceil(1024)
        )
    }
}

impl Countries {
    /// Reads a file. The error says what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let read = read(bytes, "country", |record| record.country)?;
        Ok(Self {
            ranges: read.ranges,
            codes: read.values.into_iter().map(Arc::from).collect(),
            kind: read.kind,
        })
    }

    /// Returns the two letters of the country of an address.
    pub fn code(&self, address: IpAddr) -> Option<&Arc<str>> {
        self.codes.get(self.ranges.number(address)? as usize)
    }

    /// Describes the database for the log.
    pub fn describe(&self) -> String {
        let (kind, count) = (&self.kind, self.codes.len());
        let memory = self.ranges.memory_bytes().div_ceil(1024);
        format!("{kind}, {count} countries, {memory} KiB of memory")
    }
}

/// Contents of a file.
struct Read<V> {
    /// Type of database that the file names.
    kind: String,
    values: Vec<V>,
    ranges: Ranges,
}

/// Reads all networks. `value` returns the value of a record; `what` describes such values
/// in errors.
fn read<V: Clone + Eq + std::hash::Hash>(
    bytes: &[u8],
    what: &str,
    mut value: impl FnMut(Record) -> Option<V>,
) -> Result<Read<V>, String> {
    let damaged = |error: MaxMindDbError| format!("is damaged, or no MaxMind DB: {error}");
    let reader = Reader::from_source(bytes).map_err(damaged)?;
    let kind: String = reader.metadata().database_type.chars().take(64).collect();
    let mut values: Vec<V> = Vec::new();
    let mut numbers: HashMap<V, u32> = HashMap::new();
    // Many networks have the same record.
    let mut decoded: HashMap<usize, Option<u32>> = HashMap::new();
    let mut count = 0;
    let mut number = |address: IpAddr| -> Result<(u128, Option<u32>), String> {
        count += 1;
        if count > MAX_NETWORKS {
            return Err(format!("has more than {MAX_NETWORKS} networks"));
        }
        let found = reader.lookup(address).map_err(damaged)?;
        let network = found.network().map_err(damaged)?;
        let bits = match (address, network.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) => 32,
            (IpAddr::V4(_), IpAddr::V6(_)) => 0,
            (IpAddr::V6(_), _) => 128,
        };
        // Mask of the addresses after the first one. If the record belongs to an IPv6 network
        // that contains all IPv4 addresses, these are all of them.
        let others = match bits {
            0 => u128::from(u32::MAX),
            _ => mask(bits - u32::from(network.prefix())),
        };
        let Some(offset) = found.offset() else {
            return Ok((others, None));
        };
        if let Some(known) = decoded.get(&offset) {
            return Ok((others, *known));
        }
        let record: Option<Record> = found.decode().map_err(damaged)?;
        let wanted = record.and_then(&mut value);
        let number = match wanted {
            None => None,
            Some(wanted) => match numbers.get(&wanted) {
                Some(number) => Some(*number),
                None => {
                    let number = values.len() as u32;
                    values.push(wanted.clone());
                    numbers.insert(wanted, number);
                    Some(number)
                }
            },
        };
        if values.len() > MAX_VALUES {
            return Err(format!("has more than {MAX_VALUES} different values"));
        }
        decoded.insert(offset, number);
        Ok((others, number))
    };
    let mut ranges = Ranges::default();
    let mut next = Some(0u32);
    while let Some(start) = next {
        let (others, value) = number(IpAddr::V4(Ipv4Addr::from_bits(start)))?;
        ranges.begin_v4(start, value);
        next = (start | others as u32).checked_add(1);
    }
    let is_v6 = reader.metadata().ip_version == 6;
    let mut next = is_v6.then_some(V4_END);
    while let Some(start) = next {
        let (last, value) = match alias(start) {
            Some(last) => (last, None),
            None => {
                let (others, value) = number(IpAddr::V6(Ipv6Addr::from_bits(start)))?;
                (start | others, value)
            }
        };
        ranges.begin_v6(start, value);
        next = last.checked_add(1);
    }
    if values.is_empty() {
        return Err(format!(
            "has no {what} for any network: it calls itself {kind:?} and may be of another kind"
        ));
    }
    Ok(Read {
        kind,
        values,
        ranges: ranges.finish(),
    })
}

/// A mask of the last `bits` bits.
fn mask(bits: u32) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX >> (128 - bits.min(128)),
    }
}

/// If the address is in a prefix that repeats the IPv4 addresses, returns the last address
/// of that prefix.
fn alias(address: u128) -> Option<u128> {
    let holds = |(first, length): &&(u128, u32)| {
        let hosts = mask(128 - length);
        address & !hosts == *first
    };
    let (first, length) = ALIASES.iter().find(holds)?;
    Some(first | mask(128 - length))
}
