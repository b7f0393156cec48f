//! A table on the screen: what its columns are, in which order its rows stand,
//! which of them are shown.

use std::cmp::Ordering;
use std::net::IpAddr;

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    /// From left to right.
    pub columns: Vec<Column>,
    /// From top to bottom, with a cell for each column.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// What stands above it.
    pub title: &'static str,
    /// Where there is no room for all, columns with a higher number go first;
    /// those with 0 stay.
    pub rank: u8,
}

/// A row.
#[derive(Debug)]
pub struct Row {
    /// What it is about, the same in every refresh.
    pub key: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// What stands in a cell.
#[derive(Debug)]
pub enum Cell {
    /// A name, and the address that it is the name of.
    Name {
        /// As it is shown.
        text: String,
        /// What can be opened.
        ip: Option<IpAddr>,
    },
    /// A number.
    Number {
        /// As it is shown.
        text: String,
        /// What to sort by.
        size: f64,
    },
    /// A bar: certain up to the first number, possible up to the second.
    Bar(f64, f64),
}

/// By which column rows are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sort {
    /// Its number.
    pub column: usize,
    /// The other way round: the least first.
    pub reversed: bool,
}

impl Column {
    /// A column that is always there.
    pub const fn new(title: &'static str) -> Self {
        Self { title, rank: 0 }
    }

    /// A column that goes where there is no room.
    pub const fn optional(title: &'static str, rank: u8) -> Self {
        Self { title, rank }
    }
}

impl Cell {
    /// A name of no address.
    pub fn name(text: impl Into<String>) -> Self {
        let (text, ip) = (text.into(), None);
        Self::Name { text, ip }
    }

    /// The name of an address.
    pub fn node(text: String, ip: IpAddr) -> Self {
        let ip = Some(ip);
        Self::Name { text, ip }
    }

    /// A number.
    pub fn number(text: String, size: f64) -> Self {
        Self::Number { text, size }
    }

    /// What is shown of it; nothing of a bar.
    pub fn text(&self) -> &str {
        match self {
            Self::Name { text, .. } | Self::Number { text, .. } => text,
            Self::Bar(..) => "",
        }
    }

    /// Large numbers and the first letters come first.
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
    /// The addresses in it, from left to right.
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
    /// Puts rows in order.
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

    /// Leaves rows in whose names this text is, in large or small letters.
    pub fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        self.rows.retain(|row| row.holds(&text));
    }

    /// The next column, or the one before, that rows can be ordered by.
    pub fn next_column(&self, from: usize, back: bool) -> usize {
        let count = self.columns.len().max(1);
        let step = if back { count - 1 } else { 1 };
        // Rows have the same kinds of cells.
        let is_bar = |at: &usize| {
            let cell = self.rows.first().and_then(|row| row.cells.get(*at));
            matches!(cell, Some(Cell::Bar(..)))
        };
        let others = (1..=count).map(|far| (from + far * step) % count);
        others.into_iter().find(|at| !is_bar(at)).unwrap_or(from)
    }
}
