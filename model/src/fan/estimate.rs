//! How many peers a node has, from its bits.
//!
//! In a level with m bits for a node, of which others leave a share z empty, a
//! node with n peers, a share q of them here, leaves a bit empty with
//! probability z·exp(−n·q/m). The estimate is the n that makes the bits of all
//! levels likeliest. The interval holds every n for which they are no surprise,
//! where the number of peers is fixed and only their places are random: a bit
//! that is surely one's own does not make the answer unsure.

use super::Peers;

/// What is seen of a node in one level.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// Share of all pairs that are in this level.
    pub share: f64,
    /// Bits of the node.
    pub bits: f64,
    /// Those that are set.
    pub set: f64,
    /// Bits that are not the node's.
    pub others: f64,
    /// Share of these that are empty.
    pub empty: f64,
}

/// Standard deviations to both sides. 1.645 would be 90 %; it is a little more,
/// as estimates are not quite normal.
const WIDTH: f64 = 1.75;

/// No node has more.
const MOST: f64 = 1e10;

/// Good enough, relative and in peers.
const NEAR_ENOUGH: f64 = 1e-3;

pub(super) fn estimate(levels: &[Seen]) -> Peers {
    let peers = crossing(|n| levels.iter().map(|level| level.score(n)).sum::<f64>() > 0.0);
    let low = crossing(|n| surprise(levels, n) > WIDTH);
    let high = crossing(|n| surprise(levels, n) > -WIDTH);
    Peers {
        peers: peers.round() as u64,
        low: low.min(peers).floor() as u64,
        high: high.max(peers).ceil() as u64,
    }
}

/// Up to where `n` is too few.
fn crossing(too_few: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    if !too_few(1e-6) {
        return 0.0;
    }
    while too_few(high) {
        (low, high) = (high, 2.0 * high);
        if high > MOST {
            return MOST;
        }
    }
    while high - low > NEAR_ENOUGH * (1.0 + low) {
        let middle = (low + high) / 2.0;
        if too_few(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// By how many standard deviations more bits are set than with `n` peers.
fn surprise(levels: &[Seen], n: f64) -> f64 {
    let (mut excess, mut variance, mut known) = (0.0, 0.0, 0.0);
    for level in levels {
        let load = n * level.share / level.bits;
        let empty = level.stays_empty(n);
        let full = (1.0 - empty).max(f64::MIN_POSITIVE);
        // What a bit says of n.
        let weight = level.share / level.bits / full.max(1e-12);
        excess += weight * (level.set - level.bits * full);
        // Its own bits, and what is known of those of others.
        let own = level.bits * empty * full;
        let others = (level.bits * (-load).exp()).powi(2) * level.empty * (1.0 - level.empty);
        variance += weight * weight * (own + others / level.others);
        known += weight * level.bits * empty * load;
    }
    // Were n random, too, this part of the variance would be that of n.
    let variance = variance - known * known / n;
    excess / variance.max(1e-30).sqrt()
}

impl Seen {
    fn stays_empty(&self, n: f64) -> f64 {
        self.empty * (-n * self.share / self.bits).exp()
    }

    /// How the likelihood of what is seen changes with `n`.
    fn score(&self, n: f64) -> f64 {
        let empty = self.stays_empty(n);
        let full = (1.0 - empty).max(1e-12);
        self.share / self.bits * (self.set * empty / full - (self.bits - self.set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(share: f64, set: f64, empty: f64) -> Seen {
        Seen {
            share,
            bits: 192.0,
            set,
            others: 192.0 * 50.0,
            empty,
        }
    }

    #[test]
    fn what_others_have_set_is_taken_off() {
        // Half of all bits are set, and half of one's own: nobody.
        let nobody = estimate(&[level(0.5, 96.0, 0.5), level(0.5, 96.0, 0.5)]);
        assert_eq!((nobody.peers, nobody.low), (0, 0));
        assert!((20..100).contains(&nobody.high), "{nobody:?}");
        // 192·ln 2 pairs leave half of the rest.
        let some = estimate(&[level(0.5, 144.0, 0.5), level(0.5, 144.0, 0.5)]);
        assert!((264..=268).contains(&some.peers), "{some:?}");
        assert!(some.low < 240 && some.high > 292, "{some:?}");
    }

    #[test]
    fn bits_that_are_ones_own_are_sure() {
        let alone = estimate(&[level(0.5, 5.0, 1.0), level(0.5, 4.0, 1.0)]);
        assert_eq!(alone.peers, 9);
        assert!(alone.low >= 8 && alone.high <= 11, "{alone:?}");
        let none = estimate(&[level(0.5, 0.0, 1.0), level(0.5, 0.0, 1.0)]);
        assert_eq!(none, Peers::default());
    }

    #[test]
    fn full_levels_know_nothing() {
        let full = estimate(&[level(0.5, 192.0, 0.0), level(0.5, 192.0, 0.0)]);
        assert_eq!((full.low, full.high), (0, MOST as u64));
    }
}
