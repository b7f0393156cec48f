//! Where the keys of a configuration are written, for what is found wrong with their
//! values only later.

use std::path::Path;

use toml::de::DeTable;

use super::read::line_of;
use crate::plain;

/// The places of keys that a file or a variable sets.
#[derive(Debug, Default)]
pub struct Places(Vec<(String, String)>);

impl Places {
    /// Those of a file with this text, which is known to be right.
    pub fn of_file(path: &Path, text: &str) -> Self {
        let mut places = Self::default();
        let Ok(table) = DeTable::parse(text) else {
            return places;
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
                places.set(format!("{}.{}", section.get_ref(), key.get_ref()), place);
            }
        }
        places
    }

    /// A key is written at `place`, whatever was said of it before.
    pub fn set(&mut self, key: String, place: String) {
        self.0.retain(|(known, _)| *known != key);
        self.0.push((key, place));
    }

    /// Names a key like `capture.filter`, and where it is written if it is.
    pub fn of(&self, key: &str) -> String {
        match self.0.iter().find(|(known, _)| known == key) {
            Some((_, place)) => format!("{place}: {key}"),
            None => key.to_owned(),
        }
    }
}
