//! Reads a configuration from a file and the environment.
//!
//! Later sources override earlier ones: defaults, the file, [`variables`], flags. Unknown
//! keys, wrong types and impossible values are errors that name the file and line or the
//! variable, the key, the value and what is allowed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::{Spanned, Table};

use super::key_locations::KeyLocations;
use super::{Config, keys, variables};
use crate::config::size::Size;
use crate::config::small_file;
use crate::text::plain;

/// Largest size of a file.
const MAX_SIZE: Size = Size(1 << 20);

/// Least similarity of a known key to be suggested for an unknown one.
const MIN_SIMILARITY: f64 = 0.6;

/// A configuration error, which ends the program with exit code 78.
#[derive(Debug)]
pub struct ConfigError {
    place: String,
    message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// An error in the setting that `place` names.
    pub fn new(place: impl fmt::Display, message: impl fmt::Display) -> Self {
        Self {
            place: place.to_string(),
            message: message.to_string(),
        }
    }
}

/// A configuration and its sources.
pub struct Loaded {
    pub config: Config,
    /// Keys that the file or a variable sets, like `window.length`.
    pub keys: Vec<String>,
    pub locations: KeyLocations,
    /// Variables with the prefix of the agent that are not keys.
    pub unknown_variables: Vec<String>,
}

impl Loaded {
    /// Reads the file, if there is one, the environment, and the file of names.
    pub fn from(path: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let (written, table, mut locations) = match path {
            Some(path) => read(path)?,
            None => (Config::default(), Table::new(), KeyLocations::default()),
        };
        let found = variables::find()?;
        for variable in &found.keys {
            locations.set(variable.key.path().to_owned(), variable.name.clone());
        }
        let (mut config, table) = variables::apply(table, found.keys)?;
        // No variable can set these entries, and only those read from the file have their
        // line numbers.
        config.names = written.names;
        config.databases = Arc::new(config.read_databases(&locations)?);
        config.networks = config.read_names()?.map(Arc::new);
        let keys = table.iter().flat_map(|(section, keys)| {
            let keys = keys.as_table().into_iter().flat_map(Table::keys);
            keys.map(move |key| format!("{section}.{key}"))
        });
        Ok(Self {
            config,
            keys: keys.collect(),
            locations,
            unknown_variables: found.unknown_variables,
        })
    }
}

pub(super) fn read(path: &Path) -> Result<(Config, Table, KeyLocations), ConfigError> {
    let fault = |line: Option<usize>, message: String| {
        let line = line.map_or_else(String::new, |line| format!(", line {line}"));
        ConfigError::new(format_args!("{}{line}", path.display()), message)
    };
    let bytes = small_file::read(path, MAX_SIZE)
        .map_err(|error| fault(None, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| fault(None, "is not UTF-8".into()))?;
    let explain = |error: toml::de::Error| {
        let span = error.span();
        let line = span.clone().map(|span| line_of(&text, span.start));
        let written = span.and_then(|span| text.get(span)).unwrap_or_default();
        let mut message = error.message().replace('\n', ", ");
        if !written.is_empty() && !written.contains('\n') && !message.contains(written) {
            message = format!("{written}: {message}");
        }
        message += &suggestion(&message);
        let mut top = keys().filter(|key| key.parts().0.is_empty());
        if top.any(|key| message.contains(&format!("unknown field `{}`", key.path()))) {
            message += " (it belongs above all sections)";
        }
        let key = line.and_then(|line| text.lines().nth(line - 1)?.split_once('='));
        if let Some((key, _)) = key
            && !message.contains(key.trim())
        {
            message = format!("{}: {message}", key.trim());
        }
        fault(line, message)
    };
    let mut config: Config = toml::from_str(&text).map_err(explain)?;
    let written: Written = toml::from_str(&text).map_err(explain)?;
    for (named, written) in config.names.iter_mut().zip(&written.names) {
        let line = line_of(&text, written.span().start);
        named.place = format!("{}, line {line}", plain::path(path));
    }
    config.check().map_err(|error| {
        let key = error.place.rsplit('.').next().unwrap_or_default();
        let key = key.split(' ').next().unwrap_or_default();
        let written = |line: &str| {
            line.split('=')
                .next()
                .is_some_and(|name| name.trim() == key)
        };
        let line = text.lines().position(written).map(|line| line + 1);
        fault(line, error.to_string())
    })?;
    let table = toml::from_str(&text).map_err(explain)?;
    Ok((config, table, KeyLocations::of_file(path, &text)))
}

/// Suggests a known key if the error is about an unknown one.
fn suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let written = quoted
        .next()
        .filter(|_| message.starts_with("unknown field"));
    let alike = |key: &str| {
        written.map_or(0.0, |written| {
            strsim::normalized_damerau_levenshtein(written, key)
        })
    };
    let nearest = quoted.max_by(|one, other| alike(one).total_cmp(&alike(other)));
    match nearest.filter(|key| alike(key) > MIN_SIMILARITY) {
        Some(key) => format!("; did you mean `{key}`?"),
        None => String::new(),
    }
}

/// Positions of entries that may conflict with each other.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    names: Vec<Spanned<IgnoredAny>>,
}

