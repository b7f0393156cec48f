//! Records of databases in the layouts of GeoLite2 (also DB-IP) and of IPinfo.
//!
//! | | GeoLite2 | IPinfo |
//! |---|---|---|
//! | AS number | `autonomous_system_number`: 64496 | `asn`: "AS64496" |
//! | its name | `autonomous_system_organization` | `as_name`, or `name` |
//! | country | `country.iso_code` | `country_code`, or `country` if that is a code |
//!
//! Fields are read in order and unknown ones are skipped without a copy, so that the time for
//! a record of a damaged file is limited by its size.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// Longest name of an AS that is kept, in characters.
const MAX_NAME: usize = 64;

/// The fields of a record that are used.
#[derive(Debug, Default)]
pub struct Record {
    pub asn: Option<u32>,
    pub as_name: Option<String>,
    /// Two letters.
    pub country: Option<String>,
}

/// Parses an AS number like `AS64496`.
pub fn parse_asn(text: &str) -> Option<u32> {
    let prefix = text.get(..2)?;
    let digits = text.get(2..)?;
    let is_asn = prefix.eq_ignore_ascii_case("as") && digits.bytes().all(|b| b.is_ascii_digit());
    is_asn.then(|| digits.parse().ok()).flatten()
}

fn code(text: &str) -> Option<String> {
    let is_code = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_uppercase());
    is_code.then(|| text.to_owned())
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_map(RecordVisitor)
    }
}

struct RecordVisitor;

impl<'de> Visitor<'de> for RecordVisitor {
    type Value = Record;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Record, M::Error> {
        let mut record = Record::default();
        let (mut name, mut country) = (None, None);
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                "autonomous_system_number" => record.asn = Some(map.next_value()?),
                "asn" => record.asn = map.next_value::<Text<Asn>>()?.0.map(|asn| asn.0),
                "autonomous_system_organization" | "as_name" => {
                    record.as_name = map.next_value::<Text<Name>>()?.0.map(|name| name.0);
                }
                "name" => name = map.next_value::<Text<Name>>()?.0.map(|name| name.0),
                "country_code" => record.country = code(map.next_value()?),
                "country" => country = map.next_value::<Country>()?.0,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        record.as_name = record.as_name.or(name);
        record.country = record.country.or(country);
        Ok(record)
    }
}

/// A string parsed as `T`; `None` if it is not valid.
struct Text<T>(Option<T>);

impl<'de, T: FromStr> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_str(TextVisitor(PhantomData))
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: FromStr> Visitor<'_> for TextVisitor<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<T>, E> {
        Ok(Text(text.parse().ok()))
    }
}

struct Asn(u32);

impl FromStr for Asn {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        parse_asn(text).map(Self).ok_or(())
    }
}

struct Name(String);

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let name: String = text.trim().chars().take(MAX_NAME).collect();
        (!name.is_empty()).then_some(Self(name)).ok_or(())
    }
}

/// A map with the code of a country, or the code alone.
struct Country(Option<String>);

impl<'de> Deserialize<'de> for Country {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(CountryVisitor)
    }
}

struct CountryVisitor;

impl<'de> Visitor<'de> for CountryVisitor {
    type Value = Country;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a country")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Country, E> {
        Ok(Country(code(text)))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Country, M::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                "iso_code" => found = code(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Country(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_as_number_is_parsed_only_with_its_prefix() {
        assert_eq!(parse_asn("AS64496"), Some(64496));
        assert_eq!(parse_asn("as4294967295"), Some(u32::MAX));
        for text in [
            "",
            "AS",
            "64496",
            "AS-1",
            "AS+1",
            "AS4294967296",
            "ASX",
            "ß1",
        ] {
            assert_eq!(parse_asn(text), None, "{text}");
        }
    }

    #[test]
    fn both_layouts_are_parsed() {
        for (json, expected) in [
            (
                r#"{"autonomous_system_number":64496,"autonomous_system_organization":" Example "}"#,
                (Some(64496), Some("Example"), None),
            ),
            (
                r#"{"asn":"AS64497","as_name":"Two","as_domain":"x","country":"Germany","country_code":"DE"}"#,
                (Some(64497), Some("Two"), Some("DE")),
            ),
            (
                r#"{"country":"FR","asn":"","name":"Three"}"#,
                (None, Some("Three"), Some("FR")),
            ),
            (
                r#"{"country":{"names":{"en":"X"},"iso_code":"US"},"registered_country":{"iso_code":"CA"}}"#,
                (None, None, Some("US")),
            ),
            (r#"{"continent":{"code":"EU"}}"#, (None, None, None)),
        ] {
            let record: Record = serde_json::from_str(json).unwrap();
            let seen = (
                record.asn,
                record.as_name.as_deref(),
                record.country.as_deref(),
            );
            assert_eq!(seen, expected, "{json}");
        }
        for json in [r#"{"asn":3}"#, "[]", r#"{"country":[]}"#] {
            assert!(serde_json::from_str::<Record>(json).is_err(), "{json}");
        }
    }
}
