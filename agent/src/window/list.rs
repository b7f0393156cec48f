//! One type for every list: rows of a key and a value in one order, and an upper bound for all keys
//! that are not in it.
//!
//! JSON, text tables and metrics are made of a [`List`]. A new kind of list needs a [`Key`] and a
//! field of [`Lists`](super::lists::Lists).

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::estimate::{Estimate, PeerEstimate};
use super::rates::RowRates;
use crate::text::table::{self, Cell, Column, Table};
use crate::text::units::Units;
use crate::traffic::question::By;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row<K, V = Estimate> {
    #[serde(flatten)]
    pub key: K,
    #[serde(flatten)]
    pub value: V,
    /// The current rates, if they were requested.
    #[serde(flatten)]
    pub rates: Option<RowRates>,
}

impl<K, V> Row<K, V> {
    pub fn new(key: K, value: V) -> Self {
        Self {
            key,
            value,
            rates: None,
        }
    }
}

/// A list in one order, heaviest first.
#[derive(Debug, Clone)]
pub struct List<K, V = Estimate> {
    pub rows: Vec<Row<K, V>>,
    /// Upper bound for every key that is not in the list. `None` if it is not known.
    pub others_at_most: Option<u64>,
    /// Whether heavier keys may be missing. Then the rows are the heaviest that are known by name.
    pub incomplete: bool,
}

/// The key of a row: a pair, an address, a service.
pub trait Key: Serialize + DeserializeOwned + Clone {
    /// Title of a text column after the numbers, if there is one.
    const REMARK: Option<&'static str> = None;

    /// One cell for each title of the list.
    fn cells(&self) -> Vec<Cell>;

    /// Text of the column [`Self::REMARK`].
    fn remark(&self) -> String {
        String::new()
    }

    /// Labels in metrics, each with a leading comma.
    fn labels(&self) -> String;

    /// Whether both keys are shown as the same.
    fn is_same(&self, other: &Self) -> bool;

    /// Merges another key that is shown as the same.
    fn join(&mut self, _: &Self) {}
}

/// What numbers of a window are shown relative to, and how.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    pub units: Units,
    pub by: By,
    /// Packets and bytes of the window, which shares refer to.
    pub total: [u64; 2],
    /// Length of the window, if it has one.
    pub seconds: Option<f64>,
}

/// The numbers of a row.
pub trait Value: Serialize + DeserializeOwned + Clone {
    /// Whether the list can be ordered by bytes.
    const HAS_BYTES: bool;

    /// The number that rows are ordered by.
    fn size(&self, by: By) -> u64;

    /// The upper bound of that number: the guaranteed one, or that of the 90 % interval if nothing
    /// is guaranteed.
    fn at_most(&self, by: By) -> u64;

    /// The columns of the numbers. `remark` is true if a text column follows.
    fn columns(numbers: &Numbers, title: &'static str, remark: bool) -> Vec<Column>;

    /// One cell for each of these columns.
    fn cells(&self, numbers: &Numbers) -> Vec<Cell>;

    /// Merges the numbers of another row of the same key.
    fn join(&mut self, other: &Self);
}

impl<K, V> Default for List<K, V> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            others_at_most: None,
            incomplete: false,
        }
    }
}

impl<K: Key, V: Value> List<K, V> {
    /// Merges rows whose keys are shown as the same. After that no upper bound for other keys is
    /// known.
    pub fn joined(self, by: By) -> Self {
        let mut rows = join(self.rows);
        // The sort is stable.
        rows.sort_by_key(|row| std::cmp::Reverse(row.value.size(by)));
        Self {
            rows,
            others_at_most: None,
            incomplete: self.incomplete,
        }
    }

    /// Keeps the first `top` rows. The upper bound for other keys then includes the removed rows.
    pub fn truncate(&mut self, top: usize, by: By) {
        let cut = self.rows.drain(top.min(self.rows.len())..);
        let most = cut.map(|row| row.value.at_most(by)).max().unwrap_or(0);
        self.others_at_most = self.others_at_most.map(|others| others.max(most));
    }

    /// Makes a text table. `title` is the title of the number if a row has only one.
    pub fn table(&self, numbers: &Numbers, titles: &[&'static str], title: &'static str) -> Table {
        let remark = K::REMARK.map(|title| Column::optional(title, 1).in_text(true));
        let mut columns: Vec<Column> = titles.iter().map(|title| Column::new(title)).collect();
        let sort = columns.len() + usize::from(V::HAS_BYTES && numbers.by == By::Bytes);
        columns.extend(V::columns(numbers, title, remark.is_some()));
        let has_rates = self.rows.iter().any(|row| row.rates.is_some());
        if has_rates {
            columns.extend(RowRates::columns());
        }
        columns.extend(remark);
        let rows = self.rows.iter().map(|row| {
            let mut cells = row.key.cells();
            let key = cells.iter().map(Cell::text).collect::<Vec<_>>().join(" ");
            cells.extend(row.value.cells(numbers));
            if has_rates {
                cells.extend(row.rates.unwrap_or_default().cells(numbers.units));
            }
            cells.extend(K::REMARK.map(|_| Cell::name(row.key.remark())));
            table::Row { key, cells }
        });
        Table {
            columns,
            rows: rows.collect(),
            sort,
        }
    }
}

/// Merges rows whose keys are shown as the same.
pub fn join<K: Key, V: Value>(all: Vec<Row<K, V>>) -> Vec<Row<K, V>> {
    let mut rows: Vec<Row<K, V>> = Vec::new();
    for row in all {
        match rows.iter_mut().find(|seen| seen.key.is_same(&row.key)) {
            Some(seen) => {
                seen.key.join(&row.key);
                seen.value.join(&row.value);
            }
            None => rows.push(row),
        }
    }
    rows
}

/// A share as text.
pub fn share(part: u64, of: u64) -> String {
    format!("{:.2}%", 100.0 * part as f64 / of.max(1) as f64)
}

impl Numbers {
    /// The total that shares refer to.
    fn whole(&self) -> u64 {
        match self.by {
            By::Packets => self.total[0],
            By::Bytes => self.total[1],
        }
    }

