//! A line, which has values for some of the columns.

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value as Json;

use super::columns::{self, COLUMNS};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// A JSON object per line, with the columns that the line has.
    Jsonl,
    /// Comma-separated values: all columns, with their names in the first line.
    Csv,
}

/// A value for each column, `None` where the line has none.
#[derive(Debug, Clone)]
pub struct Line([Option<Json>; COLUMNS.len()]);

impl Line {
    /// A line of this list.
    pub fn new(list: &str) -> Self {
        let mut line = Self([const { None }; COLUMNS.len()]);
        line.set("list", list);
        line
    }

    /// Sets the value of a column.
    pub fn set(&mut self, column: &str, value: impl Into<Json>) {
        let place = columns::place(column);
        debug_assert!(place.is_some(), "{column} is not in lines/columns.rs");
        if let Some(place) = place {
            self.0[place] = Some(value.into());
        }
    }

    /// The value of a column, if the line has it.
    #[cfg(test)]
    pub fn get(&self, column: &str) -> Option<&Json> {
        self.0[columns::place(column)?].as_ref()
    }

    /// Sets the columns named like the fields of `of` in JSON.
    pub fn add(&mut self, of: &impl Serialize) {
        if let Ok(value) = serde_json::to_value(of) {
            self.add_json("", value);
        }
    }

    /// Sets the columns of all fields of a JSON object, with `prefix` before each name.
    pub fn add_json(&mut self, prefix: &str, value: Json) {
        let Json::Object(fields) = value else {
            return;
        };
        for (name, value) in fields {
            let column = match (prefix, name.as_str()) {
                // `host` is the machine that the agent runs on.
                ("", "host") => "ip_host".into(),
                ("", _) => name,
                (prefix, _) => format!("{prefix}_{name}"),
            };
            match value {
                Json::Object(_) => self.add_json(&column, value),
                // A nested object that is null has no columns to set.
                Json::Null if columns::place(&column).is_none() => {}
                value => self.set(&column, value),
            }
        }
    }

    /// Sets all columns that have no value to null.
    pub fn fill(&mut self) {
        for value in &mut self.0 {
            value.get_or_insert(Json::Null);
        }
    }

    fn columns(&self) -> impl Iterator<Item = (&'static str, &Option<Json>)> {
        COLUMNS.iter().map(|(name, _)| *name).zip(&self.0)
    }

    /// Appends the line to `text`.
    pub fn write(&self, format: LineFormat, text: &mut String) {
        match format {
            LineFormat::Jsonl => self.write_json(text),
            LineFormat::Csv => self.write_csv(text),
        }
    }

    fn write_json(&self, text: &mut String) {
        let mut separator = '{';
        for (name, value) in self.columns() {
            if let Some(value) = value {
                text.push(separator);
                text.push_str(&format!("\"{name}\":{value}"));
                separator = ',';
            }
        }
        text.push_str("}\n");
    }

    fn write_csv(&self, text: &mut String) {
        for (n, (_, value)) in self.columns().enumerate() {
            if n > 0 {
                text.push(',');
            }
            match value {
                None | Some(Json::Null) => {}
                Some(Json::String(value)) => push_quoted(text, value),
                Some(value) => push_quoted(text, &value.to_string()),
            }
        }
        text.push('\n');
    }
}

impl LineFormat {
    pub fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Csv => "csv",
        }
    }

    /// The text before the first line.
    pub fn head(self) -> String {
        match self {
            Self::Jsonl => String::new(),
            Self::Csv => COLUMNS.map(|(name, _)| name).join(",") + "\n",
        }
    }

    /// The text of these lines, without the head.
    pub fn text(self, lines: &[Line]) -> String {
        let mut text = String::new();
        lines.iter().for_each(|line| line.write(self, &mut text));
        text
    }
}

/// Appends a value of CSV, quoted if necessary (RFC 4180).
fn push_quoted(text: &mut String, value: &str) {
    if !value.contains(['"', ',', '\n', '\r']) {
        return text.push_str(value);
    }
    text.push('"');
    text.push_str(&value.replace('"', "\"\""));
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_is_written_in_the_order_of_the_columns() {
        let mut line = Line::new("conversations");
        let row = json!({
            "packets": 3, "b": "::1", "a": "::1", "b_to_a": null,
            "a_to_b": { "packets": 3, "at_most": null },
        });
        line.add_json("", row);
        line.set("interface", "a \"b\", c");
        let text = LineFormat::Jsonl.text(&[line.clone()]);
        assert_eq!(
            text,
            "{\"list\":\"conversations\",\"interface\":\"a \\\"b\\\", c\",\"a\":\"::1\",\
             \"b\":\"::1\",\"packets\":3,\"a_to_b_packets\":3,\"a_to_b_at_most\":null}\n"
        );
        let text = LineFormat::Csv.text(&[line]);
        assert!(
            text.starts_with("conversations,,\"a \"\"b\"\", c\",,"),
            "{text}"
        );
        let head = LineFormat::Csv.head();
        // One comma is within a name.
        assert_eq!(text.matches(',').count(), head.matches(',').count() + 1);
        assert!(head.starts_with("list,host,interface,start,end,"), "{head}");
    }
}
