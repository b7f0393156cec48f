//! A table: its columns, the order of its rows, and which rows are shown. A screen omits
//! columns that do not fit; text output has the columns that are marked for it.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::net::IpAddr;

use crate::text::columns::Columns;

#[derive(Debug, Default)]
pub struct Table {
    /// From left to right.
    pub columns: Vec<Column>,
    /// From top to bottom, with a cell for each column.
    pub rows: Vec<Row>,
    /// The column that rows are ordered by at first.
    pub sort: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    /// If not all columns fit, those with a higher rank are omitted first. Columns with
    /// rank 0 are always shown.
    pub rank: u8,
    /// Whether text output has this column.
    pub in_text: bool,
}

#[derive(Debug)]
pub struct Row {
    /// Identifies the row, the same at every refresh.
    pub key: String,
    /// One for each column.
    pub cells: Vec<Cell>,
}

/// Content of a cell.
#[derive(Debug)]
pub enum Cell {
    /// A name, and its address if it has one.
    Name {
        text: String,
        /// Address whose details can be opened.
        ip: Option<IpAddr>,
    },
    Number {
        text: String,
        /// Value used for sorting.
        size: f64,
    },
    /// A bar: guaranteed up to the first number, possible up to the second.
    Bar(f64, f64),
}

/// Order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sort {
    /// Index of the column.
    pub column: usize,
    /// Smallest values first.
    pub reversed: bool,
}

impl Column {
    pub const fn new(title: &'static str) -> Self {
        Self {
            title,
            rank: 0,
            in_text: true,
        }
    }

    /// A column that is omitted if there is no room.
    pub const fn optional(title: &'static str, rank: u8) -> Self {
        Self {
            title,
            rank,
            in_text: false,
        }
    }

    /// Sets whether text output has this column.
    pub const fn in_text(self, shown: bool) -> Self {
        Self {
            in_text: shown,
            ..self
        }
    }
}

impl Cell {
    /// A name without an address.
    pub fn name(text: impl Into<String>) -> Self {
        let (text, ip) = (text.into(), None);
        Self::Name { text, ip }
    }

    /// The name of an address.
    pub fn node(text: String, ip: IpAddr) -> Self {
        let ip = Some(ip);
        Self::Name { text, ip }
    }

    pub fn number(text: String, size: f64) -> Self {
        Self::Number { text, size }
    }

    /// Returns the text; empty for a bar.
    pub fn text(&self) -> &str {
        match self {
            Self::Name { text, .. } | Self::Number { text, .. } => text,
            Self::Bar(..) => "",
        }
    }

    /// Orders large numbers first and names alphabetically.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number { size, .. }, Self::Number { size: other, .. }) => other.total_cmp(size),
            (Self::Name { text, ip }, Self::Name { text: name, ip: at }) => {
                ip.cmp(at).then_with(|| text.cmp(name))
            }
            _ => Ordering::Equal,
        }
    }
}

impl Row {
    /// Returns its addresses from left to right.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let address = |cell: &Cell| match cell {
            Cell::Name { ip, .. } => *ip,
            _ => None,
        };
        self.cells.iter().filter_map(address).collect()
    }

    fn holds(&self, text: &str) -> bool {
        let mut cells = self.cells.iter();
        cells.any(|cell| match cell {
            Cell::Name { text: name, .. } => name.to_lowercase().contains(text),
            _ => false,
        })
    }
}

impl Table {
    /// Writes the table as text. Without rows, there is no header.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(first) = self.rows.first() else {
            return Ok(());
        };
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|at| self.columns[*at].in_text)
            .collect();
        let mut columns = Columns::default();
        for at in &shown {
            let title = self.columns[*at].title;
            match first.cells.get(*at) {
                Some(Cell::Number { .. }) => columns.add_number(title),
                _ => columns.add_name(title),
            }
        }
        for row in &self.rows {
            let text = |at: &usize| row.cells.get(*at).map_or("", Cell::text).to_owned();
            columns.push(shown.iter().map(text).collect());
        }
        writeln!(out)?;
        columns.write(out)
    }

    pub fn sort(&mut self, sort: Sort) {
        self.rows.sort_by(|one, other| {
            let cells = one.cells.get(sort.column).zip(other.cells.get(sort.column));
            let order = cells.map_or(Ordering::Equal, |(one, other)| one.compare(other));
            match sort.reversed {
                true => order.reverse(),
                false => order,
            }
        });
    }

    /// Keeps rows with a name that contains this text, ignoring case.
    pub fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        self.rows.retain(|row| row.holds(&text));
    }

    /// Returns the next column, or the previous one, that rows can be sorted by.
    pub fn next_column(&self, from: usize, back: bool) -> usize {
        let count = self.columns.len().max(1);
        let step = if back { count - 1 } else { 1 };
        // All rows have the same kinds of cells.
        let is_bar = |at: &usize| {
            let cell = self.rows.first().and_then(|row| row.cells.get(*at));
            matches!(cell, Some(Cell::Bar(..)))
        };
        let others = (1..=count).map(|far| (from + far * step) % count);
        others.into_iter().find(|at| !is_bar(at)).unwrap_or(from)
    }
}
