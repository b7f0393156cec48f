//! Estimates from a sample: the packets and bytes of a part of everything that was
//! offered.
//!
//! The total of everything offered is known exactly. Offers above the threshold are all
//! in the sample. Of the rest, the part has the share that it has among the light items
//! of the sample. Each light item represents the same number of packets, and as many
//! bytes as its own packets have on average. So the estimates for a part and for its
//! complement always add up to the total.
//!
//! The interval is that of Fay and Feuer (1997) for weighted sums of rare events:
//! quantiles of a gamma distribution with the mean and the variance of the sum; for the
//! upper end one more event of the largest weight is assumed. It is valid for any number
//! of events, including none. It is computed for the smaller of the part and its
//! complement.

use std::collections::HashMap;
use std::hash::Hash;

use super::Sample;
use crate::name::AnyName;
use crate::table::Total;

/// 5 % of a normal distribution is below −1.645 standard deviations, and 5 % above 1.645.
const DEVIATIONS: f64 = 1.645;

/// Lower end of the interval, estimate, upper end of the interval.
pub type Range = [u64; 3];

/// A sum of weighted events.
#[derive(Debug, Clone, Copy, Default)]
struct Events {
    sum: f64,
    /// The variance of the sum, as for Poisson events.
    variance: f64,
    largest: f64,
}

impl Events {
    /// Adds an event that is in the sample with probability `chance`.
    fn add(&mut self, weight: f64, chance: f64) {
        self.sum += weight;
        self.variance += weight * weight * (1.0 - chance);
        self.largest = self.largest.max(weight);
    }
}

/// Sums over some items of a sample.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Items above the threshold, which represent themselves.
    sure: Total,
    /// All other items. Each represents the same number of packets.
    packets: Events,
    bytes: Events,
}

impl Part {
    fn add(&mut self, total: Total, threshold: f64) {
        let chance = total.packets as f64 / threshold;
        if chance < 1.0 {
            self.packets.add(1.0, chance);
            let size = total.bytes as f64 / total.packets as f64;
            self.bytes.add(size, chance);
        } else {
            self.sure.packets = self.sure.packets.saturating_add(total.packets);
            self.sure.bytes = self.sure.bytes.saturating_add(total.bytes);
        }
    }
}

/// Everything that a sample holds, and the parts that belong to groups.
pub struct Parts<G> {
    all: Part,
    of: HashMap<G, Part>,
    offered: Total,
}

impl<G: Copy + Eq + Hash> Parts<G> {
    /// Estimates the packets and bytes of a group.
    pub fn estimate(&self, group: G) -> (Range, Range) {
        let all = &self.all;
        let part = self.of.get(&group).copied().unwrap_or_default();
        (
            range(
                part.sure.packets,
                all.sure.packets,
                self.offered.packets,
                &part.packets,
                &all.packets,
            ),
            range(
                part.sure.bytes,
                all.sure.bytes,
                self.offered.bytes,
                &part.bytes,
                &all.bytes,
            ),
        )
    }

    /// The groups that have items in the sample.
    pub fn groups(&self) -> impl Iterator<Item = G> {
        self.of.keys().copied()
    }
}

impl Sample {
    /// Divides the items into groups. An item belongs to the one or two groups that
    /// `groups` returns for its name. `offered` is the total of everything offered.
    pub fn parts<G: Copy + Eq + Hash>(
        &self,
        groups: &dyn Fn(AnyName) -> [Option<G>; 2],
        offered: Total,
    ) -> Parts<G> {
        let threshold = f64::from(self.threshold);
        let mut parts = Parts {
            all: Part::default(),
            of: HashMap::new(),
            offered,
        };
        for (name, total) in self.totals() {
            parts.all.add(total, threshold);
            for group in different(groups(name)) {
                parts.of.entry(group).or_default().add(total, threshold);
            }
        }
        parts
    }