/// Returns the line of a byte offset.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        super::read(file.path()).map(|(config, ..)| config)
    }

    #[test]
    fn errors_name_line_key_value_and_what_is_allowed() {
        let cases: [(&str, [&str; 4]); 38] = [
            (
                "names_limit = 256\n",
                ["line 1", "names_limit", "256", "1 to 255"],
            ),
            (
                "[export]\nnames_file = \"x\"\n",
                ["line 2", "names_file", "above all sections", ""],
            ),
            (
                "names = \"office\"\n",
                ["line 1", "names", "office", "a prefix or an asn"],
            ),
            (
                "[[names]]\nprefix = \"10.0.0.0/8\"\n",
                ["line 1", "name", "missing", ""],
            ),
            (
                "[[names]]\nprefix = \"10.1.2.3/16\"\nname = \"a\"\n",
                [
                    "line 2",
                    "prefix",
                    "10.1.2.3/16",
                    "the network is 10.1.0.0/16",
                ],
            ),
            (
                "[[names]]\nprefix = \"10.0.0/8\"\nname = \"a\"\n",
                ["line 2", "prefix", "10.0.0/8", "like 10.1.0.0/16"],
            ),
            (
                "[[names]]\nprefix = \"10.0.0.0/8\"\nname = \" \"\n",
                ["line 3", "name", "not empty", ""],
            ),
            (
                "[export]\nlisten = \":9732\"\n",
                ["line 2", "listen", ":9732", "like 127.0.0.1:9732"],
            ),
            (
                "[export]\nlisten = \"localhost:9732\"\n",
                ["line 2", "listen", "localhost:9732", "like 127.0.0.1:9732"],
            ),
            (
                "[export]\nlisten = [\"127.0.0.1:1\", \"here\"]\n",
                ["line 2", "listen", "here", "like 127.0.0.1:9732"],
            ),
            (
                "[export]\nlisten = [\"127.0.0.1:1\", \"127.0.0.1:1\"]\n",
                ["line 2", "listen", "127.0.0.1:1", "twice"],
            ),
            (
                "[export]\nlisten = []\n",
                ["line 2", "listen", "empty", "name an address"],
            ),
            (
                "[export]\nlisten = 9732\n",
                ["line 2", "listen", "9732", "or a list of these"],
            ),
            (
                "[export]\nhosts = [\"a.example\", \"a.example:9732\"]\n",
                [
                    "line 2",
                    "hosts",
                    "a.example:9732",
                    "without scheme and port",
                ],
            ),
            (
                "[export]\nhosts = \"a.example\"\n",
                [
                    "line 2",
                    "hosts",
                    "a.example",
                    "a list like [\"agent.example.org\"]",
                ],
            ),
            (
                "[export]\nanonymise = \"hash\"\n",
                ["line 2", "anonymise", "hash", "`keyed`"],
            ),
            (
                "[capture]\nsnaplen = 96.5\n",
                [
                    "line 2",
                    "snaplen",
                    "96.5",
                    "a whole number from 64 to 32767",
                ],
            ),
            (
                "[capture]\ndecap = 3\n",
                ["line 2", "decap", "3", "\"outer\" or \"inner\""],
            ),
            (
                "[capture]\nipv6 = 1\n",
                ["line 2", "ipv6", "1", "true or false"],
            ),
            (
                "[capture]\ninterfaces = \"eth0\"\n",
                ["line 2", "interfaces", "eth0", "a list like [\"eth0\""],
            ),
            (
                "[sketch]\nmemory = 4096\n",
                ["line 2", "memory", "4096", "a size like \"4MiB\""],
            ),
            (
                "[export]\nwatch = 3\n",
                ["line 2", "watch", "3", "a list like [{ src"],
            ),
            (
                "[export]\nwatch = [\"a,b\"]\n",
                [
                    "line 2",
                    "watch",
                    "\"a,b\"",
                    "a pair like { src = \"10.0.0.1\"",
                ],
            ),
            (
                "[capture]\nsnaplne = 3\n",
                ["line 2", "snaplne", "", "snaplen"],
            ),
            (
                "[sketch]\n\nbatch = 0\n",
                ["line 3", "batch", "0", "1 to 65536"],
            ),
            (
                "[sketch]\ndevice = \"gpu\"\n",
                ["line 2", "device", "gpu", "cpu-tensor"],
            ),
            (
                "[sketch]\nmemory = \"big\"\n",
                ["line 2", "memory", "big", "64KiB"],
            ),
            (
                "[export]\nlisten = \"here\"\n",
                ["line 2", "listen", "here", "127.0.0.1:9732"],
            ),
            (
                "[export]\ntop = \"ten\"\n",
                ["line 2", "top", "ten", "a whole number from 1 to 1000"],
            ),
            (
                "[export]\nwatch = [{src = \"1.2.3\", dst = \"::1\"}]\n",
                ["line 2", "watch", "1.2.3", "invalid"],
            ),
            (
                "[capture]\nbuffer_total = \"much\"\n",
                ["line 2", "buffer_total", "much", "64KiB"],
            ),
            (
                "[capture]\ninterfaces = [\"/(/\"]\n",
                ["line 2", "interfaces", "/(/", "a glob like"],
            ),
            (
                "[window]\nlength = \"0s\"\n",
                ["line 2", "length", "0s", "100ms to 366d"],
            ),
            (
                "[window]\nlength = 60\n",
                ["line 2", "length", "60", "a length of time like \"60s\""],
            ),
            (
                "[capture]\ndecap = \"both\"\n",
                ["line 2", "decap", "both", "`outer` or `inner`"],
            ),
            (
                "[sketch]\nmemory = \"1KiB\"\n",
                ["line 2", "memory", "1KiB", "128KiB to 1GiB"],
            ),
            (
                "[sketch]\nbatch = 9\nmemory = \"2MiB\"\nmemory_total = \"1MiB\"\n",
                [
                    "line 3",
                    "sketch.memory",
                    "2MiB",
                    "sketch.memory_total = 1MiB",
                ],
            ),
            ("[capture\n", ["line 1", "", "", ""]),
        ];
        for (text, parts) in cases {
            let error = read(text).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{error:?} does not contain {part:?}");
            }
            assert!(!error.contains('\n'), "more than one line: {error:?}");
        }
    }
}
