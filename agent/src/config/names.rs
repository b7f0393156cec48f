//! Names of networks from the configuration and from a file with lines `prefix,name`, which
//! may have a hundred thousand lines.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::Path;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use serde::Deserialize;

use super::{Config, ConfigError, small_file, values};
use crate::text::plain;
use crate::traffic::names::{MAX_NAMES, Names, Prefixes, prefix};

/// Most lines of a file. A longer file is probably a mistake and would take long to read.
const MAX_LINES: u32 = 1_000_000;
/// Most bytes of a line.
const MAX_LINE_BYTES: usize = 1024;

/// An entry of `[[names]]`: a prefix or an AS, and its name.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NamedNetwork {
    #[serde(default, deserialize_with = "values::prefix")]
    pub prefix: Option<IpNet>,
    #[serde(default, deserialize_with = "values::asn")]
    pub asn: Option<u32>,
    #[serde(deserialize_with = "values::network_name")]
    pub name: String,
    /// File and line, for messages.
    #[serde(skip)]
    pub place: String,
}

/// Checks the name of a network.
pub fn network_name(text: &str) -> Result<&str, String> {
    match text.trim() {
        "" => Err("a network needs a name that is not empty".into()),
        name if name.len() > MAX_LINE_BYTES => {
            Err(format!("a name has {MAX_LINE_BYTES} bytes at most"))
        }
        name => Ok(name),
    }
}

impl Config {
    /// Reads the names of networks. `None` if none are configured.
    pub(super) fn read_names(&self) -> Result<Option<Names>, ConfigError> {
        let mut reader = Reader {
            config: self,
            file: self.names_file.as_deref(),
            prefixes: Prefixes::new(self.names_limit),
        };
        let read = reader.read();
        // A prefix with two names is reported first, because both of its lines are before the
        // mistake at which reading stopped.
        reader.check()?;
        read?;
        self.name_asns(&mut reader.prefixes)?;
        let (prefixes, limit) = (reader.prefixes, self.names_limit);
        let distinct = prefixes.distinct();
        if distinct > limit {
            return Err(ConfigError::new(
                format_args!("names_limit = {limit}"),
                format_args!(
                    "there are {distinct} different names, each pair of which may become a \
                     series: give networks the same name, or raise the limit (up to {MAX_NAMES})"
                ),
            ));
        }
        Ok((!prefixes.is_empty()).then(|| prefixes.finish()))
    }
}

