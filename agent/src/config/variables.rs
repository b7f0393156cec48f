//! Environment variables that override keys of the file: `CRANE_SECTION_KEY`, and
//! `CRANE_KEY` for keys outside of sections.
//!
//! Other programs may set variables with the same prefix: Kubernetes sets `CRANE_PORT` and
//! others for a service named crane. Those are reported and ignored.

use serde::Deserialize;
use toml::{Table, Value};

use super::section::Key;
use super::{Config, ConfigError, keys};

/// Variables with this prefix configure the agent.
const PREFIX: &str = "CRANE_";
/// Variables that are not keys: the path of the file, and the password of clients.
const NO_KEYS: [&str; 2] = ["CRANE_CONFIG", "CRANE_PASSWORD"];

/// Variables with the prefix of the agent.
#[derive(Default)]
pub struct FoundVariables {
    /// Variables that set a key.
    pub keys: Vec<Variable>,
    /// Names of the other variables.
    pub unknown_variables: Vec<String>,
}

/// A variable that sets a key.
pub struct Variable {
    pub name: String,
    pub key: &'static Key,
    text: String,
}

/// Reads the environment.
pub fn find() -> Result<FoundVariables, ConfigError> {
    let mut found = FoundVariables::default();
    for (name, text) in std::env::vars_os() {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        if NO_KEYS.contains(&name) {
            continue;
        }
        let Some(key) = key_of(name) else {
            found.unknown_variables.push(name.to_owned());
            continue;
        };
        let text = text.into_string();
        found.keys.push(Variable {
            name: name.to_owned(),
            key,
            text: text.map_err(|_| ConfigError::new(name, "is not UTF-8"))?,
        });
    }
    found.unknown_variables.sort_unstable();
    Ok(found)
}

/// Returns the key that a variable sets.
fn key_of(name: &str) -> Option<&'static Key> {
    let name = name.strip_prefix(PREFIX)?.to_lowercase();
    keys().find(|key| key.path().replace('.', "_") == name)
}

/// Applies variables to a valid table one by one, so that an error is attributed to its
/// variable.
pub fn apply(mut table: Table, variables: Vec<Variable>) -> Result<(Config, Table), ConfigError> {
    for variable in variables {
        let Variable { name, key, text } = variable;
        let entries = match key.parts() {
            ("", _) => Some(&mut table),
            (section, _) => {
                let entry = table.entry(section).or_insert_with(|| Table::new().into());
                entry.as_table_mut()
            }
        };
        if let Some(entries) = entries {
            entries.insert(key.parts().1.into(), value(&text));
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

/// Parses the text as a TOML value (`192`, `["eth*"]`, `true`). Anything else is a string.
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
            let variable = Variable {
                name: name.to_owned(),
                key: key_of(name).unwrap(),
                text: text.to_owned(),
            };
            apply(file.clone(), vec![variable]).map(|(config, _)| config)
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
    fn other_variables_are_not_keys() {
        let path = |name| key_of(name).map(Key::path);
        assert_eq!(
            path("CRANE_SKETCH_MEMORY_TOTAL"),
            Some("sketch.memory_total")
        );
        assert_eq!(path("CRANE_NAMES_FILE"), Some("names_file"));
        for name in ["CRANE_PORT", "CRANE_CAPTURE_SNAPLNE", "CRANE_EXPORT_PORT"] {
            assert_eq!(path(name), None, "{name}");
        }
    }
}
