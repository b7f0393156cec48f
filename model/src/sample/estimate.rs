//! What a sample says of a part of what was offered to it.
//!
//! What everything offered adds up to is known exactly. What is heavier than the
//! threshold is all in the sample; of the rest, the part has the share that it has
//! among the light ones in the sample, each of which stands for the same number
//! of packets, and for as many bytes as its own packets weigh on average. So a
//! part and all but that part always add up to everything.
//!
//! The interval is that of Fay and Feuer (1997) for weighted sums of rare events:
//! quantiles of a gamma distribution with the mean and the variance of the sum;
//! above, one more event of the largest weight is assumed. It holds for no events
//! at all as for thousands. The smaller of the part and all else is looked at.

use super::Sample;
use crate::name::AnyName;
use crate::table::Total;

/// One in twenty is below −1.645 standard deviations, one in twenty above.
const DEVIATIONS: f64 = 1.645;

/// Lower end, middle and upper end of a number.
pub type Range = [u64; 3];

/// Events with weights.
#[derive(Debug, Clone, Copy, Default)]
struct Events {
    sum: f64,
    /// The variance of the sum, if it were of Poisson events.
    variance: f64,
    largest: f64,
}

impl Events {
    /// Notes one that is in the sample with this chance.
    fn note(&mut self, weight: f64, chance: f64) {
        self.sum += weight;
        self.variance += weight * weight * (1.0 - chance);
        self.largest = self.largest.max(weight);
    }
}

/// Items of a sample, or some of them.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Those that stand for themselves.
    sure: Total,
    /// All others, each of which stands for the same number of packets.
    packets: Events,
    bytes: Events,
}

impl Part {
    fn note(&mut self, total: Total, threshold: f64) {
        let chance = total.packets as f64 / threshold;
        if chance < 1.0 {
            self.packets.note(1.0, chance);
            let size = total.bytes as f64 / total.packets as f64;
            self.bytes.note(size, chance);
        } else {
            self.sure.packets = self.sure.packets.saturating_add(total.packets);
            self.sure.bytes = self.sure.bytes.saturating_add(total.bytes);
        }
    }
}

impl Sample {
    /// Packets and bytes of those with names that are `inside`, where all that was
    /// ever offered adds up to `offered`.
    pub fn inside(&self, inside: &dyn Fn(AnyName) -> bool, offered: Total) -> (Range, Range) {
        let threshold = f64::from(self.threshold);
        let (mut all, mut part) = (Part::default(), Part::default());
        for (name, total) in self.totals() {
            all.note(total, threshold);
            if inside(name) {
                part.note(total, threshold);
            }
        }
        (
            range(
                part.sure.packets,
                all.sure.packets,
                offered.packets,
                &part.packets,
                &all.packets,
            ),
            range(
                part.sure.bytes,
                all.sure.bytes,
                offered.bytes,
                &part.bytes,
                &all.bytes,
            ),
        )
    }
}

/// The part of `offered` that is inside.
fn range(sure: u64, all_sure: u64, offered: u64, part: &Events, all: &Events) -> Range {
    let light = offered.saturating_sub(all_sure) as f64;
    let [low, middle, high] = shares(part, all);
    [
        sure.saturating_add((light * low).floor() as u64),
        sure.saturating_add((light * middle).round() as u64),
        sure.saturating_add((light * high).ceil() as u64),
    ]
}

/// The share of a part; anything, if there are no events.
fn shares(part: &Events, all: &Events) -> [f64; 3] {
    if all.sum <= 0.0 {
        return [0.0, 0.5, 1.0];
    }
    let share = (part.sum / all.sum).min(1.0);
    let others = (all.variance - part.variance).max(0.0);
    let variance = (1.0 - share).powi(2) * part.variance + share * share * others;
    // What is nearly everything is as sure as what is left.
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

/// A quantile of the gamma distribution with this mean and variance, as Wilson
/// and Hilferty have it.
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

    /// Against tables of the gamma distribution: with a mean as large as its
    /// variance it has the ends of a Poisson count.
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
    fn without_events_anything_is_possible_and_nearly_all_is_as_sure_as_hardly_any() {
        let events = |count: u32| {
            let mut events = Events::default();
            (0..count).for_each(|_| events.note(1.0, 0.0));
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
