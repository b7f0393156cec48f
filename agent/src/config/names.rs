//! Networks with names, from the configuration and from a file of their own:
//! lines `prefix,name`, of which a hundred thousand are normal.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use ipnet::IpNet;
use serde::Deserialize;

use super::{Config, ConfigError, small_file, values};
use crate::names::{MOST_NAMES, Names, Prefixes, prefix};
use crate::plain;

/// Lines of a file with names. More would be a mistake, or take long to read.
const MOST_LINES: u32 = 1_000_000;
/// Bytes of a line.
const MOST_BYTES: usize = 1024;

/// A network of the configuration.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NamedPrefix {
    /// Its prefix.
    #[serde(deserialize_with = "values::prefix")]
    pub prefix: IpNet,
    /// Its name.
    #[serde(deserialize_with = "values::network_name")]
    pub name: String,
    /// Where it is written, for people.
    #[serde(skip)]
    pub place: String,
}

/// A name, which has to be one.
pub fn network_name(text: &str) -> Result<&str, String> {
    match text.trim() {
        "" => Err("a network needs a name that is not empty".into()),
        name if name.len() > MOST_BYTES => Err(format!("a name has {MOST_BYTES} bytes at most")),
        name => Ok(name),
    }
}

impl Config {
    /// Reads the names of networks; none if none are configured.
    pub(super) fn read_names(&self) -> Result<Option<Names>, ConfigError> {
        let mut reader = Reader {
            config: self,
            file: self.names_file.as_deref(),
            prefixes: Prefixes::new(self.names_limit),
        };
        for (place, named) in (0..).zip(&self.names) {
            reader.give(place, named.prefix, &named.name)?;
        }
        if let Some(path) = reader.file {
            reader.read(path)?;
        }
        let (prefixes, limit) = (reader.prefixes, self.names_limit);
        let distinct = prefixes.distinct();
        if distinct > limit {
            return Err(ConfigError::new(
                format_args!("names_limit = {limit}"),
                format_args!(
                    "there are {distinct} different names, each pair of which may become a \
                     series: give networks the same name, or raise the limit (up to {MOST_NAMES})"
                ),
            ));
        }
        Ok((!prefixes.is_empty()).then(|| prefixes.finish()))
    }
}

/// Names on their way from where they are written. A place is the number of an
/// entry of the configuration, or that of a line behind all of those.
struct Reader<'a> {
    config: &'a Config,
    file: Option<&'a Path>,
    prefixes: Prefixes,
}

impl Reader<'_> {
    fn give(&mut self, place: u32, prefix: IpNet, name: &str) -> Result<(), ConfigError> {
        self.prefixes.give(prefix, name, place).map_err(|clash| {
            let earlier = self.place(clash.place);
            let before = &clash.name;
            ConfigError::new(
                self.place(place),
                format_args!("{prefix} is {name:?} here and {before:?} in {earlier}"),
            )
        })
    }

    /// A place for people.
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

    /// Reads a file line by line: of one that is too long no more than that.
    fn read(&mut self, path: &Path) -> Result<(), ConfigError> {
        let failed = |error: &dyn fmt::Display| {
            let place = format!("names_file = {:?}", plain::path(path));
            ConfigError::new(place, format_args!("cannot be read: {error}"))
        };
        let file = small_file::open(path).map_err(|error| failed(&error))?;
        let mut file = BufReader::new(file);
        let mut bytes = Vec::new();
        let mut first = true;
        for number in 1.. {
            bytes.clear();
            let mut line = (&mut file).take(MOST_BYTES as u64 + 1);
            let read = line.read_until(b'\n', &mut bytes);
            if read.map_err(|error| failed(&error))? == 0 {
                return Ok(());
            }
            let fault = |reader: &Self, why: String| ConfigError::new(reader.line(number), why);
            if number > MOST_LINES {
                return Err(fault(self, format!("more than {MOST_LINES} lines")));
            }
            if bytes.len() > MOST_BYTES {
                return Err(fault(self, format!("longer than {MOST_BYTES} bytes")));
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
            self.give(place, prefix, &name)?;
        }
        Ok(())
    }
}

/// A line `prefix,name`; quotes around either are CSV's.
fn entry(line: &str) -> Result<(IpNet, String), String> {
    let (net, name) = line.split_once(',').ok_or_else(|| {
        format!("{line:?} is no prefix and name: write it like 10.1.0.0/16,office")
    })?;
    let net = prefix(net.trim().trim_matches('"'))?;
    let name = name.trim();
    let quoted = name
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let name = match quoted {
        Some(inner) => inner.replace("\"\"", "\""),
        None if name.contains(',') => {
            return Err(format!(
                "{line:?} has more than a prefix and a name: put quotes around a name with a comma"
            ));
        }
        None => name.to_owned(),
    };
    Ok((net, network_name(&name)?.to_owned()))
}
