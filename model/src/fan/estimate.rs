//! The number of peers of a node, estimated from its bits.
//!
//! In a level in which a node has m bits, let z be the share of bits that other nodes
//! leave empty, and q the share of all pairs that belong to the level. A bit of a node
//! with n peers is empty with probability z·exp(−n·q/m). The *likeliest* n maximises the
//! likelihood of the bits of all levels.
//!
//! With very many nodes, some have far more bits set by others than the average.
//! Therefore the lower end of an interval holds for all nodes simultaneously: it is the
//! smallest n with which the observed bits are not improbable *for the node with the most
//! noise of all* (the tail of the binomial distribution by Chernoff's bound, at 5 %
//! divided by the number of nodes). The estimate is between the likeliest n and the
//! smallest n that explains the bits of that node with probability 1/2: half-way if noise
//! may explain all of the bits, and the nearer to the likeliest n the smaller the share
//! is that noise may explain. A node *stands out* if its lower end is above 1.
//!
//! The upper end holds for each node by itself: a node that is selected because of its
//! many bits does not have more peers than these indicate. If a node has fewer bits set
//! than noise alone would set on average, the probability is taken relative to that of n
//! = 0.

use super::Peers;

/// The bits of a node in one level.
#[derive(Clone, Copy)]
pub(super) struct Observation {
    /// Share of all pairs that belong to this level.
    pub share: f64,
    /// Number of bits of the node.
    pub bits: f64,
    /// How many of them are set.
    pub set: f64,
    /// Number of bits that do not belong to the node.
    pub others: f64,
    /// Share of those that are empty.
    pub empty: f64,
}

/// Probability that a node has more peers than its upper end. Below 5 %, because the
/// estimates are not exactly normally distributed.
const ABOVE: f64 = 0.04;

/// Probability that any node has fewer peers than its lower end.
const BELOW: f64 = 0.05;

/// Probability with which noise explains the bits of the node with the most noise, for
/// the smaller n that estimates are moved towards.
const EVEN: f64 = 0.5;

/// The share of bits set by others is assumed to be higher than observed by this many
/// standard deviations.
const DOUBT: f64 = 2.0;

/// One node in twenty has so few bits that it is this many standard deviations below its
/// mean.
const FEWER_BITS: f64 = 1.645;

/// Upper limit of the number of peers.
const MOST: f64 = 1e10;

/// Stands for 0 peers where a division by 0 must be avoided.
const NONE: f64 = 1e-6;

/// Precision of a search, relative and in peers.
const NEAR_ENOUGH: f64 = 1e-3;

