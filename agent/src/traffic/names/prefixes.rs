//! Collects prefixes and their names.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use rustc_hash::FxHashMap;

use super::address::Address;
use super::ranges::Ranges;
use super::{MAX_NAMES, Names, OTHER};

/// Parses a prefix like 10.1.0.0/16, or a single address.
pub fn prefix(text: &str) -> Result<IpNet, String> {
    let net = usual(text).or_else(|| match text.contains('/') {
        true => text.parse().ok(),
        false => text.parse::<IpAddr>().ok().map(IpNet::from),
    });
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

/// Parses a prefix in its usual form. [`IpNet`] accepts more, like zeros before a number, but takes
/// longer.
fn usual(text: &str) -> Option<IpNet> {
    let slash = text.bytes().rposition(|byte| byte == b'/')?;
    let (address, length) = (&text[..slash], &text[slash + 1..]);
    if !length.starts_with(|first: char| first.is_ascii_digit()) || length.starts_with("0") {
        return None;
    }
    IpNet::new(address.parse().ok()?, length.parse().ok()?).ok()
}

/// Prefixes that have names. A prefix takes 12 bytes, and one of IPv6 32.
pub struct Prefixes {
    v4: Vec<Named<u32>>,
    v6: Vec<Named<u128>>,
    /// By number. The first is [`OTHER`].
    names: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u8>,
    limit: usize,
    /// Hashes of names beyond the limit.
    too_many: HashSet<u64>,
}

/// A prefix and the number of its name.
struct Named<A> {
    first: A,
    /// Where the name was given, in the numbering of the caller.
    place: u32,
    length: u8,
    name: u8,
}

/// A prefix that has two names.
#[derive(Debug, PartialEq, Eq)]
pub struct Clash {
    pub prefix: IpNet,
    /// The name that was given first, and where, in the numbering of the caller.
    pub first: (Arc<str>, u32),
    /// A different name that was given later, and where.
    pub second: (Arc<str>, u32),
}

/// The prefixes that are not within others, in order: first and last address of each.
pub struct Outermost {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Prefixes {
    /// No prefixes yet. At most `limit` names are stored, besides [`OTHER`].
    pub fn new(limit: usize) -> Self {
        let other: Arc<str> = OTHER.into();
        let numbers = HashMap::from_iter([(Arc::clone(&other), 0)]);
        Self {
            v4: Vec::new(),
            v6: Vec::new(),
            names: vec![other],
            numbers,
            limit: limit.min(MAX_NAMES),
            too_many: HashSet::new(),
        }
    }

    /// Gives a prefix a name. A name beyond the limit is only counted. If a prefix has several names,
    /// the one with the smallest place counts, and [`Prefixes::check`] finds the others.
    pub fn add(&mut self, prefix: IpNet, name: &str, place: u32) {
        let Some(name) = self.number(name) else {
            return;
        };
        match prefix {
            IpNet::V4(net) => self.v4.push(Named {
                first: net.network().to_bits(),
                place,
                length: net.prefix_len(),
                name,
            }),
            IpNet::V6(net) => self.v6.push(Named {
                first: net.network().to_bits(),
                place,
                length: net.prefix_len(),
                name,
            }),
        }
    }

    /// Returns the number of a name, which is added if necessary. `None` if the limit is
    /// reached.
    fn number(&mut self, name: &str) -> Option<u8> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        if self.names.len() > self.limit {
            self.too_many.insert(self.too_many.hasher().hash_one(name));
            return None;
        }
        let (number, name) = (self.names.len() as u8, Arc::<str>::from(name));
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        Some(number)
    }

    /// Returns an error if a prefix has two names: the second name that has the smallest place.
    pub fn check(&mut self) -> Result<(), Clash> {
        sort(&mut self.v4);
        sort(&mut self.v6);
        let clashes = [self.clash(&self.v4), self.clash(&self.v6)];
        let first = clashes
            .into_iter()
            .flatten()
            .min_by_key(|(place, _)| *place);
        first.map_or(Ok(()), |(_, clash)| Err(clash))
    }

    /// Finds the second name of a prefix with the smallest place.
    fn clash<A: Address>(&self, sorted: &[Named<A>]) -> Option<(u32, Clash)> {
        let clashes = sorted
            .chunk_by(|a, b| a.is_same_prefix(b))
            .filter_map(|same| {
                let (first, others) = same.split_first()?;
                let second = others.iter().find(|other| other.name != first.name)?;
                Some((first, second))
            });
        let (first, second) = clashes.min_by_key(|(_, second)| second.place)?;
        let given = |of: &Named<A>| (Arc::clone(&self.names[usize::from(of.name)]), of.place);
        let clash = Clash {
            prefix: first.first.net(first.length),
            first: given(first),
            second: given(second),
        };
        Some((second.place, clash))
    }

    /// The prefixes so far that are not within others, after [`Prefixes::check`].
    pub fn outermost(&self) -> Outermost {
        Outermost {
            v4: outermost(&self.v4),
            v6: outermost(&self.v6),
        }
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
        Names {
            v4: ranges(self.v4),
            v6: ranges(self.v6),
            names: self.names,
        }
    }
}

impl<A: Address> Named<A> {
    fn is_same_prefix(&self, other: &Self) -> bool {
        (self.first, self.length) == (other.first, other.length)
    }

    fn last(&self) -> A {
        self.first.last(self.length)
    }
}

impl Outermost {
    /// Whether a prefix is one of these, or within one of them.
    pub fn contain(&self, prefix: IpNet) -> bool {
        fn contains<A: Address>(outermost: &[(A, A)], first: A, length: u8) -> bool {
            let before = outermost.partition_point(|(start, _)| *start <= first);
            let nearest = before.checked_sub(1).map(|at| outermost[at]);
            nearest.is_some_and(|(_, last)| first.last(length) <= last)
        }
        let length = prefix.prefix_len();
        match prefix {
            IpNet::V4(net) => contains(&self.v4, net.network().to_bits(), length),
            IpNet::V6(net) => contains(&self.v6, net.network().to_bits(), length),
        }
    }
}

/// Sorts prefixes by address, and each before those that it contains. Equal ones are in the order
/// of their places.
fn sort<A: Address>(prefixes: &mut [Named<A>]) {
    prefixes.sort_unstable_by_key(|prefix| (prefix.first, prefix.length, prefix.place));
}

fn outermost<A: Address>(sorted: &[Named<A>]) -> Vec<(A, A)> {
    let mut outermost: Vec<(A, A)> = Vec::new();
    for prefix in sorted {
        if outermost
            .last()
            .is_none_or(|(_, last)| *last < prefix.first)
        {
            outermost.push((prefix.first, prefix.last()));
        }
    }
    outermost
}

fn ranges<A: Address>(mut prefixes: Vec<Named<A>>) -> Ranges<A> {
    sort(&mut prefixes);
    // The name with the smallest place counts.
    prefixes.dedup_by(|later, first| later.is_same_prefix(first));
    let blocks = prefixes.iter();
    Ranges::new(blocks.map(|prefix| (prefix.first, prefix.last(), prefix.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_one_name() {
        let [office, lab]: [Arc<str>; 2] = ["office".into(), "lab".into()];
        let net = |text: &str| prefix(text).unwrap();
        let mut prefixes = Prefixes::new(64);
        prefixes.add(net("10.0.0.0/8"), "office", 3);
        prefixes.add(net("10.0.0.0/8"), "office", 4);
        prefixes.add(net("10.0.0.0/9"), "lab", 5);
        prefixes.add(net("2001:db8::/32"), "lab", 6);
        assert_eq!(prefixes.check(), Ok(()), "the same name twice");
        prefixes.add(net("2001:db8::/32"), "office", 7);
        let clash = Clash {
            prefix: net("2001:db8::/32"),
            first: (Arc::clone(&lab), 6),
            second: (Arc::clone(&office), 7),
        };
        assert_eq!(prefixes.check(), Err(clash));
        let mut prefixes = Prefixes::new(64);
        for (place, (text, name)) in (0..).zip([
            ("11.0.0.0/8", "office"),
            ("10.0.0.0/8", "office"),
            ("::/0", "lab"),
            ("10.0.0.0/8", "office"),
            ("11.0.0.0/8", "lab"),
            ("::/0", "office"),
            ("10.0.0.0/8", "lab"),
        ]) {
            prefixes.add(net(text), name, place);
        }
        let clash = Clash {
            prefix: net("11.0.0.0/8"),
            first: (office, 0),
            second: (lab, 4),
        };
        assert_eq!(prefixes.check(), Err(clash), "the first of three");
        let names = prefixes.finish();
        assert_eq!(names.of([10, 0, 0, 0].into()), "office");
        assert_eq!(names.of(IpAddr::from([0; 16])), "lab");
    }

    #[test]
    fn names_beyond_the_limit_are_counted() {
        let mut prefixes = Prefixes::new(2);
        for n in 0..100u8 {
            let prefix = IpNet::from(IpAddr::from([10, 0, 0, n]));
            prefixes.add(prefix, &format!("n{}", n % 7), 0);
        }
        assert_eq!(prefixes.distinct(), 7);
        assert_eq!(prefixes.finish().count(), 3);
    }

    #[test]
    fn only_prefixes_within_others_are_contained() {
        let net = |text: &str| prefix(text).unwrap();
        let mut prefixes = Prefixes::new(64);
        for text in [
            "10.1.0.0/16",
            "10.1.2.0/24",
            "10.2.0.0/16",
            "10.3.0.0/16",
            "fd00::/8",
        ] {
            prefixes.add(net(text), "office", 0);
        }
        prefixes.check().unwrap();
        let outermost = prefixes.outermost();
        for text in [
            "10.1.0.0/16",
            "10.1.2.0/23",
            "10.3.255.255/32",
            "fd00::/8",
            "fd12::/128",
        ] {
            assert!(outermost.contain(net(text)), "{text}");
        }
        for text in [
            "10.2.0.0/15",
            "10.0.0.0/8",
            "10.0.255.255/32",
            "10.4.0.0/16",
            "fc00::/7",
        ] {
            assert!(!outermost.contain(net(text)), "{text}");
        }
    }

    #[test]
    fn prefixes_are_parsed_as_ipnet_parses_them() {
        for text in [
            "10.0.0.0/8",
            "0.0.0.0/0",
            "10.1.2.3/32",
            "10.0.0.0/08",
            "010.0.0.0/8",
            "10.0.0.0/33",
            "10.0.0.0/40",
            "10.0.0.0/",
            "10.0.0/8",
            "10.0.0.0/8/8",
            "10.0.0.0/+8",
            "/8",
            "::/0",
            "2001:db8::/32",
            "::ffff:10.0.0.0/104",
            "10.0.0.0/8 ",
            "256.0.0.0/8",
            "10.0.0.0/1a",
        ] {
            assert_eq!(prefix(text).ok(), text.parse().ok(), "{text}");
        }
    }
}
