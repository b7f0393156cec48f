//! Packets and bytes of the last 2 and 10 seconds, as sums of steps.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::step::{Increment, Kind};
use super::track::Track;
use super::{Period, Rate, RateSeconds, RowRates};
use crate::sketches::counts::Named;
use crate::traffic::edge::Pair;
use crate::traffic::service::Service;

/// A rate is known if at most one packet in this many is uncertain.
const UNSURE: u64 = 10;

impl Period {
    /// How long before the latest moment the measurement may begin. It is shorter than the period,
    /// because packets take a while from the wire to a sketch and the latest moment may be a while
    /// ago: traffic that began or ended a whole period ago then has its correct rate.
    fn lengths(self) -> RangeInclusive<Duration> {
        let ms = Duration::from_millis;
        match self {
            Self::TwoSeconds => ms(1000)..=ms(1600),
            Self::TenSeconds => ms(8800)..=ms(9600),
        }
    }

    /// The longest measurement, used if moments are too far apart for [`Self::lengths`].
    fn longest(self) -> Duration {
        match self {
            Self::TwoSeconds => Duration::from_secs(3),
            Self::TenSeconds => Duration::from_secs(12),
        }
    }

    /// The index in `times` at which the measurement begins. It ends at the last of `times`.
    fn begin(self, times: &[Duration]) -> Option<usize> {
        let (end, began) = times.split_last()?;
        let long = |at: &usize| *end - began[*at];
        let fits = |at: &usize| self.lengths().contains(&long(at));
        let is_later = |at: &usize| long(at) >= *self.lengths().end() && long(at) <= self.longest();
        let all = 0..began.len();
        all.clone().find(fits).or_else(|| all.rev().find(is_later))
    }
}

/// Sums of the latest steps for each kind of key.
pub struct Recent {
    pub seconds: RateSeconds,
    pub pairs: Sums<Pair>,
    pub sources: Sums<IpAddr>,
    pub destinations: Sums<IpAddr>,
    pub services: Sums<Service>,
}

/// Packets and bytes of all keys of one kind in each [`Period`].
pub struct Sums<K> {
    rows: HashMap<K, [Increment; 2]>,
    /// Upper bound of the packets of a key that is in no step.
    others: [u64; 2],
    newest: Arc<Named<K>>,
}

impl Recent {
    /// The sums of the latest steps.
    pub(super) fn of(track: &Track) -> Self {
        let begins = Period::ALL.map(|period| period.begin(&track.times));
        let end = track.times.last().copied().unwrap_or_default();
        let [rate_2s, rate_10s] =
            begins.map(|at| at.map(|at| (end - track.times[at]).as_secs_f64()));
        Self {
            seconds: RateSeconds { rate_2s, rate_10s },
            pairs: Sums::of(&track.pairs, begins),
            sources: Sums::of(&track.sources, begins),
            destinations: Sums::of(&track.destinations, begins),
            services: Sums::of(&track.services, begins),
        }
    }

    /// The rates of these keys together.
    pub fn rates<K: Copy + Ord + Hash>(&self, sums: &Sums<K>, keys: &[K]) -> RowRates {
        let rate = |period: Period, seconds: Option<f64>| {
            let mut sum = Increment::default();
            for key in keys {
                sum.add(&sums.of_key(key, period));
            }
            sum.rate(seconds?)
        };
        RowRates {
            rate_2s: rate(Period::TwoSeconds, self.seconds.rate_2s),
            rate_10s: rate(Period::TenSeconds, self.seconds.rate_10s),
        }
    }

    /// The conversations with the most bytes, each as one of its pairs.
    pub(super) fn fastest_conversations(&self, top: usize, period: Period) -> Vec<Pair> {
        let mut both: HashMap<Pair, Increment> = HashMap::new();
        for (pair, increments) in &self.pairs.rows {
            let one = (*pair).min(pair.reversed());
            both.entry(one)
                .or_default()
                .add(&increments[period as usize]);
        }
        fastest(both.into_iter(), top)
    }
}

impl Increment {
    /// Packets and bits per second. `None` if too many packets are uncertain.
    fn rate(&self, seconds: f64) -> Option<Rate> {
        let is_known = self.unsure.saturating_mul(UNSURE) <= self.packets;
        (is_known && seconds > 0.0).then(|| Rate {
            packets_per_second: self.packets as f64 / seconds,
            bits_per_second: 8.0 * self.bytes as f64 / seconds,
        })
    }
}

impl<K: Copy + Ord + Hash> Sums<K> {
    fn of(kind: &Kind<K>, begins: [Option<usize>; 2]) -> Self {
        let mut rows: HashMap<K, [(Increment, u64); 2]> = HashMap::new();
        let mut others = [0u64; 2];
        for (period, begin) in begins.into_iter().enumerate() {
            let steps = begin.and_then(|begin| kind.steps.get(begin..));
            for step in steps.unwrap_or_default() {
                others[period] = others[period].saturating_add(step.others);
                for (key, increment) in &step.rows {
                    let (sum, listed) = &mut rows.entry(*key).or_default()[period];
                    sum.add(increment);
                    *listed = listed.saturating_add(step.others);
                }
            }
        }
        // In steps without a row of this key, it may have had as much as any other unlisted key.
        let whole = |(key, sums): (K, [(Increment, u64); 2])| {
            let mut whole = sums.map(|(sum, _)| sum);
            for (period, (_, listed)) in sums.into_iter().enumerate() {
                let unlisted = others[period].saturating_sub(listed);
                whole[period].unsure = whole[period].unsure.saturating_add(unlisted);
            }
            (key, whole)
        };
        Self {
            rows: rows.into_iter().map(whole).collect(),
            others,
            newest: Arc::clone(&kind.newest),
        }
    }

    fn of_key(&self, key: &K, period: Period) -> Increment {
        let unlisted = || Increment {
            unsure: self.others[period as usize],
            ..Increment::default()
        };
        let sums = self.rows.get(key);
        let mut sum = sums.map_or_else(unlisted, |sums| sums[period as usize]);
        if !self.newest.has_all() && self.newest.get(key).is_none() {
            sum.unsure = sum.unsure.saturating_add(self.newest.others_at_most);
        }
        sum
    }

    /// Whether the increments of all keys are known.
    pub fn is_complete(&self, period: Period) -> bool {
        self.newest.has_all() && self.others[period as usize] == 0
    }

    /// The keys with the most bytes.
    pub(super) fn fastest(&self, top: usize, period: Period) -> Vec<K> {
        let rows = self.rows.iter();
        fastest(rows.map(|(key, sums)| (*key, sums[period as usize])), top)
    }
}

fn fastest<K: Copy + Ord>(rows: impl Iterator<Item = (K, Increment)>, top: usize) -> Vec<K> {
    let mut rows: Vec<(K, Increment)> = rows.filter(|(_, sum)| sum.packets > 0).collect();
    let order = |(key, sum): &(K, Increment)| (Reverse(sum.bytes), *key);
    if rows.len() > top {
        rows.select_nth_unstable_by_key(top, order);
        rows.truncate(top);
    }
    rows.sort_unstable_by_key(order);
    rows.into_iter().map(|(key, _)| key).collect()
}
