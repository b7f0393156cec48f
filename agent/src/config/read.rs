//! From a file and the environment to a configuration.
//!
//! Defaults, then the file, then variables `CRANE_SECTION_KEY`, then flags.
//! Unknown keys, wrong types and impossible values are errors that name the
//! file and line or the variable, the key, the value and what is allowed.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::Config;
use crate::config::size::Size;
use crate::config::small_file;

/// Variables with this prefix configure the agent.
const PREFIX: &str = "CRANE_";
/// Set by Kubernetes for a service of our name.
const FOREIGN: &str = "CRANE_AGENT_";
/// Not a key: names the file itself.
const FILE: &str = "CRANE_CONFIG";

/// The largest configuration.
const MOST: Size = Size(1 << 20);

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

impl Config {
    /// Reads the file, if any, and the environment.
    pub fn load(path: Option<&PathBuf>) -> Result<Self, ConfigError> {
        let table = match path {
            Some(path) => read(path)?.1,
            None => Table::new(),
        };
        override_with(table, variables()?.into_iter())
    }

    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        read(path).map(|(config, _)| config)
    }
}

/// The variables that configure the agent.
fn variables() -> Result<Vec<(String, String)>, ConfigError> {
    let mut variables = Vec::new();
    for (name, text) in std::env::vars_os() {
        // What is not ours may hold anything.
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        if name == FILE || name.starts_with(FOREIGN) {
            continue;
        }
        let text = text.into_string();
        let text = text.map_err(|_| ConfigError::new(name, "is not UTF-8"))?;
        variables.push((name.to_owned(), text));
    }
    Ok(variables)
}

fn read(path: &Path) -> Result<(Config, Table), ConfigError> {
    let fault = |line: Option<usize>, message: String| {
        let line = line.map_or_else(String::new, |line| format!(", line {line}"));
        ConfigError::new(format_args!("{}{line}", path.display()), message)
    };
    let bytes = small_file::read(path, MOST)
        .map_err(|error| fault(None, format!("cannot be read: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| fault(None, "is not UTF-8".into()))?;
    let explain = |error: toml::de::Error| {
        let span = error.span();
        let line = span
            .clone()
            .map(|span| 1 + text[..span.start].matches('\n').count());
        let written = span.and_then(|span| text.get(span)).unwrap_or_default();
        let mut message = error.message().replace('\n', ", ");
        if !written.is_empty() && !written.contains('\n') && !message.contains(written) {
            message = format!("{written}: {message}");
        }
        let key = line.and_then(|line| text.lines().nth(line - 1)?.split_once('='));
        if let Some((key, _)) = key
            && !message.contains(key.trim())
        {
            message = format!("{}: {message}", key.trim());
        }
        fault(line, message)
    };
    let config: Config = toml::from_str(&text).map_err(explain)?;
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
    Ok((config, table))
}

/// Puts variables over a table that is known to be right, one by one, so that
/// what goes wrong is the fault of the variable.
fn override_with(
    mut table: Table,
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let sections = ["capture", "window", "sketch", "export"];
    for (name, text) in variables {
        let key = name[PREFIX.len()..].to_lowercase();
        let found = key
            .split_once('_')
            .filter(|(section, _)| sections.contains(section));
        let Some((section, key)) = found else {
            let allowed = "known are CRANE_CONFIG and CRANE_SECTION_KEY, \
                           where SECTION is CAPTURE, WINDOW, SKETCH or EXPORT";
            return Err(ConfigError::new(
                name,
                format_args!("unknown variable; {allowed}"),
            ));
        };
        let entry = table.entry(section).or_insert_with(|| Table::new().into());
        if let Value::Table(entry) = entry {
            entry.insert(key.into(), value(&text));
        }
        let place = format!("{name}={text}");
        let config = Config::deserialize(table.clone()).map_err(|error| {
            let message = error.message().replace('\n', ", ");
            ConfigError::new(
                &place,
                format_args!("{message} (write values as in the file: 128, true, [\"eth0\"])"),
            )
        })?;
        config
            .check()
            .map_err(|error| ConfigError::new(&place, error))?;
    }
    Config::deserialize(table).map_err(|error| ConfigError::new("configuration", error.message()))
}

/// A variable's text as TOML writes values (`192`, `["eth*"]`, `true`); what
/// is none of these is a string.
fn value(text: &str) -> Value {
    let document = format!("value = {text}");
    let parsed = toml::from_str::<Table>(&document).ok();
    parsed
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path())
    }

    #[test]
    fn an_empty_file_is_the_default_and_so_is_the_example() {
        assert_eq!(read("").unwrap(), Config::default());
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("crane-agent.toml");
        assert_eq!(Config::read(&example).unwrap(), Config::default());
    }

    /// The example shows every key there is, commented out if it has no default.
    #[test]
    fn the_example_names_every_key() {
        let example = include_str!("../../crane-agent.toml");
        for section in ["capture", "window", "sketch", "export"] {
            let only = format!("[{section}]\nx = 1\n");
            let error = read(&only).unwrap_err().to_string();
            let keys: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
            assert!(!keys.is_empty(), "{error}");
            for key in keys {
                let shown = example.lines().any(|line| {
                    let line = line.trim_start_matches("# ");
                    line.strip_prefix(key)
                        .is_some_and(|rest| rest.starts_with(" ="))
                });
                assert!(shown, "{section}.{key} is not in the example");
            }
        }
    }

    #[test]
    fn errors_name_line_key_value_and_what_is_allowed() {
        let cases: [(&str, [&str; 4]); 15] = [
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
                ["line 2", "listen", "here", "invalid"],
            ),
            (
                "[export]\ntop = \"ten\"\n",
                ["line 2", "top", "ten", "expected"],
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
                ["line 2", "length", "60", "expected a string"],
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

    #[test]
    fn variables_override_the_file() {
        let file: Table = toml::from_str("[capture]\nsnaplen = 100\nsample = 7\n").unwrap();
        let with = |name: &str, text: &str| {
            override_with(
                file.clone(),
                [(name.to_owned(), text.to_owned())].into_iter(),
            )
        };
        let config = with("CRANE_CAPTURE_SNAPLEN", "128").unwrap();
        assert_eq!((config.capture.snaplen, config.capture.sample), (128, 7));
        assert_eq!(
            with("CRANE_WINDOW_LENGTH", "5s")
                .unwrap()
                .window
                .length
                .to_string(),
            "5s"
        );
        assert!(
            with("CRANE_CAPTURE_INTERFACES", "[\"eth*\"]")
                .unwrap()
                .capture
                .interfaces[0]
                .matches("eth1")
        );
        for (name, text, part) in [
            ("CRANE_CAPTURE_SNAPLEN", "7", "64 to 32767"),
            ("CRANE_CAPTURE_SNAPLNE", "7", "snaplen"),
            ("CRANE_SNAPLEN", "7", "CRANE_SECTION_KEY"),
        ] {
            let error = with(name, text).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(part), "{error}");
        }
    }
}
