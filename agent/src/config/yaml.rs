//! Parses YAML to a tree whose entries have line numbers.
//!
//! Only what the configuration needs is supported: one document with mappings, lists and
//! plain values. Anchors and tags are errors, so that a small file cannot expand to a large
//! tree. A crate that maps YAML with positions to types by serde would replace this file, but
//! has a dozen dependencies where the parser has one.

use saphyr_parser::{Event, Parser, ScanError, Span};

/// Deepest nesting; a real file has three levels.
const MAX_DEPTH: usize = 16;

/// A value and its line.
pub struct Node {
    /// Starting from 1.
    pub line: usize,
    pub value: Value,
}

pub enum Value {
    /// A string, a number or a boolean; empty if there is no value.
    Text(String),
    /// A list. Its content is not needed.
    List,
    /// A mapping, in the order of the file.
    Map(Vec<(String, Node)>),
}

/// An error and its line.
#[derive(Debug)]
pub struct Fault {
    /// Starting from 1.
    pub line: usize,
    pub message: String,
}

impl Fault {
    pub fn new(line: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { line, message }
    }
}

impl Node {
    /// Whether this is a mapping, which may be empty.
    pub fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// Returns the entries of the mapping `name`; empty if there is no value.
    pub fn entries(self, name: &str) -> Result<Vec<(String, Node)>, Fault> {
        match self.value {
            Value::Map(map) => Ok(map),
            Value::Text(text) if matches!(text.as_str(), "" | "~" | "null") => Ok(Vec::new()),
            _ => {
                let message = format!("{name}: has to be keys and values");
                Err(Fault::new(self.line, message))
            }
        }
    }

    /// Returns the string of the key `name`.
    pub fn text(self, name: &str) -> Result<String, Fault> {
        match self.value {
            Value::Text(text) => Ok(text),
            _ => Err(Fault::new(self.line, format!("{name}: has to be a text"))),
        }
    }

    /// Returns the boolean of the key `name`.
    pub fn flag(self, name: &str) -> Result<bool, Fault> {
        let line = self.line;
        match self.text(name)?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => {
                let message = format!("{name}: {other:?} is not true or false");
                Err(Fault::new(line, message))
            }
        }
    }
}

type Events<'a> = dyn Iterator<Item = Result<(Event<'a>, Span), ScanError>> + 'a;

/// Parses a file with one document. An empty file is an empty mapping.
pub fn parse(text: &str) -> Result<Node, Fault> {
    let mut events = Parser::new_from_str(text);
    let events: &mut Events<'_> = &mut events;
    let mut document = None;
    loop {
        match next(events)? {
            (Event::StreamEnd, _) => break,
            (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            (_, line) if document.is_some() => {
                return Err(Fault::new(line, "a second document: one is read"));
            }
            (event, line) => document = Some(node(events, event, line, MAX_DEPTH)?),
        }
    }
    let nothing = || Node {
        line: 1,
        value: Value::Map(Vec::new()),
    };
    Ok(document.unwrap_or_else(nothing))
}

fn next<'a>(events: &mut Events<'a>) -> Result<(Event<'a>, usize), Fault> {
    match events.next() {
        Some(Ok((event, span))) => Ok((event, span.start.line().max(1))),
        Some(Err(error)) => {
            let message = format!("is not YAML: {}", error.info());
            Err(Fault::new(error.marker().line().max(1), message))
        }
        None => Ok((Event::StreamEnd, 1)),
    }
}

/// Builds the node that starts with this event.
fn node<'a>(
    events: &mut Events<'a>,
    event: Event<'a>,
    line: usize,
    depth: usize,
) -> Result<Node, Fault> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Fault::new(line, "is nested too deeply"));
    };
    let unsupported = match &event {
        Event::Alias(_) => true,
        Event::Scalar(_, _, anchor, tag) => *anchor != 0 || tag.is_some(),
        Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
            *anchor != 0 || tag.is_some()
        }
        _ => false,
    };
    if unsupported {
        let message = "anchors, aliases and tags are not understood: write the value itself";
        return Err(Fault::new(line, message));
    }
    let value = match event {
        Event::Scalar(text, ..) => Value::Text(text.into_owned()),
        Event::SequenceStart(..) => loop {
            match next(events)? {
                (Event::SequenceEnd, _) => break Value::List,
                (event, line) => drop(node(events, event, line, depth)?),
            }
        },
        Event::MappingStart(..) => {
            let mut map: Vec<(String, Node)> = Vec::new();
            loop {
                let (event, line) = next(events)?;
                if event == Event::MappingEnd {
                    break Value::Map(map);
                }
                let Value::Text(key) = node(events, event, line, depth)?.value else {
                    return Err(Fault::new(line, "a key has to be a text"));
                };
                if map.iter().any(|(known, _)| *known == key) {
                    return Err(Fault::new(line, format!("{key}: is given twice")));
                }
                let (event, at) = next(events)?;
                let mut value = node(events, event, at, depth)?;
                // Errors in a value are reported at the line of its key.
                value.line = line;
                map.push((key, value));
            }
        }
        _ => return Err(Fault::new(line, "is not YAML: it ends too early")),
    };
    Ok(Node { line, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_lines_of_their_keys() {
        let text = "# first\na:\n  b: 'x: y'\n  c: [1, 2]\n\nd:\n";
        let Value::Map(top) = parse(text).unwrap().value else {
            panic!("a mapping");
        };
        assert_eq!((top[0].0.as_str(), top[0].1.line), ("a", 2));
        let Value::Map(inner) = &top[0].1.value else {
            panic!("a mapping");
        };
        assert!(matches!(&inner[0].1.value, Value::Text(text) if text == "x: y"));
        assert!(matches!(&inner[1].1.value, Value::List));
        assert_eq!((inner[1].1.line, top[1].1.line), (4, 6));
        assert!(matches!(parse("").unwrap().value, Value::Map(map) if map.is_empty()));
    }

    #[test]
    fn unsupported_yaml_is_rejected_with_its_line() {
        let deep = "[".repeat(100_000);
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: &x 1\nb: *x\n", 1),
            ("a: !!str 1\n", 1),
            ("a: 1\n---\nb: 2\n", 3),
            ("a: 1\n  b: [\n", 2),
            ("a:\n\t- b\n", 2),
            (deep.as_str(), 1),
        ] {
            let fault = parse(text).err().unwrap();
            assert_eq!(fault.line, line, "{}", fault.message);
        }
    }
}
