//! Rates of the last 2 and 10 seconds, of all keys that are known by name.
//!
//! A [`Moment`] has the counts of all these keys at one time. The server takes one every half
//! second while rates are requested, and a [`Track`] keeps the differences between each two
//! consecutive moments, the [steps](step). If a window ended in between, a step is the sum of
//! what the old window counted until its end and what the new one has counted so far.
//! [`Recent`] has the sums of the latest steps.
//!
//! A rate is a difference of counts divided by a measured time. It is null until this time has
//! been observed, and if more than a tenth of the packets is uncertain. That is possible for a
//! key that is not known by name, or that got its name during this time.

mod fastest;
mod recent;
mod step;
#[cfg(test)]
mod tests;
mod track;

use serde::{Deserialize, Serialize};

pub use fastest::{Fastest, FastestRows};
pub use recent::{Recent, Sums};
pub use track::{Moment, Track};

use super::conversations::ConversationKey;
use super::keys::{AddressKey, PairKey};
use super::view::View;
use crate::text::table::{Cell, Column};
use crate::text::units::Units;
use crate::traffic::edge::Pair;
use crate::traffic::question::By;
use crate::traffic::service::Service;

/// The period over which a rate is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    TwoSeconds,
    TenSeconds,
}

impl Period {
    pub const ALL: [Self; 2] = [Self::TwoSeconds, Self::TenSeconds];

    /// Name of the rate in the API.
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
    /// Packets or bytes in the window.
    Window(By),
    /// Current bits per second.
    Rate(Period),
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Self::Window(by) => by.name(),
            Self::Rate(period) => period.name(),
        }
    }

    /// The number that shares refer to.
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

/// Packets and bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    pub packets_per_second: f64,
    pub bits_per_second: f64,
}

/// The rates of a row. These fields are absent if rates were not requested, and null if they are
/// not known.
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
    /// The columns of the rates.
    pub fn columns() -> [Column; 2] {
        let column = |title, rank| Column::optional(title, rank).in_text(true);
        [column("2 s", 1), column("10 s", 3)]
    }

    /// A cell for each of these columns. Unknown rates sort below all others.
    pub fn cells(&self, units: Units) -> [Cell; 2] {
        Period::ALL.map(|period| match self.of(period) {
            None => Cell::number("–".into(), -1.0),
            Some(Rate {
                bits_per_second, ..
            }) => Cell::number(units.bits_per_second(bits_per_second), bits_per_second),
        })
    }
}

/// The measured length of each period in seconds. Null until it has been observed.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RateSeconds {
    pub rate_2s: Option<f64>,
    pub rate_10s: Option<f64>,
}

/// A key that has rates.
pub trait Rated {
    /// The rates of the address, pair or service that is shown by this key. `None` if the key
    /// stands for several.
    fn rates(&self, recent: &Recent, view: &View) -> Option<RowRates>;
}

impl Rated for PairKey {
    fn rates(&self, recent: &Recent, view: &View) -> Option<RowRates> {
        let pair = Pair::between(view.real(self.src)?, view.real(self.dst)?)?;
        Some(recent.rates(&recent.pairs, &[pair]))
    }
}

impl Rated for ConversationKey {
    /// The rates of both directions together.
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

/// The rates at which an address sends.
pub fn of_source(key: &AddressKey, recent: &Recent, view: &View) -> Option<RowRates> {
    Some(recent.rates(&recent.sources, &[view.real(key.ip)?]))
}

/// The rates at which an address receives.
pub fn of_destination(key: &AddressKey, recent: &Recent, view: &View) -> Option<RowRates> {
    Some(recent.rates(&recent.destinations, &[view.real(key.ip)?]))
}
