//! A text table with columns as wide as their content.

use std::io::{self, Write};

const INDENT: &str = "  ";

/// A table to which rows are added.
#[derive(Default)]
pub struct Columns {
    heads: Vec<Head>,
    rows: Vec<Vec<String>>,
}

struct Head {
    title: String,
    /// Whether cells are aligned to the left, as names are. Numbers are aligned to the right.
    is_name: bool,
}

impl Columns {
    /// A table with columns of names, followed by columns of numbers.
    pub fn new(names: &[&str], numbers: &[&str]) -> Self {
        let head = |title: &&str, is_name| Head {
            title: (*title).to_owned(),
            is_name,
        };
        let names = names.iter().map(|title| head(title, true));
        let numbers = numbers.iter().map(|title| head(title, false));
        Self {
            heads: names.chain(numbers).collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a column of names.
    pub fn add_name(&mut self, title: &str) {
        self.heads.push(Head {
            title: title.to_owned(),
            is_name: true,
        });
    }

    /// Appends a column of numbers.
    pub fn add_number(&mut self, title: &str) {
        self.heads.push(Head {
            title: title.to_owned(),
            is_name: false,
        });
    }

    /// Adds a row with a cell for each column.
    pub fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes the header and all rows. Without rows, writes nothing.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let widths: Vec<usize> = (0..self.heads.len()).map(|at| self.width(at)).collect();
        let titles = self.heads.iter().map(|head| head.title.clone());
        self.write_row(out, &widths, &titles.collect::<Vec<_>>())?;
        let mut rows = self.rows.iter();
        rows.try_for_each(|row| self.write_row(out, &widths, row))
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        let all = cells.chain([&self.heads[at].title]);
        all.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn write_row(&self, out: &mut impl Write, widths: &[usize], row: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for ((cell, width), head) in row.iter().zip(widths).zip(&self.heads) {
            line += INDENT;
            line += &match head.is_name {
                true => format!("{cell:<width$}"),
                false => format!("{cell:>width$}"),
            };
        }
        writeln!(out, "{}", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_content() {
        let mut table = Columns::new(&["who", ""], &["n"]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        assert!(text.is_empty(), "no head without rows");
        table.push(vec!["ä→b".into(), "x".into(), "1234".into()]);
        table.push(vec!["c".into(), "".into(), "5".into()]);
        table.write(&mut text).unwrap();
        let expected = "  who        n\n  ä→b  x  1234\n  c          5\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
