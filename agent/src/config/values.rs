//! Parses values of the configuration. Errors say what is allowed.

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crane_model::DeviceChoice;
use ipnet::IpNet;
use serde::de::{Error, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::length::WindowLength;
use super::pattern::Pattern;
use super::size::Size;
use super::{Anonymise, Decap, Direction, NamedNetwork, Profile, Watched, names};
use crate::traffic::edge::Pair;

/// Parses an address and a port.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not an address and a port: write it like 127.0.0.1:9732, \
             0.0.0.0:9732 for all addresses, or [::1]:9732"
        )
    })
}

/// A whole number from MIN to MAX.
pub fn in_range<'de, D, T, const MIN: i64, const MAX: i64>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let value = input.deserialize_any(WholeNumber::<MIN, MAX>)?;
    let fits = (MIN..=MAX).contains(&value).then_some(value);
    fits.and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| D::Error::custom(format!("{value}: must be {MIN} to {MAX}")))
}

/// A size from MIN to MAX.
pub fn size<'de, D, const MIN: u64, const MAX: u64>(input: D) -> Result<Size, D::Error>
where
    D: Deserializer<'de>,
{
    let size: Size = text(input, "a size like \"4MiB\"")?;
    if (MIN..=MAX).contains(&size.0) {
        return Ok(size);
    }
    let (least, most) = (Size(MIN), Size(MAX));
    Err(D::Error::custom(format!(
        "{size}: must be {least} to {most}"
    )))
}

/// A length of time.
pub fn window_length<'de, D: Deserializer<'de>>(input: D) -> Result<WindowLength, D::Error> {
    text(input, "a length of time like \"60s\"")
}

pub fn device<'de, D: Deserializer<'de>>(input: D) -> Result<DeviceChoice, D::Error> {
    text(input, "\"auto\", \"cpu\", \"cpu-tensor\" or \"cuda:N\"")
}

/// One address and port, or a list of them.
pub fn listen<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<SocketAddr>, D::Error> {
    let given = input.deserialize_any(OneOrMore(
        "an address and a port like \"127.0.0.1:9732\", or a list of these",
    ))?;
    if given.is_empty() {
        return Err(D::Error::custom("the list is empty: name an address"));
    }
    let mut addresses = Vec::with_capacity(given.len());
    for text in given {
        let address = socket_address(&text).map_err(D::Error::custom)?;
        if addresses.contains(&address) {
            return Err(D::Error::custom(format!("{address} is given twice")));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// Writes a single address as it is, and several as a list.
pub fn one_or_list<S: Serializer>(addresses: &[SocketAddr], output: S) -> Result<S::Ok, S::Error> {
    match addresses {
        [address] => address.serialize(output),
        addresses => addresses.serialize(output),
    }
}

/// Writes a value as its text.
pub fn as_text<S: Serializer>(value: &impl fmt::Display, output: S) -> Result<S::Ok, S::Error> {
    output.collect_str(value)
}

/// Host names.
pub fn hosts<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    let example = "a list like [\"agent.example.org\"]";
    let given: Vec<String> = input.deserialize_any(List(example, PhantomData))?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = |text: &&String| !text.is_empty() && text.chars().all(is_part);
    match given.iter().find(|text| !is_name(text)) {
        None => Ok(given),
        Some(text) => Err(D::Error::custom(format!(
            "{text:?} is not a host name: write it without scheme and port, like \
             \"agent.example.org\""
        ))),
    }
}

pub fn anonymise<'de, D: Deserializer<'de>>(input: D) -> Result<Anonymise, D::Error> {
    one_of(input, "\"none\", \"prefix\" or \"keyed\"")
}

pub fn decap<'de, D: Deserializer<'de>>(input: D) -> Result<Decap, D::Error> {
    one_of(input, "\"outer\" or \"inner\"")
}

pub fn direction<'de, D: Deserializer<'de>>(input: D) -> Result<Direction, D::Error> {
    one_of(input, "\"both\", \"in\" or \"out\"")
}

pub fn profile<'de, D: Deserializer<'de>>(input: D) -> Result<Profile, D::Error> {
    one_of(input, "\"packed\" or \"paper\"")
}

/// True or false.
pub fn flag<'de, D: Deserializer<'de>>(input: D) -> Result<bool, D::Error> {
    input.deserialize_any(Flag)
}

/// Names and patterns of interfaces.
pub fn patterns<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Pattern>, D::Error> {
    input.deserialize_any(List("a list like [\"eth0\", \"veth*\"]", PhantomData))
}

/// Pairs to watch.
pub fn watched<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Watched>, D::Error> {
    let example = "a list like [{ src = \"10.0.0.1\", dst = \"10.0.0.2\" }]";
    input.deserialize_any(List(example, PhantomData))
}

/// Networks with names.
pub fn named<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<NamedNetwork>, D::Error> {
    let example = "entries [[names]], each with a prefix or an asn, and a name";
    input.deserialize_any(List(example, PhantomData))
}

/// The prefix of a network.
pub fn prefix<'de, D: Deserializer<'de>>(input: D) -> Result<Option<IpNet>, D::Error> {
    let given = input.deserialize_any(Text("a prefix like \"10.1.0.0/16\""))?;
    let prefix = crate::traffic::names::prefix(&given);
    prefix.map(Some).map_err(D::Error::custom)
}

/// An AS number, with or without `AS` before it.
pub fn asn<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u32>, D::Error> {
    input.deserialize_any(AsNumber).map(Some)
}

/// Name servers, with or without a port.
pub fn name_servers<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<SocketAddr>, D::Error> {
    let example = "a list like [\"10.0.0.53\", \"[::1]:5353\"]";
    let given: Vec<String> = input.deserialize_any(List(example, PhantomData))?;
    let server = |text: &String| {
        let address = text.parse().map(|address| SocketAddr::new(address, 53));
        address.or_else(|_| text.parse()).map_err(|_| {
            D::Error::custom(format!(
                "{text:?} is not the address of a name server: write it like \"10.0.0.53\" or \
                 \"10.0.0.53:53\""
            ))
        })
    };
    given.iter().map(server).collect()
}

/// The name of a network.
pub fn network_name<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let given = input.deserialize_any(Text("a name like \"office\""))?;
    let name = names::network_name(&given).map_err(D::Error::custom)?;
    Ok(name.to_owned())
}

/// A pair to watch, as it is written in the file.
#[derive(Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a pair like { src = \"10.0.0.1\", dst = \"10.0.0.2\" }"
)]
pub struct WatchedPair {
    src: IpAddr,
    dst: IpAddr,
}

