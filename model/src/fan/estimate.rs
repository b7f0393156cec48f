//! How many peers a node has, from its bits.
//!
//! In a level with m bits for a node, of which others leave a share z empty, a
//! node with n peers, a share q of them here, leaves a bit empty with
//! probability z·exp(−n·q/m). The *likeliest* n makes the bits of all levels
//! likeliest.
//!
//! There are very many nodes, and the bits of the luckiest say more than it has.
//! So the lower end of an interval holds for all nodes together: it is the least
//! n with which the bits are no surprise *to the luckiest of all nodes* (the tail
//! of the binomial distribution, by Chernoff's bound, at 5 % divided by the
//! number of nodes). The estimate lies between the likeliest n and the least n that
//! an even chance explains for the luckiest: half way where chance may explain all
//! of it, and nearer to the likeliest the smaller the share is that it may explain.
//! A node *stands out* if the lower end is above 1.
//!
//! The upper end holds for each node by itself: a node that is looked at because
//! its bits say much has no more than these say. Bits that say less than nothing
//! are bad luck, which is taken off (the surprise is divided by that of n = 0).

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

/// The chance that a node has more peers than its upper end: less than 5 %, as
/// estimates are not quite normal.
const ABOVE: f64 = 0.04;

/// The chance that any node at all has fewer peers than its lower end.
const BELOW: f64 = 0.05;

/// The chance with which the luckiest of all nodes explains the lesser n that
/// estimates are moved to.
const EVEN: f64 = 0.5;

/// Standard deviations by which the bits of others may be more than they seem.
const DOUBT: f64 = 2.0;

/// Standard deviations that one node in twenty is below its mean.
const UNLUCKY: f64 = 1.645;

/// No node has more.
const MOST: f64 = 1e10;

/// No peers, as far as a division by them allows.
const NONE: f64 = 1e-6;

/// Good enough, relative and in peers.
const NEAR_ENOUGH: f64 = 1e-3;

/// What the bits of one of `nodes` nodes say.
pub(super) fn estimate(levels: &[Seen], nodes: f64) -> Peers {
    let likeliest = likeliest(levels);
    let never = normal(surprise(levels, NONE));
    let high = crossing(|n| normal(surprise(levels, n)) > ABOVE * never);
    let low = least(levels, BELOW / nodes).min(likeliest);
    let explained = match low {
        0.0 => 0.0,
        _ => least(levels, EVEN / nodes).min(likeliest),
    };
    let doubt = (1.0 - low / likeliest.max(1.0)).powi(3) / 2.0;
    let peers = likeliest - doubt * (likeliest - explained);
    Peers {
        peers: peers.round() as u64,
        low: low.floor() as u64,
        high: high.max(likeliest).ceil() as u64,
        exact: false,
    }
}

/// The least n that is certain to stand out, but for one in twenty, of a node like
/// a stranger in these levels.
pub(super) fn surely_seen(levels: &[Seen], nodes: f64) -> u64 {
    let refuted = (BELOW / nodes).ln();
    let most = crossing(|n| ln_tail(&unlucky(levels, n), NONE) > refuted);
    most.ceil() as u64
}

/// What a node with `n` peers shows that is less lucky than nineteen of twenty.
fn unlucky(levels: &[Seen], n: f64) -> Vec<Seen> {
    let spread = |level: &Seen| {
        let empty = level.stays_empty(n);
        level.bits * empty * (1.0 - empty)
    };
    let all: f64 = levels
        .iter()
        .map(|level| level.weight(n).powi(2) * spread(level))
        .sum();
    let fewer = |level: &Seen| UNLUCKY * level.weight(n) * spread(level) / all.sqrt().max(1e-12);
    let shown = |level: &Seen| Seen {
        set: (level.bits * (1.0 - level.stays_empty(n)) - fewer(level)).max(0.0),
        ..*level
    };
    levels.iter().map(shown).collect()
}

/// The n that makes the bits likeliest.
fn likeliest(levels: &[Seen]) -> f64 {
    crossing(|n| levels.iter().map(|level| level.score(n)).sum::<f64>() > 0.0)
}

/// The least n with which so many bits have at least this chance.
fn least(levels: &[Seen], chance: f64) -> f64 {
    let refuted = chance.ln();
    crossing(|n| ln_tail(levels, n) < refuted)
}

