//! From a file and the environment to a configuration.
//!
//! Defaults, then the file, then [`variables`], then flags. Unknown keys, wrong
//! types and impossible values are errors that name the file and line or the
//! variable, the key, the value and what is allowed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::{Spanned, Table};

use super::places::Places;
use super::variables::TOP;
use super::{Config, variables};
use crate::config::size::Size;
use crate::config::small_file;
use crate::plain;

/// The largest configuration.
const MOST: Size = Size(1 << 20);

/// How alike a key has to be to be meant: the share of its letters that are right.
const ALIKE: f64 = 0.6;

/// A configuration that cannot be used; ends the program with exit code 78.
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
    /// Something that `place` asks for and that cannot be.
    pub fn new(place: impl fmt::Display, message: impl fmt::Display) -> Self {
        Self {
            place: place.to_string(),
            message: message.to_string(),
        }
    }
}

/// A configuration, and what it came from.
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The keys that the file or a variable sets, like `window.length`.
    pub keys: Vec<String>,
    /// Where they are set.
    pub places: Places,
    /// Variables that look like ours and are none.
    pub strangers: Vec<String>,
}

impl Loaded {
    /// Reads the file, if any, the environment, and the file of names.
    pub fn from(path: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let (written, table, mut places) = match path {
            Some(path) => read(path)?,
            None => (Config::default(), Table::new(), Places::default()),
        };
        let found = variables::find()?;
        for variable in &found.ours {
            places.set(variable.key(), variable.name.clone());
        }
        let (mut config, table) = variables::put_over(table, found.ours)?;
        // No variable stands for them, and these know their lines.
        config.names = written.names;
        config.networks = config.read_names()?.map(Arc::new);
        let keys = table.iter().flat_map(|(section, keys)| {
            let keys = keys.as_table().into_iter().flat_map(Table::keys);
            keys.map(move |key| format!("{section}.{key}"))
        });
        Ok(Self {
            config,
            keys: keys.collect(),
            places,
            strangers: found.strangers,
        })
    }
}

fn read(path: &Path) -> Result<(Config, Table, Places), ConfigError> {
    let fault = |line: Option<usize>, message: String| {
        let line = line.map_or_else(String::new, |line| format!(", line {line}"));
        ConfigError::new(format_args!("{}{line}", path.display()), message)
    };
    let bytes = small_file::read(path, MOST)
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
        if TOP
            .iter()
            .any(|key| message.contains(&format!("unknown field `{key}`")))
        {
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
    Ok((config, table, Places::of_file(path, &text)))
}

/// The key that was meant, if an error is about one that there is not.
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
    let meant = quoted.max_by(|one, other| alike(one).total_cmp(&alike(other)));
    match meant.filter(|key| alike(key) > ALIKE) {
        Some(key) => format!("; did you mean `{key}`?"),
        None => String::new(),
    }
}

/// Where entries are written that others may contradict.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    names: Vec<Spanned<IgnoredAny>>,
}

/// The line of a text that has this byte.
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
    fn an_empty_file_is_the_default_and_so_is_the_example() {
        assert_eq!(read("").unwrap(), Config::default());
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("crane-agent.toml");
        assert_eq!(super::read(&example).unwrap().0, Config::default());
    }

    /// The example shows every key there is, commented out if it has no default.
    #[test]
    fn the_example_names_every_key() {
        let example = include_str!("../../crane-agent.toml");
        let sections = variables::SECTIONS.map(|(section, known)| (format!("[{section}]"), known));
        for (section, known) in [(String::new(), &TOP[..])].into_iter().chain(sections) {
            let error = read(&format!("{section}\nx = 1\n"))
                .unwrap_err()
                .to_string();
            let keys = error.split('`').skip(3).step_by(2);
            let keys: Vec<&str> = keys.take_while(|key| *key != "names").collect();
            assert_eq!(keys, known);
            for key in keys {
                let shown = example.lines().any(|line| {
                    let line = line.trim_start_matches("# ");
                    line.strip_prefix(key)
                        .is_some_and(|rest| rest.starts_with(" ="))
                });
                assert!(shown, "{section} {key} is not in the example");
            }
        }
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
                ["line 1", "names", "office", "a prefix and a name"],
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
                assert!(error.contains(part), "{error:?} does not say {part:?}");
            }
            assert!(!error.contains('\n'), "one line: {error:?}");
        }
    }
}
