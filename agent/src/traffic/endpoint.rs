//! One end of a query: an address, a network by prefix or name, an AS, or any address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::lookup::database::Asns;
use crate::lookup::{AddressInfo, parse_asn};
use crate::text::plain;
use crate::traffic::edge::Pair;
use crate::traffic::names::{Names, PairNames, name_of, prefix};

/// One end of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Endpoint {
    /// Any address: `*`.
    Any,
    /// One address. An IPv4-mapped IPv6 address is IPv6.
    Address(IpAddr),
    /// All addresses of a prefix.
    Prefix(IpNet),
    /// All addresses of an AS: `AS64496`.
    Asn(u32),
    /// All addresses whose longest prefix has this name.
    Name(Arc<str>),
}

impl FromStr for Endpoint {
    type Err = String;

    /// Names are not checked here, but by [`Endpoint::check`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        match text {
            "" => Err(format!("nothing is written: give {}", forms(None))),
            "*" => Ok(Self::Any),
            _ if is_like_prefix(text) => {
                let net = prefix(text)?;
                Ok(match net.prefix_len() == net.max_prefix_len() {
                    true => Self::Address(net.addr()),
                    false => Self::Prefix(net),
                })
            }
            name => Ok(match parse_asn(name) {
                Some(asn) => Self::Asn(asn),
                None => Self::Name(name.into()),
            }),
        }
    }
}

/// Whether the text has the form of a prefix.
fn is_like_prefix(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == '.' || c == ':';
    text.split_once('/').is_some_and(|(address, length)| {
        address.contains(['.', ':'])
            && address.chars().all(is_part)
            && length.chars().all(|c| c.is_ascii_digit())
    })
}

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Endpoint> for String {
    fn from(endpoint: Endpoint) -> Self {
        endpoint.to_string()
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Address(address) => address.fmt(f),
            Self::Prefix(net) => net.fmt(f),
            Self::Asn(asn) => write!(f, "AS{asn}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Endpoint {
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            _ => None,
        }
    }

    /// Returns an error with the possible values if no network has this name, or no
    /// database has this AS.
    pub fn check(&self, known: &KnownNetworks<'_>) -> Result<(), String> {
        match (self, known.asns) {
            (Self::Name(name), _) if number(known.names, name).is_none() => Err(format!(
                "no network is called {name:?}: give {}",
                forms(known.names)
            )),
            (Self::Asn(_), None) => {
                Err("there is no database of AS numbers: lookup.asn names one".into())
            }
            (Self::Asn(asn), Some(asns)) if !asns.has(*asn) => {
                Err(format!("lookup.asn has no network of AS{asn}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether all its addresses are IPv4 (`true`) or IPv6 (`false`). `None` if it
    /// may have both.
    fn is_v4(&self) -> Option<bool> {
        match self {
            Self::Address(address) => Some(address.is_ipv4()),
            Self::Prefix(net) => Some(net.addr().is_ipv4()),
            Self::Any | Self::Asn(_) | Self::Name(_) => None,
        }
    }

    /// Prepares the endpoint for lookups.
    fn members<'a>(&self, known: &KnownNetworks<'a>) -> Members<'a> {
        match self {
            Self::Any => Members::All,
            Self::Address(address) => Members::Net((*address).into()),
            Self::Prefix(net) => Members::Net(*net),
            Self::Asn(asn) => known
                .asns
                .map_or(Members::None, |asns| Members::Asn(asns, *asn)),
            Self::Name(name) => number(known.names, name).map_or(Members::None, Members::Named),
        }
    }
}

/// Names and AS numbers, which determine the addresses of an endpoint.
#[derive(Clone, Copy, Default)]
pub struct KnownNetworks<'a> {
    pub names: Option<&'a Names>,
    pub asns: Option<&'a Asns>,
}

/// Returns the number of a name, and the names it belongs to.
fn number<'a>(names: Option<&'a Names>, name: &str) -> Option<(&'a Names, u8)> {
    let names = names?;
    Some((names, names.number(name)?))
}

/// Describes the possible values.
fn forms(names: Option<&Names>) -> String {
    let forms = "an address like 10.0.0.1, a prefix like 10.0.0.0/8";
    match names {
        Some(names) => format!(
            "{forms}, a name ({}), an AS like AS64496, or *",
            names.list()
        ),
        None => format!("{forms}, an AS like AS64496, or * (no network has a name)"),
    }
}

/// An endpoint prepared for lookups.
enum Members<'a> {
    All,
    Net(IpNet),
    Asn(&'a Asns, u32),
    Named((&'a Names, u8)),
    None,
}

impl Members<'_> {
    fn contain(&self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Net(net) => net.contains(&address),
            Self::Asn(asns, asn) => asns.number(address) == Some(*asn),
            Self::Named((names, number)) => names.number_of(address) == *number,
            Self::None => false,
        }
    }
}

/// Source and destination of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    pub src: Endpoint,
    pub dst: Endpoint,
}

impl Between {
    /// Returns `None` if one is IPv4 and the other IPv6, because no packet can have both.
    pub fn new(src: Endpoint, dst: Endpoint) -> Option<Self> {
        let mixed = matches!((src.is_v4(), dst.is_v4()), (Some(a), Some(b)) if a != b);
        (!mixed).then_some(Self { src, dst })
    }

    pub fn reversed(&self) -> Self {
        Self {
            src: self.dst.clone(),
            dst: self.src.clone(),
        }
    }

    /// Returns the pair, if both ends are addresses.
    pub fn pair(&self) -> Option<Pair> {
        Pair::between(self.src.address()?, self.dst.address()?)
    }