    /// Packets and bytes of the items for whose names `matches` returns true. `offered` is
    /// the total of everything offered.
    #[cfg(test)]
    pub fn estimate(&self, matches: &dyn Fn(AnyName) -> bool, offered: Total) -> (Range, Range) {
        let groups = |name| [matches(name).then_some(()), None];
        self.parts(&groups, offered).estimate(())
    }
}

/// The groups of an edge, each once.
pub fn different<G: Copy + Eq>([one, other]: [Option<G>; 2]) -> impl Iterator<Item = G> {
    one.into_iter().chain(other.filter(|_| one != other))
}

/// Estimate and interval for a part of `offered`.
fn range(sure: u64, all_sure: u64, offered: u64, part: &Events, all: &Events) -> Range {
    let light = offered.saturating_sub(all_sure) as f64;
    let [low, middle, high] = shares(part, all);
    [
        sure.saturating_add((light * low).floor() as u64),
        sure.saturating_add((light * middle).round() as u64),
        sure.saturating_add((light * high).ceil() as u64),
    ]
}

/// Estimate and interval for the share of a part. If there are no events, the interval is
/// 0 to 1.
fn shares(part: &Events, all: &Events) -> [f64; 3] {
    if all.sum <= 0.0 {
        return [0.0, 0.5, 1.0];
    }
    let share = (part.sum / all.sum).min(1.0);
    let others = (all.variance - part.variance).max(0.0);
    let variance = (1.0 - share).powi(2) * part.variance + share * share * others;
    // If the part is nearly everything, its uncertainty is that of the complement.
    let smaller = share.min(1.0 - share);
    let sum = smaller * all.sum;
    let low = gamma(sum, variance, -DEVIATIONS) / all.sum;
    let one_more = all.largest;
    let high = gamma(sum + one_more, variance + one_more * one_more, DEVIATIONS) / all.sum;
    let (low, high) = (low.min(smaller), high.clamp(smaller, 1.0));
    match share <= 0.5 {
        true => [low, share, high],
        false => [1.0 - high, share, 1.0 - low],
    }
}

/// A quantile of the gamma distribution with this mean and variance, in the approximation
/// of Wilson and Hilferty.
fn gamma(mean: f64, variance: f64, deviations: f64) -> f64 {
    if mean <= 0.0 || variance <= 0.0 {
        return mean.max(0.0);
    }
    let shape = mean * mean / variance;
    let root = 1.0 - 1.0 / (9.0 * shape) + deviations / (3.0 * shape.sqrt());
    mean * root.max(0.0).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with tables: if mean and variance are equal, the quantiles are the limits
    /// of a Poisson count.
    #[test]
    fn quantiles_are_those_of_tables() {
        for (count, low, high) in [
            (0.0, 0.0, 2.996),
            (1.0, 0.051, 4.744),
            (10.0, 5.425, 16.962),
        ] {
            assert!(
                (gamma(count, count, -DEVIATIONS) - low).abs() < 0.02,
                "{count}"
            );
            assert!(
                (gamma(count + 1.0, count + 1.0, DEVIATIONS) - high).abs() < 0.04,
                "{count}"
            );
        }
    }

    #[test]
    fn without_events_the_interval_is_0_to_1_and_large_shares_mirror_small_ones() {
        let events = |count: u32| {
            let mut events = Events::default();
            (0..count).for_each(|_| events.add(1.0, 0.0));
            events
        };
        assert_eq!(shares(&events(0), &events(0)), [0.0, 0.5, 1.0]);
        let [low, share, high] = shares(&events(0), &events(1000));
        assert_eq!((low, share), (0.0, 0.0));
        assert!((high - 0.003).abs() < 0.0002, "{high}");
        let few = shares(&events(10), &events(1000));
        let most = shares(&events(990), &events(1000));
        for (few, most) in few.iter().zip(most.iter().rev()) {
            assert!((few + most - 1.0).abs() < 1e-9);
        }
    }
}