/// Estimate and interval for one of `nodes` nodes.
pub(super) fn estimate(levels: &[Observation], nodes: f64) -> Peers {
    let likeliest = likeliest(levels);
    let never = normal(deviation(levels, NONE));
    let high = crossing(|n| normal(deviation(levels, n)) > ABOVE * never);
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

/// The smallest n with which a node stands out with a probability of 95 %. The bits that
/// others have set are taken from `levels`.
pub(super) fn detectable_peers(levels: &[Observation], nodes: f64) -> u64 {
    let refuted = (BELOW / nodes).ln();
    let most = crossing(|n| ln_tail(&with_fewer_bits(levels, n), NONE) > refuted);
    most.ceil() as u64
}

/// The bits of a node with `n` peers that has fewer bits set than 95 % of such nodes.
fn with_fewer_bits(levels: &[Observation], n: f64) -> Vec<Observation> {
    let spread = |level: &Observation| {
        let empty = level.stays_empty(n);
        level.bits * empty * (1.0 - empty)
    };
    let all: f64 = levels
        .iter()
        .map(|level| level.weight(n).powi(2) * spread(level))
        .sum();
    let fewer =
        |level: &Observation| FEWER_BITS * level.weight(n) * spread(level) / all.sqrt().max(1e-12);
    let shown = |level: &Observation| Observation {
        set: (level.bits * (1.0 - level.stays_empty(n)) - fewer(level)).max(0.0),
        ..*level
    };
    levels.iter().map(shown).collect()
}

/// The n that maximises the likelihood.
fn likeliest(levels: &[Observation]) -> f64 {
    crossing(|n| levels.iter().map(|level| level.score(n)).sum::<f64>() > 0.0)
}

/// The smallest n with which at least as many bits are set with this probability.
fn least(levels: &[Observation], chance: f64) -> f64 {
    let refuted = chance.ln();
    crossing(|n| ln_tail(levels, n) < refuted)
}

/// Logarithm of an upper bound of the probability that a node with `n` peers has at least
/// as many bits set: Chernoff's bound for the sum over all levels, each weighted by how
/// much one of its bits contributes to the estimate of n. The bits of a node are
/// negatively associated, so the bound holds for them.
fn ln_tail(levels: &[Observation], n: f64) -> f64 {
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
    // The derivative of the exponent increases with the tilt; the bound is tightest where
    // it is 0.
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

/// Distribution function of the normal distribution, within 1e-7.
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

/// The largest n for which `too_few` returns true.
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

/// By how many standard deviations more bits are set than expected with `n` peers.
fn deviation(levels: &[Observation], n: f64) -> f64 {
    let (mut excess, mut variance, mut known) = (0.0, 0.0, 0.0);
    for level in levels {
        let load = n * level.share / level.bits;
        let empty = level.stays_empty(n);
        let full = 1.0 - empty;
        let weight = level.weight(n);
        excess += weight * (level.set - level.bits * full);
        // The variance of the node's own bits, and the uncertainty about the bits of
        // others.
        let own = level.bits * empty * full;
        let others = (level.bits * (-load).exp()).powi(2) * level.empty * (1.0 - level.empty);
        variance += weight * weight * (own + others / level.others);
        known += weight * level.bits * empty * load;
    }
    // `n` is fixed, so the part of the variance that a random n would cause is
    // subtracted.
    let variance = variance - known * known / n;
    excess / variance.max(1e-30).sqrt()
}

impl Observation {
    fn stays_empty(&self, n: f64) -> f64 {
        self.empty * (-n * self.share / self.bits).exp()
    }

    /// How much a set bit contributes to the estimate of n.
    fn weight(&self, n: f64) -> f64 {
        let full = 1.0 - self.stays_empty(n);
        self.share / self.bits / full.max(1e-12)
    }

    /// The probability that a bit is set. The share of bits that others leave empty is
    /// known from `others` bits only, so its uncertainty is subtracted.
    fn set_at_most(&self, n: f64) -> f64 {
        let doubt = DOUBT * (self.empty * (1.0 - self.empty) / self.others).sqrt();
        let empty = (self.empty - doubt).max(0.0) * (-n * self.share / self.bits).exp();
        (1.0 - empty).clamp(1e-12, 1.0)
    }

    /// Derivative of the log-likelihood with respect to `n`.
    fn score(&self, n: f64) -> f64 {
        let empty = self.stays_empty(n);
        let full = (1.0 - empty).max(1e-12);
        self.share / self.bits * (self.set * empty / full - (self.bits - self.set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(share: f64, set: f64, empty: f64) -> Observation {
        Observation {
            share,
            bits: 192.0,
            set,
            others: 192.0 * 50.0,
            empty,
        }
    }

    #[test]
    fn bits_set_by_other_nodes_are_subtracted() {
        // Half of all bits are set, and half of the bits of this node: no peers.
        let without = estimate(&[level(0.5, 96.0, 0.5), level(0.5, 96.0, 0.5)], 1.0);
        assert_eq!((without.peers, without.low), (0, 0));
        assert!((20..100).contains(&without.high), "{without:?}");
        // 192·ln 2 pairs set half of the remaining bits.
        let some = estimate(&[level(0.5, 144.0, 0.5), level(0.5, 144.0, 0.5)], 1.0);
        assert!((260..=268).contains(&some.peers), "{some:?}");
        assert!(some.low < 240 && some.high > 292, "{some:?}");
        // Among very many nodes, the same number of bits is less improbable.
        let among_many = estimate(&[level(0.5, 144.0, 0.5), level(0.5, 144.0, 0.5)], 1e6);
        assert!(among_many.low < some.low && among_many.peers < some.peers);
        assert_eq!(among_many.high, some.high);
    }

    #[test]
    fn without_noise_the_interval_is_narrow() {
        let alone = estimate(&[level(0.5, 5.0, 1.0), level(0.5, 4.0, 1.0)], 1.0);
        assert!((8..=9).contains(&alone.peers), "{alone:?}");
        assert!(alone.low >= 3 && alone.high <= 11, "{alone:?}");
        let none = estimate(&[level(0.5, 0.0, 1.0), level(0.5, 0.0, 1.0)], 1.0);
        assert_eq!(none, Peers::default());
    }

    #[test]
    fn full_levels_give_no_information() {
        let full = estimate(&[level(0.5, 192.0, 0.0), level(0.5, 192.0, 0.0)], 1.0);
        assert_eq!((full.low, full.high), (0, MOST as u64));
    }
}
