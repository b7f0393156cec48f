//! How fast now: rates of the last 2 and 10 seconds, of everything that is known by name.
//!
//! A [`Moment`] is what was counted by name at one time. Whoever serves takes one every half
//! second while someone is interested, and a [`Track`] keeps how much came between each two
//! of them: [`Steps`](step). Across the end of a window a step is what the old window got
//! until its end, which is known for good, and what the new one has. [`Recent`] are the sums
//! of the latest steps.
//!
//! A rate is a difference of counts over a measured time. It is null until so much time was
//! observed, and where more than a tenth of it is not certain: of who has no name, or got
//! one meanwhile without all of it being known.

mod fastest;
mod moment;
mod recent;
mod step;
#[cfg(test)]
mod tests;
mod track;

use serde::{Deserialize, Serialize};

pub use fastest::{Fastest, FastestRows};
pub use moment::Moment;
pub use recent::{Recent, Sums};
pub use track::Track;

use super::conversations::ConversationKey;
use super::keys::{AddressKey, PairKey};
use super::view::View;
use crate::text::table::{Cell, Column};
use crate::text::units::Units;
use crate::traffic::edge::Pair;
use crate::traffic::question::By;
use crate::traffic::service::Service;

/// The time that a rate is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    TwoSeconds,
    TenSeconds,
}

impl Period {
    pub const ALL: [Self; 2] = [Self::TwoSeconds, Self::TenSeconds];

    /// Its rate in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::TwoSeconds => "rate_2s",
            Self::TenSeconds => "rate_10s",
        }
    }
}

/// What lists are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// What they had in the window.
    Window(By),
    /// How fast they are now, in bits.
    Rate(Period),
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Self::Window(by) => by.name(),
            Self::Rate(period) => period.name(),
        }
    }

    /// What shares are of.
    pub fn by(self) -> By {
        match self {
            Self::Window(by) => by,
            Self::Rate(_) => By::Bytes,
        }
    }

    pub fn period(self) -> Option<Period> {
        match self {
            Self::Window(_) => None,
            Self::Rate(period) => Some(period),
        }
    }
}

/// How much came in a time, a second of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    pub packets_per_second: f64,
    pub bits_per_second: f64,
}

/// The rates of a row. A row without these fields was not asked for them, which is not the
/// same as null.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RowRates {
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_2s: Option<Rate>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate_10s: Option<Rate>,
}

impl RowRates {
    pub fn of(&self, period: Period) -> Option<Rate> {
        match period {
            Period::TwoSeconds => self.rate_2s,
            Period::TenSeconds => self.rate_10s,
        }
    }
}

impl RowRates {
    /// The columns of its numbers.
    pub fn columns() -> [Column; 2] {
        let column = |title, rank| Column::optional(title, rank).in_text(true);
        [column("2 s", 1), column("10 s", 3)]
    }

    /// A cell for each of these columns; those that are not known come last in any order.
    pub fn cells(&self, units: Units) -> [Cell; 2] {
        Period::ALL.map(|period| match self.of(period) {
            None => Cell::number("–".into(), -1.0),
            Some(Rate {
                bits_per_second, ..
            }) => Cell::number(units.bits_per_second(bits_per_second), bits_per_second),
        })
    }
}

/// Of how many seconds each rate is, as measured; null until so much was observed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RateSeconds {
    pub rate_2s: Option<f64>,
    pub rate_10s: Option<f64>,
}

/// A key that has rates.
pub trait Rated {
    /// Its rates, of who is shown by it; none where that is not one alone.
    fn rates(&self, recent: &Recent, view: &View) -> Option<RowRates>;
}

impl Rated for PairKey {
    fn rates(&self, recent: &Recent, view: &View) -> Option<RowRates> {
        let pair = Pair::between(view.real(self.src)?, view.real(self.dst)?)?;
        Some(recent.rates(&recent.pairs, &[pair]))
    }
}

impl Rated for ConversationKey {
    /// Of both directions together.
    fn rates(&self, recent: &Recent, view: &View) -> Option<RowRates> {
        let pair = Pair::between(view.real(self.a)?, view.real(self.b)?)?;
        let ways = [pair, pair.reversed()];
        let ways = if pair == pair.reversed() {
            &ways[..1]
        } else {
            &ways
        };
        Some(recent.rates(&recent.pairs, ways))
    }
}

impl Rated for Service {
    fn rates(&self, recent: &Recent, _: &View) -> Option<RowRates> {
        Some(recent.rates(&recent.services, &[*self]))
    }
}

/// The rates of an address that sends.
pub fn of_source(key: &AddressKey, recent: &Recent, view: &View) -> Option<RowRates> {
    Some(recent.rates(&recent.sources, &[view.real(key.ip)?]))
}

/// The rates of an address that receives.
pub fn of_destination(key: &AddressKey, recent: &Recent, view: &View) -> Option<RowRates> {
    Some(recent.rates(&recent.destinations, &[view.real(key.ip)?]))
}
