//! Variables `CRANE_SECTION_KEY` in the place of keys of the file, and `CRANE_KEY`
//! for the few keys above all sections.
//!
//! Others may have variables that begin like ours: Kubernetes sets `CRANE_PORT`
//! and more where a service is called crane. Those are named and do nothing.

use serde::Deserialize;
use toml::{Table, Value};

use super::{Config, ConfigError};

/// Variables with this prefix configure the agent.
const PREFIX: &str = "CRANE_";
/// Not keys: the file itself, and what a client says to a protected agent.
const NO_KEYS: [&str; 2] = ["CRANE_CONFIG", "CRANE_PASSWORD"];

/// Keys above all sections.
pub const TOP: [&str; 2] = ["names_file", "names_limit"];

/// All sections and their keys.
pub const SECTIONS: [(&str, &[&str]); 5] = [
    (
        "capture",
        &[
            "interfaces",
            "exclude",
            "filter",
            "snaplen",
            "promiscuous",
            "sample",
            "buffer_total",
            "ring_slots",
            "decap",
            "ipv6",
            "direction",
        ],
    ),
    ("window", &["length"]),
    (
        "sketch",
        &[
            "profile",
            "device",
            "weights",
            "memory",
            "memory_total",
            "node_percent",
            "batch",
            "linger_ms",
        ],
    ),
    (
        "export",
        &[
            "listen",
            "socket",
            "web_config",
            "hosts",
            "anonymise",
            "top",
            "watch",
        ],
    ),
    ("state", &["directory", "interval"]),
];

/// Variables that begin like ours.
#[derive(Default)]
pub struct Found {
    /// Those that stand for a key, which are set to a text.
    pub ours: Vec<Variable>,
    /// The names of the others.
    pub strangers: Vec<String>,
}

/// A variable that stands for a key.
pub struct Variable {
    /// What it is called.
    pub name: String,
    /// None for a key above all sections.
    section: Option<&'static str>,
    key: &'static str,
    text: String,
}

impl Variable {
    /// The key with its section, like `window.length`.
    pub fn key(&self) -> String {
        match self.section {
            Some(section) => format!("{section}.{}", self.key),
            None => self.key.to_owned(),
        }
    }
}

/// Looks through the environment.
pub fn find() -> Result<Found, ConfigError> {
    let mut found = Found::default();
    for (name, text) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        if NO_KEYS.contains(&name) {
            continue;
        }
        let Some((section, key)) = meaning(name) else {
            found.strangers.push(name.to_owned());
            continue;
        };
        let text = text.into_string();
        found.ours.push(Variable {
            name: name.to_owned(),
            section,
            key,
            text: text.map_err(|_| ConfigError::new(name, "is not UTF-8"))?,
        });
    }
    found.strangers.sort_unstable();
    Ok(found)
}

/// The section, if any, and the key that a variable stands for.
fn meaning(name: &str) -> Option<(Option<&'static str>, &'static str)> {
    let name = name.strip_prefix(PREFIX)?.to_lowercase();
    if let Some(key) = TOP.iter().find(|known| **known == name) {
        return Some((None, key));
    }
    let (section, key) = name.split_once('_')?;
    let (section, keys) = SECTIONS.iter().find(|(known, _)| *known == section)?;
    let key = keys.iter().find(|known| **known == key)?;
    Some((Some(section), key))
}

/// Puts variables over a table that is known to be right, one by one, so that
/// what goes wrong is the fault of the variable.
pub fn put_over(
    mut table: Table,
    variables: Vec<Variable>,
) -> Result<(Config, Table), ConfigError> {
    for variable in variables {
        let Variable {
            name,
            section,
            key,
            text,
        } = variable;
        let entries = match section {
            Some(section) => {
                let entry = table.entry(section).or_insert_with(|| Table::new().into());
                entry.as_table_mut()
            }
            None => Some(&mut table),
        };
        if let Some(entries) = entries {
            entries.insert(key.into(), value(&text));
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
    let config = Config::deserialize(table.clone());
    let config = config.map_err(|error| ConfigError::new("configuration", error.message()))?;
    Ok((config, table))
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

    #[test]
    fn variables_override_the_file() {
        let file: Table = toml::from_str("[capture]\nsnaplen = 100\nsample = 7\n").unwrap();
        let with = |name: &str, text: &str| {
            let (section, key) = meaning(name).unwrap();
            let variable = Variable {
                name: name.to_owned(),
                section,
                key,
                text: text.to_owned(),
            };
            put_over(file.clone(), vec![variable]).map(|(config, _)| config)
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
        assert_eq!(with("CRANE_NAMES_LIMIT", "7").unwrap().names_limit, 7);
        let name = "CRANE_CAPTURE_SNAPLEN";
        let error = with(name, "7").unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("64 to 32767"),
            "{error}"
        );
    }

    #[test]
    fn what_is_no_key_is_a_stranger() {
        assert_eq!(
            meaning("CRANE_SKETCH_MEMORY_TOTAL"),
            Some((Some("sketch"), "memory_total"))
        );
        assert_eq!(meaning("CRANE_NAMES_FILE"), Some((None, "names_file")));
        for name in ["CRANE_PORT", "CRANE_CAPTURE_SNAPLNE", "CRANE_EXPORT_PORT"] {
            assert_eq!(meaning(name), None, "{name}");
        }
    }
}