    pub fn count(&self, number: u64) -> Cell {
        Cell::number(self.units.count(number), number as f64)
    }

    pub fn bytes(&self, number: u64) -> Cell {
        Cell::number(self.units.bytes(number), number as f64)
    }

    /// A cell with the mean rate of this number of bytes.
    pub fn rate(&self, bytes: u64) -> Cell {
        let seconds = self.seconds.filter(|seconds| *seconds > 0.0);
        let rate = seconds.map(|seconds| 8.0 * bytes as f64 / seconds);
        let shown = rate.map_or_else(|| "–".into(), |rate| self.units.bits_per_second(rate));
        Cell::number(shown, rate.unwrap_or(0.0))
    }

    /// A cell with the share of the number that is shown.
    pub fn share(&self, part: u64) -> Cell {
        let whole = self.whole();
        Cell::number(share(part, whole), part as f64 / whole.max(1) as f64)
    }

    pub fn bar(&self, low: u64, high: u64) -> Cell {
        let whole = self.whole().max(1) as f64;
        Cell::Bar(low as f64 / whole, high as f64 / whole)
    }
}

impl Value for Estimate {
    const HAS_BYTES: bool = true;

    fn size(&self, by: By) -> u64 {
        match by {
            By::Packets => self.packets,
            By::Bytes => self.bytes,
        }
    }

    fn columns(_: &Numbers, _: &'static str, remark: bool) -> Vec<Column> {
        vec![
            Column::new("packets"),
            Column::new("bytes"),
            // Otherwise text tables do not fit into 80 columns.
            Column::optional("rate", 3).in_text(!remark),
            Column::optional("share", 2).in_text(true),
            Column::optional("", 1),
            Column::optional("90 %", 4),
        ]
    }

    fn cells(&self, numbers: &Numbers) -> Vec<Cell> {
        let units = numbers.units;
        let [low, value, high] = match numbers.by {
            By::Packets => [self.low, self.packets, self.high],
            By::Bytes => [self.bytes_low, self.bytes, self.bytes_high],
        };
        // A cell for the interval, empty if the answer is exact.
        let interval = match numbers.by {
            _ if low == high => String::new(),
            By::Packets => format!("{}–{}", units.count(low), units.count(high)),
            By::Bytes => format!("{}–{}", units.bytes(low), units.bytes(high)),
        };
        vec![
            numbers.count(self.packets),
            numbers.bytes(self.bytes),
            numbers.rate(self.bytes),
            numbers.share(value),
            numbers.bar(low, high),
            Cell::number(interval, (high - low.min(high)) as f64),
        ]
    }

    /// Estimates, intervals and bounds are added up.
    fn join(&mut self, other: &Self) {
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        for (sum, more) in [
            (&mut self.packets, other.packets),
            (&mut self.low, other.low),
            (&mut self.high, other.high),
            (&mut self.bytes, other.bytes),
            (&mut self.bytes_low, other.bytes_low),
            (&mut self.bytes_high, other.bytes_high),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.at_least = both(self.at_least, other.at_least);
        self.at_most = both(self.at_most, other.at_most);
        self.bytes_at_least = both(self.bytes_at_least, other.bytes_at_least);
        self.bytes_at_most = both(self.bytes_at_most, other.bytes_at_most);
    }

    fn at_most(&self, by: By) -> u64 {
        match by {
            By::Packets => self.at_most.unwrap_or(self.high),
            By::Bytes => self.bytes_at_most.unwrap_or(self.bytes_high),
        }
    }
}

impl Value for PeerEstimate {
    const HAS_BYTES: bool = false;

    fn size(&self, _: By) -> u64 {
        self.peers
    }

    fn columns(_: &Numbers, title: &'static str, _: bool) -> Vec<Column> {
        vec![
            Column::new(title),
            Column::optional("", 1),
            Column::optional("90 %", 2).in_text(true),
        ]
    }

    fn cells(&self, numbers: &Numbers) -> Vec<Cell> {
        vec![
            numbers.count(self.peers),
            Cell::Bar(self.low as f64, self.high as f64),
            Cell::number(
                self.between(numbers.units),
                (self.high - self.low.min(self.high)) as f64,
            ),
        ]
    }

    /// The number of peers of two addresses together is not known, so the larger one is kept.
    fn join(&mut self, other: &Self) {
        if other.peers > self.peers {
            *self = *other;
        }
        self.exact = false;
    }

    fn at_most(&self, _: By) -> u64 {
        self.high
    }
}
