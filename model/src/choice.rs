//! Choices that have names, in files and on the command line.

use crate::{Error, Result};

/// The name of a choice.
pub(crate) fn name<T: PartialEq>(names: &[(&'static str, T)], choice: &T) -> &'static str {
    let named = names.iter().find(|(_, named)| named == choice);
    named.map_or("", |(name, _)| name)
}

/// The choice of that name.
pub(crate) fn parse<T: Copy>(
    what: &'static str,
    names: &[(&'static str, T)],
    text: &str,
) -> Result<T> {
    let named = names.iter().find(|(name, _)| *name == text);
    named.map(|(_, choice)| *choice).ok_or_else(|| {
        let allowed: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        Error::Setting {
            name: what,
            value: text.into(),
            allowed: allowed.join(", "),
        }
    })
}
