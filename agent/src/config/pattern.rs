//! Patterns of interface names: a name, a glob or a regular expression.

use std::fmt;

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

/// `eth0`, `eth*` or `/^veth[0-9]+$/`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    text: String,
    /// `None` for a plain name.
    regex: Option<Regex>,
}

impl Pattern {
    /// Whether this is a plain name, whose interface is expected to exist.
    pub fn is_name(&self) -> bool {
        self.regex.is_none()
    }

    pub fn matches(&self, name: &str) -> bool {
        match &self.regex {
            Some(regex) => regex.is_match(name),
            None => self.text == name,
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let expression = text
            .strip_prefix('/')
            .and_then(|rest| rest.strip_suffix('/'));
        let regex = match expression {
            Some(expression) => Some(expression.to_owned()),
            None if text.contains(['*', '?', '[']) => Some(glob(&text)),
            None => None,
        };
        let regex = regex.map(|regex| Regex::new(&regex)).transpose();
        let regex = regex.map_err(|error| {
            format!("{text:?}: {error}; write a name, a glob like eth* or a regular expression like /^eth/")
        })?;
        Ok(Self { text, regex })
    }
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.to_owned().try_into()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Converts a glob to a regular expression: `*` and `?` match anything, `[a-c]` and
/// `[!a-c]` one character of a set.
fn glob(text: &str) -> String {
    let mut regex = String::from("^");
    let mut in_set = false;
    for letter in text.chars() {
        match letter {
            ']' if in_set => {
                in_set = false;
                regex.push(']');
            }
            '!' if in_set && regex.ends_with('[') => regex.push('^'),
            '\\' | '[' if in_set => regex.extend(['\\', letter]),
            _ if in_set => regex.push(letter),
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => {
                in_set = true;
                regex.push('[');
            }
            _ => regex.push_str(&regex_lite::escape(&letter.to_string())),
        }
    }
    regex.push('$');
    regex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_globs_and_expressions() {
        let cases = [
            ("eth0", "eth0", "eth01"),
            ("eth*", "eth12", "veth1"),
            ("e?h0", "eth0", "eh0"),
            ("eth[0-3]", "eth2", "eth4"),
            ("eth[!0-3]", "eth4", "eth2"),
            ("br-*.1", "br-lan.1", "br-lan11"),
            ("/^veth|^tap/", "tap7", "xtap"),
        ];
        for (pattern, yes, no) in cases {
            let pattern: Pattern = pattern.parse().unwrap();
            assert!(pattern.matches(yes), "{pattern} {yes}");
            assert!(!pattern.matches(no), "{pattern} {no}");
        }
        for bad in ["/(/", "eth[0"] {
            let error = bad.parse::<Pattern>().unwrap_err();
            assert!(error.contains(bad), "{error}");
        }
    }
}
