//! Who sends or receives, in a question: an address, a network by its prefix or
//! its name, or anyone.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::edge::Pair;
use crate::names::{Names, PairNames, name_of, prefix, show};
use crate::plain;

/// One end of what is asked about, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Endpoint {
    /// Anyone: `*`.
    Any,
    /// One address. An IPv6 address that stands for an IPv4 one is IPv6.
    Address(IpAddr),
    /// All addresses of a prefix.
    Prefix(IpNet),
    /// All addresses whose longest prefix has this name.
    Name(Arc<str>),
}

impl FromStr for Endpoint {
    type Err = String;

    /// Whether a name is one is not known yet: see [`Endpoint::check`].
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
            name => Ok(Self::Name(name.into())),
        }
    }
}

/// Whether it can only be meant as a prefix.
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
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Endpoint {
    /// The address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            _ => None,
        }
    }

    /// What would be possible, if it is a name that no network has.
    pub fn check(&self, names: Option<&Names>) -> Result<(), String> {
        match self {
            Self::Name(name) if number(names, name).is_none() => Err(forms(names)),
            _ => Ok(()),
        }
    }

    /// Whether all of it is IPv4, or all of it is IPv6; none if it may be either.
    fn is_v4(&self) -> Option<bool> {
        match self {
            Self::Address(address) => Some(address.is_ipv4()),
            Self::Prefix(net) => Some(net.addr().is_ipv4()),
            Self::Any | Self::Name(_) => None,
        }
    }

    /// Who is meant.
    fn members<'a>(&self, names: Option<&'a Names>) -> Members<'a> {
        match self {
            Self::Any => Members::All,
            Self::Address(address) => Members::Net((*address).into()),
            Self::Prefix(net) => Members::Net(*net),
            Self::Name(name) => number(names, name).map_or(Members::None, Members::Named),
        }
    }
}

/// A name by its number, and those it is one of.
fn number<'a>(names: Option<&'a Names>, name: &str) -> Option<(&'a Names, u8)> {
    let names = names?;
    Some((names, names.number(name)?))
}

/// What can be written, for people.
fn forms(names: Option<&Names>) -> String {
    let forms = "an address like 10.0.0.1, a prefix like 10.0.0.0/8";
    match names {
        Some(names) => format!("{forms}, a name ({}), or *", names.list()),
        None => format!("{forms}, or * (no network has a name)"),
    }
}

/// An endpoint, ready for lookups.
enum Members<'a> {
    All,
    Net(IpNet),
    Named((&'a Names, u8)),
    None,
}

impl Members<'_> {
    fn have(&self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Net(net) => net.contains(&address),
            Self::Named((names, number)) => names.number_of(address) == *number,
            Self::None => false,
        }
    }
}

/// From whom to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    /// Who sends.
    pub src: Endpoint,
    /// Who receives.
    pub dst: Endpoint,
}

impl Between {
    /// From one to the other; none if one is IPv4 and the other IPv6, between
    /// which no packet travels.
    pub fn new(src: Endpoint, dst: Endpoint) -> Option<Self> {
        let mixed = matches!((src.is_v4(), dst.is_v4()), (Some(a), Some(b)) if a != b);
        (!mixed).then_some(Self { src, dst })
    }

    /// The other direction.
    pub fn reversed(&self) -> Self {
        Self {
            src: self.dst.clone(),
            dst: self.src.clone(),
        }
    }

    /// The pair, if both are addresses.
    pub fn pair(&self) -> Option<Pair> {
        Pair::between(self.src.address()?, self.dst.address()?)
    }

    /// The networks of those ends that are addresses.
    pub fn names(&self, names: Option<&Names>) -> PairNames {
        let name = |end: &Endpoint| name_of(names, end.address()?);
        PairNames {
            src_name: name(&self.src),
            dst_name: name(&self.dst),
        }
    }

    /// Both ends for people.
    pub fn show(&self, names: &PairNames) -> String {
        let end = |end: &Endpoint, name: &Option<String>| {
            show(plain::text(&end.to_string()), name.as_deref())
        };
        let (src, dst) = (
            end(&self.src, &names.src_name),
            end(&self.dst, &names.dst_name),
        );
        format!("{src} → {dst}")
    }

    /// Whether all names are known; if not, what is wrong with which end.
    pub fn check(&self, names: Option<&Names>) -> Result<(), String> {
        for end in [&self.src, &self.dst] {
            let unknown =
                |forms| format!("no network is called {:?}: give {forms}", end.to_string());
            end.check(names).map_err(unknown)?;
        }
        Ok(())
    }

    /// Which pairs are meant.
    pub fn pairs(&self, names: Option<&Names>) -> impl Fn(Pair) -> bool {
        let (src, dst) = (self.src.members(names), self.dst.members(names));
        move |pair| src.have(pair.src()) && dst.have(pair.dst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Prefixes;

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
            prefixes.give(prefix.parse().unwrap(), name, 0).unwrap();
        }
        prefixes.finish()
    }

    #[test]
    fn what_is_written_is_what_is_shown() {
        for (text, shown) in [
            ("*", "*"),
            (" 10.0.0.1", "10.0.0.1"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.1/32", "10.0.0.1"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::ffff:10.0.0.0/104", "::ffff:10.0.0.0/104"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
            ("office", "office"),
            ("a/b", "a/b"),
            ("floor 1/2", "floor 1/2"),
        ] {
            assert_eq!(endpoint(text).to_string(), shown);
        }
        assert_eq!(endpoint("a/b"), Endpoint::Name("a/b".into()));
    }

    #[test]
    fn mistakes_are_told_with_an_example() {
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
        let error = unknown.check(Some(&names())).unwrap_err();
        assert!(error.contains("(office, lab, other)"), "{error}");
        assert!(unknown.check(None).unwrap_err().contains("no network has"));
        assert_eq!(endpoint("other").check(Some(&names())), Ok(()));
        assert_eq!(between("10.0.0.0/8", "::/0"), None);
        assert_eq!(between("10.0.0.1", "::ffff:10.0.0.0/104"), None);
        assert!(between("10.0.0.0/8", "office").is_some() && between("*", "::/0").is_some());
    }

    #[test]
    fn the_longest_prefix_says_whose_an_address_is() {
        let names = names();
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
            let meant = between(src, dst).unwrap();
            assert_eq!(
                meant.pairs(Some(&names))(pair),
                inside,
                "{src} {dst} {pair}"
            );
        }
    }
}
