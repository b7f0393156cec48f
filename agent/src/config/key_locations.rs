//! Where the keys of a configuration are set, for errors in values that are found later.

use std::path::Path;

use toml::de::DeTable;

use super::read::line_of;
use crate::text::plain;

/// File and line, or variable, of each key that is set.
#[derive(Debug, Default)]
pub struct KeyLocations(Vec<(String, String)>);

impl KeyLocations {
    /// Finds the keys in a valid file with this text.
    pub fn of_file(path: &Path, text: &str) -> Self {
        let mut locations = Self::default();
        let Ok(table) = DeTable::parse(text) else {
            return locations;
        };
        for (section, keys) in table.get_ref() {
            for key in keys
                .get_ref()
                .as_table()
                .into_iter()
                .flat_map(|keys| keys.keys())
            {
                let line = line_of(text, key.span().start);
                let place = format!("{}, line {line}", plain::path(path));
                locations.set(format!("{}.{}", section.get_ref(), key.get_ref()), place);
            }
        }
        locations
    }

    /// Sets the place of a key, and replaces an earlier one.
    pub fn set(&mut self, key: String, place: String) {
        self.0.retain(|(known, _)| *known != key);
        self.0.push((key, place));
    }

    /// Formats a key like `capture.filter`, with its place if it is set.
    pub fn of(&self, key: &str) -> String {
        match self.0.iter().find(|(known, _)| known == key) {
            Some((_, place)) => format!("{place}: {key}"),
            None => key.to_owned(),
        }
    }
}