impl TryFrom<WatchedPair> for Watched {
    type Error = String;

    fn try_from(WatchedPair { src, dst }: WatchedPair) -> Result<Self, String> {
        let pair = Pair::between(src, dst);
        let fault =
            || format!("{src} and {dst} are not of the same IP version: no packet has both");
        pair.map(Self).ok_or_else(fault)
    }
}

impl From<Watched> for WatchedPair {
    fn from(Watched(pair): Watched) -> Self {
        Self {
            src: pair.src(),
            dst: pair.dst(),
        }
    }
}

/// Parses a string. `expected` describes the value in errors.
fn text<'de, D, T>(input: D, expected: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = input.deserialize_any(Text(expected))?;
    text.parse()
        .map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
}

/// Parses one of a few words. `expected` lists them in errors.
fn one_of<'de, D, T>(input: D, expected: &'static str) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let word = input.deserialize_any(Text(expected))?;
    T::deserialize(word.into_deserializer())
}

struct Flag;

impl Visitor<'_> for Flag {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<bool, E> {
        Ok(flag)
    }
}

struct WholeNumber<const MIN: i64, const MAX: i64>;

impl<const MIN: i64, const MAX: i64> Visitor<'_> for WholeNumber<MIN, MAX> {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {MIN} to {MAX}")
    }

    fn visit_i64<E>(self, value: i64) -> Result<i64, E> {
        Ok(value)
    }
}

struct AsNumber;

impl Visitor<'_> for AsNumber {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AS number like 64496")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<u32, E> {
        let asn = u32::try_from(number);
        asn.map_err(|_| E::custom(format!("{number} is not an AS number: write it like 64496")))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u32, E> {
        let asn = crate::lookup::parse_asn(text);
        asn.ok_or_else(|| E::custom(format!("{text:?} is not an AS number: write it like 64496")))
    }
}

struct Text(&'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.into())
    }
}

struct OneOrMore(&'static str);

impl<'de> Visitor<'de> for OneOrMore {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(vec![text.into()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        List(self.0, PhantomData).visit_seq(list)
    }
}

struct List<T>(&'static str, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            all.push(one);
        }
        Ok(all)
    }
}
