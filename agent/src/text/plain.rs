//! Escapes text for terminals.
//!
//! Names of files and interfaces may contain escape sequences. JSON and metrics escape them by
//! their format; all other output is escaped by this module.

use std::borrow::Cow;
use std::path::Path;

/// Escapes control characters, like `\u{1b}`.
pub fn text(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c.is_control() {
            true => plain.extend(c.escape_default()),
            false => plain.push(c),
        }
    }
    plain.into()
}

/// Escapes the value of a label in metrics.
pub fn label(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '"', '\n']) {
        return text.into();
    }
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    escaped.into()
}

/// Escapes a path.
pub fn path(path: &Path) -> String {
    text(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_characters_change() {
        assert_eq!(text("a\\b \"ü\" → c"), "a\\b \"ü\" → c");
        assert_eq!(text("\x1b[2J\r\n\u{9b}x"), "\\u{1b}[2J\\r\\n\\u{9b}x");
    }
}
