//! Enumerations whose variants have names in files and on the command line.

use crate::{Error, Result};

/// The name of a variant.
pub(crate) fn name<T: PartialEq>(names: &[(&'static str, T)], choice: &T) -> &'static str {
    let named = names.iter().find(|(_, named)| named == choice);
    named.map_or("", |(name, _)| name)
}

/// The variant with this name. Returns an error that lists all allowed names if there is
/// none.
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
            allowed: format!("one of {}", allowed.join(", ")),
        }
    })
}