    /// Returns the networks of the ends that are addresses.
    pub fn names(&self, names: Option<&Names>) -> PairNames {
        let name = |end: &Endpoint| name_of(names, end.address()?);
        PairNames {
            src_name: name(&self.src),
            dst_name: name(&self.dst),
        }
    }

    /// Formats both ends with their names and what else is known of each.
    pub fn show(&self, names: &PairNames, [src, dst]: [AddressInfo; 2]) -> String {
        let end = |end: &Endpoint, name: &Option<String>, info: AddressInfo| {
            let is_asn = matches!(end, Endpoint::Asn(_));
            // The text of an AS already contains its number.
            let name = name.as_ref().or(info.as_name.as_ref().filter(|_| is_asn));
            let info = if is_asn {
                AddressInfo::default()
            } else {
                info.clone()
            };
            info.show(plain::text(&end.to_string()), name.map(String::as_str))
        };
        let (src, dst) = (
            end(&self.src, &names.src_name, src),
            end(&self.dst, &names.dst_name, dst),
        );
        format!("{src} → {dst}")
    }

    /// Returns an error if a name or an AS is unknown.
    pub fn check(&self, known: &KnownNetworks<'_>) -> Result<(), String> {
        self.src.check(known)?;
        self.dst.check(known)
    }

    /// Returns a predicate for the pairs that match.
    pub fn pairs(&self, known: &KnownNetworks<'_>) -> impl Fn(Pair) -> bool {
        let (src, dst) = (self.src.members(known), self.dst.members(known));
        move |pair| src.contain(pair.src()) && dst.contain(pair.dst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::names::Prefixes;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    fn between(src: &str, dst: &str) -> Option<Between> {
        Between::new(endpoint(src), endpoint(dst))
    }

    fn names() -> Names {
        let mut prefixes = Prefixes::new(8);
        for (prefix, name) in [
            ("10.0.0.0/8", "office"),
            ("10.1.0.0/16", "lab"),
            ("2001:db8::/32", "office"),
        ] {
            prefixes.add(prefix.parse().unwrap(), name, 0);
        }
        prefixes.finish()
    }

    #[test]
    fn endpoints_are_parsed_and_formatted() {
        for (text, shown) in [
            ("*", "*"),
            (" 10.0.0.1", "10.0.0.1"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.1/32", "10.0.0.1"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::ffff:10.0.0.0/104", "::ffff:10.0.0.0/104"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("office", "office"),
            ("as64496", "AS64496"),
            ("AS", "AS"),
            ("a/b", "a/b"),
            ("floor 1/2", "floor 1/2"),
        ] {
            assert_eq!(endpoint(text).to_string(), shown);
        }
        assert_eq!(endpoint("a/b"), Endpoint::Name("a/b".into()));
    }

    #[test]
    fn errors_contain_an_example() {
        for (text, says) in [
            ("", "a prefix like 10.0.0.0/8"),
            ("10.0.0.1/8", "the network is 10.0.0.0/8"),
            ("2001:db8::1/32", "the network is 2001:db8::/32"),
            ("10.0.0.0/33", "like 10.1.0.0/16"),
            ("10.0.0/8", "like 10.1.0.0/16"),
            ("10.0.0.0/", "like 10.1.0.0/16"),
        ] {
            let error = text.parse::<Endpoint>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let unknown = endpoint("offices");
        let names = names();
        let known = KnownNetworks {
            names: Some(&names),
            asns: None,
        };
        let error = unknown.check(&known).unwrap_err();
        assert!(error.contains("(office, lab, other)"), "{error}");
        let nothing = KnownNetworks::default();
        assert!(
            unknown
                .check(&nothing)
                .unwrap_err()
                .contains("no network has")
        );
        assert_eq!(endpoint("other").check(&known), Ok(()));
        let system = endpoint("AS64496").check(&known).unwrap_err();
        assert!(system.contains("lookup.asn names one"), "{system}");
        assert_eq!(between("10.0.0.0/8", "::/0"), None);
        assert_eq!(between("10.0.0.1", "::ffff:10.0.0.0/104"), None);
        assert!(between("10.0.0.0/8", "office").is_some() && between("*", "::/0").is_some());
    }

    #[test]
    fn the_longest_prefix_determines_the_name_of_an_address() {
        let names = names();
        let known = KnownNetworks {
            names: Some(&names),
            asns: None,
        };
        for (src, dst, pair, inside) in [
            ("*", "*", ("10.0.0.1", "1.1.1.1"), true),
            ("10.0.0.0/8", "*", ("10.1.0.1", "1.1.1.1"), true),
            ("*", "10.0.0.0/8", ("10.1.0.1", "1.1.1.1"), false),
            ("office", "*", ("10.2.0.1", "1.1.1.1"), true),
            ("office", "*", ("10.1.0.1", "1.1.1.1"), false),
            ("lab", "other", ("10.1.0.1", "1.1.1.1"), true),
            ("office", "other", ("2001:db8::1", "::1"), true),
            ("offices", "*", ("10.1.0.1", "1.1.1.1"), false),
            ("10.1.0.1", "*", ("10.1.0.1", "1.1.1.1"), true),
            ("0.0.0.0/0", "*", ("::ffff:10.0.0.1", "::1"), false),
            ("::ffff:0:0/96", "*", ("::ffff:10.0.0.1", "::1"), true),
        ] {
            let (from, to) = (pair.0.parse().unwrap(), pair.1.parse().unwrap());
            let pair = Pair::between(from, to).unwrap();
            let between = between(src, dst).unwrap();
            assert_eq!(between.pairs(&known)(pair), inside, "{src} {dst} {pair}");
        }
    }
}