impl Config {
    /// Gives the networks of each named AS the name of the AS, unless a configured prefix
    /// contains them.
    fn name_asns(&self, prefixes: &mut Prefixes) -> Result<(), ConfigError> {
        let mut named_asns: HashMap<u32, (u32, &NamedNetwork)> = HashMap::new();
        for (place, named) in (0..).zip(&self.names) {
            let Some(asn) = named.asn else { continue };
            let fault = |why: String| Err(ConfigError::new(&named.place, why));
            let Some(asns) = &self.databases.asns else {
                return fault(format!(
                    "names: asn = {asn} needs a database of AS numbers: set lookup.asn"
                ));
            };
            if !asns.has(asn) {
                return fault(format!("names: lookup.asn has no network of AS{asn}"));
            }
            if let Some((_, other)) = named_asns.get(&asn)
                && other.name != named.name
            {
                let (name, before, earlier) = (&named.name, &other.name, &other.place);
                return fault(format!(
                    "AS{asn} is {name:?} here and {before:?} in {earlier}"
                ));
            }
            named_asns.insert(asn, (place, named));
        }
        let (Some(asns), false) = (&self.databases.asns, named_asns.is_empty()) else {
            return Ok(());
        };
        let configured = prefixes.outermost();
        for (first, last, asn) in asns.ranges() {
            if let Some((place, named)) = named_asns.get(&asn) {
                for prefix in prefixes_between(first, last) {
                    if !configured.contain(prefix) {
                        prefixes.add(prefix, &named.name, *place);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Divides a range of addresses into prefixes.
fn prefixes_between(first: IpAddr, last: IpAddr) -> Vec<IpNet> {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            Ipv4Subnets::new(first, last, 0).map(IpNet::V4).collect()
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            Ipv6Subnets::new(first, last, 0).map(IpNet::V6).collect()
        }
        _ => Vec::new(),
    }
}

/// Collects names. A place is the index of an entry of the configuration; lines of the file
/// are numbered after all entries.
struct Reader<'a> {
    config: &'a Config,
    file: Option<&'a Path>,
    prefixes: Prefixes,
}

impl Reader<'_> {
    /// Reads the entries of the configuration and the file.
    fn read(&mut self) -> Result<(), ConfigError> {
        for (place, named) in (0..).zip(&self.config.names) {
            let fault = |why: &str| Err(ConfigError::new(&named.place, why));
            match (named.prefix, named.asn) {
                (Some(prefix), None) => self.prefixes.add(prefix, &named.name, place),
                (None, Some(_)) => {}
                (Some(_), Some(_)) => {
                    return fault("names: a prefix and an asn: write an entry for each");
                }
                (None, None) => return fault("names: needs a prefix or an asn"),
            }
        }
        self.file.map_or(Ok(()), |path| self.read_file(path))
    }

    /// Returns an error if a prefix has two names.
    fn check(&mut self) -> Result<(), ConfigError> {
        self.prefixes.check().map_err(|clash| {
            let (prefix, (before, earlier)) = (clash.prefix, clash.first);
            let (name, place) = clash.second;
            let earlier = self.place(earlier);
            ConfigError::new(
                self.place(place),
                format_args!("{prefix} is {name:?} here and {before:?} in {earlier}"),
            )
        })
    }

    /// Describes a place.
    fn place(&self, place: u32) -> String {
        match self.config.names.get(place as usize) {
            Some(named) => named.place.clone(),
            None => {
                let line = place as usize - self.config.names.len();
                self.line(line as u32)
            }
        }
    }

    fn line(&self, line: u32) -> String {
        let path = self.file.map(plain::path).unwrap_or_default();
        format!("{path}, line {line}")
    }

    /// Reads a file line by line. Reading stops at the first line that is too long.
    fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let failed = |error: &dyn fmt::Display| {
            let place = format!("names_file = {:?}", plain::path(path));
            ConfigError::new(place, format_args!("cannot be read: {error}"))
        };
        let file = small_file::open(path).map_err(|error| failed(&error))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let mut bytes = Vec::new();
        let mut first = true;
        for number in 1.. {
            bytes.clear();
            let mut line = (&mut file).take(MAX_LINE_BYTES as u64 + 1);
            let read = line.read_until(b'\n', &mut bytes);
            if read.map_err(|error| failed(&error))? == 0 {
                return Ok(());
            }
            let fault = |reader: &Self, why: String| ConfigError::new(reader.line(number), why);
            if number > MAX_LINES {
                return Err(fault(self, format!("more than {MAX_LINES} lines")));
            }
            if bytes.len() > MAX_LINE_BYTES {
                return Err(fault(self, format!("longer than {MAX_LINE_BYTES} bytes")));
            }
            let text =
                std::str::from_utf8(&bytes).map_err(|_| fault(self, "is not UTF-8".into()))?;
            let text = text.trim_start_matches('\u{feff}').trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if std::mem::take(&mut first) && text.eq_ignore_ascii_case("prefix,name") {
                continue;
            }
            let (prefix, name) = entry(text).map_err(|why| fault(self, why))?;
            let place = self.config.names.len() as u32 + number;
            self.prefixes.add(prefix, &name, place);
        }
        Ok(())
    }
}

/// Parses a line `prefix,name`; both may be quoted as in CSV.
fn entry(line: &str) -> Result<(IpNet, Cow<'_, str>), String> {
    // In such short texts this is faster than `split_once`.
    let comma = line.bytes().position(|byte| byte == b',').ok_or_else(|| {
        format!("{line:?} is not a prefix and a name: write it like 10.1.0.0/16,office")
    })?;
    let (net, name) = (&line[..comma], &line[comma + 1..]);
    let net = prefix(net.trim().trim_matches('"'))?;
    let name = name.trim();
    let quoted = name
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let name = match quoted {
        Some(inner) if inner.contains('"') => {
            let name = inner.replace("\"\"", "\"");
            return Ok((net, Cow::Owned(network_name(&name)?.to_owned())));
        }
        Some(inner) => inner,
        None if name.contains(',') => {
            return Err(format!(
                "{line:?} has more than a prefix and a name: put quotes around a name with a comma"
            ));
        }
        None => name,
    };
    Ok((net, Cow::Borrowed(network_name(name)?)))
}