/// The logarithm of the chance, at most, that a node with `n` peers has as many
/// bits set: Chernoff's bound for the sum of all levels, each weighted with what
/// a bit there says of n. Bits of one node are negatively associated, so it
/// holds for them as well.
fn ln_tail(levels: &[Seen], n: f64) -> f64 {
    let terms: Vec<[f64; 3]> = levels
        .iter()
        .map(|level| [level.bits, level.set_at_most(n), level.weight(n)])
        .collect();
    let heaviest = terms.iter().map(|term| term[2]).fold(1e-300, f64::max);
    let scaled = || terms.iter().map(|[m, p, w]| (*m, *p, w / heaviest));
    let seen: f64 = scaled()
        .zip(levels)
        .map(|((_, _, w), level)| w * level.set)
        .sum();
    let mean: f64 = scaled().map(|(m, p, w)| w * m * p).sum();
    let most: f64 = scaled().map(|(m, _, w)| w * m).sum();
    if seen <= mean {
        return 0.0;
    }
    let seen = seen.min(most * (1.0 - 1e-9));
    // The slope of the exponent grows with the tilt; it is best where it is 0.
    let slope = |tilt: f64| -> f64 {
        let each = scaled().map(|(m, p, w)| {
            let more = p * (tilt * w).exp();
            m * w * more / (1.0 - p + more)
        });
        each.sum::<f64>() - seen
    };
    let (mut low, mut high) = (0.0, 1.0);
    while slope(high) < 0.0 && high < 256.0 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        match slope(middle) < 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    let each = scaled().map(|(m, p, w)| m * (p * ((low * w).exp() - 1.0)).ln_1p());
    each.sum::<f64>() - low * seen
}

/// The chance that a normal number is below `z`: within 1e-7.
fn normal(z: f64) -> f64 {
    // Abramowitz and Stegun, 26.2.17.
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_53,
    ];
    let sum = series.iter().fold(0.0, |sum, factor| (sum + factor) * t);
    let tail = sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 0.0 { tail } else { 1.0 - tail }
}

/// Up to where `n` is too few.
fn crossing(too_few: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    if !too_few(NONE) {
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
        let full = 1.0 - empty;
        let weight = level.weight(n);
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

    /// What a bit says of n.
    fn weight(&self, n: f64) -> f64 {
        let full = 1.0 - self.stays_empty(n);
        self.share / self.bits / full.max(1e-12)
    }

    /// The chance that a bit is set, where that of others is known from `others`
    /// bits only.
    fn set_at_most(&self, n: f64) -> f64 {
        let doubt = DOUBT * (self.empty * (1.0 - self.empty) / self.others).sqrt();
        let empty = (self.empty - doubt).max(0.0) * (-n * self.share / self.bits).exp();
        (1.0 - empty).clamp(1e-12, 1.0)
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
        let nobody = estimate(&[level(0.5, 96.0, 0.5), level(0.5, 96.0, 0.5)], 1.0);
        assert_eq!((nobody.peers, nobody.low), (0, 0));
        assert!((20..100).contains(&nobody.high), "{nobody:?}");
        // 192·ln 2 pairs leave half of the rest.
        let some = estimate(&[level(0.5, 144.0, 0.5), level(0.5, 144.0, 0.5)], 1.0);
        assert!((260..=268).contains(&some.peers), "{some:?}");
        assert!(some.low < 240 && some.high > 292, "{some:?}");
        // Among very many nodes so many bits are less of a surprise.
        let lucky = estimate(&[level(0.5, 144.0, 0.5), level(0.5, 144.0, 0.5)], 1e6);
        assert!(lucky.low < some.low && lucky.peers < some.peers);
        assert_eq!(lucky.high, some.high);
    }

    #[test]
    fn bits_that_are_ones_own_are_sure() {
        let alone = estimate(&[level(0.5, 5.0, 1.0), level(0.5, 4.0, 1.0)], 1.0);
        assert!((8..=9).contains(&alone.peers), "{alone:?}");
        assert!(alone.low >= 3 && alone.high <= 11, "{alone:?}");
        let none = estimate(&[level(0.5, 0.0, 1.0), level(0.5, 0.0, 1.0)], 1.0);
        assert_eq!(none, Peers::default());
    }

    #[test]
    fn full_levels_know_nothing() {
        let full = estimate(&[level(0.5, 192.0, 0.0), level(0.5, 192.0, 0.0)], 1.0);
        assert_eq!((full.low, full.high), (0, MOST as u64));
    }
}
