//! The decoder: from the features of an edge to its count.
//!
//! Two small networks, 27 → 32 → 32 → 2 and 27 → 32 → 32 → 4. For each of three quantiles
//! they return how far to trust the upper bound (`g`) and by how much counts differ from
//! the counts of the witnesses (`δ`): `ln(1+ŷ) = g·ln(1+bound) + (1−g)·(base+δ)`, limited
//! to 0 and the bound. The first network is for the estimate, which should be right for
//! edges as they occur, nearly all of them light; the second one is for the ends of the
//! interval, which have to hold for heavy edges as well. The decoder is not used where
//! the bound is certain to be the count. If the load is outside of what the networks were
//! trained on, the answer is the bound.

use multiversion::multiversion;

use crate::packed::features::{FEATURES, Features, GLOBAL, LOCAL, LoadFeatures};

/// Neurons of a hidden layer.
pub const HIDDEN: usize = 32;
/// Outputs for a quantile: `g` before the sigmoid, and `δ`.
pub const EACH: usize = 2;

/// A linear layer, stored as inputs × outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear<const IN: usize, const OUT: usize> {
    /// One row for each input.
    pub weight: Vec<[f32; OUT]>,
    /// One value for each output.
    pub bias: [f32; OUT],
}

/// A network with `OUT` outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Network<const OUT: usize> {
    /// From the features to the first hidden layer.
    pub first: Linear<FEATURES, HIDDEN>,
    /// From the first to the second hidden layer.
    pub second: Linear<HIDDEN, HIDDEN>,
    /// From the second hidden layer to the outputs.
    pub last: Linear<HIDDEN, OUT>,
}

/// The part of the first hidden layers that depends on the sketch as a whole and is the
/// same for all edges.
#[derive(Debug, Clone, Copy)]
pub struct PreparedLoad {
    estimate: [f32; HIDDEN],
    ends: [f32; HIDDEN],
}

/// Both networks with the statistics of their training data.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileDecoder {
    /// Mean and 1/standard deviation of each feature in training, which inputs are scaled
    /// with.
    pub scaling: [[f32; FEATURES]; 2],
    /// Minimum and maximum of each feature of the sketch in training.
    pub range: [[f32; GLOBAL]; 2],
    /// For the median.
    pub estimate: Network<EACH>,
    /// For the lower and the upper quantile.
    pub ends: Network<{ 2 * EACH }>,
}

impl QuantileDecoder {
    /// Computes what is the same for all edges. Returns `None` if the load is outside of
    /// what the decoder was trained on.
    pub fn prepare(&self, load: &LoadFeatures) -> Option<PreparedLoad> {
        let global = load.inputs();
        let [low, high] = &self.range;
        let known = global
            .iter()
            .zip(low.iter().zip(high))
            .all(|(x, (low, high))| {
                let margin = 0.1 * (high - low) + 1e-3;
                *x >= low - margin && *x <= high + margin
            });
        known.then(|| {
            let global: [f32; GLOBAL] =
                std::array::from_fn(|at| self.scaled(LOCAL + at, global[at]));
            PreparedLoad {
                estimate: self.estimate.prepare(&global),
                ends: self.ends.prepare(&global),
            }
        })
    }

    fn scaled(&self, at: usize, x: f32) -> f32 {
        (x - self.scaling[0][at]) * self.scaling[1][at]
    }

    /// ln(1 + count) of one edge at each of the
    /// [`QUANTILES`](super::features::QUANTILES).
    pub fn decode(&self, prepared: &PreparedLoad, features: &Features) -> [f32; 3] {
        let local = features.inputs();
        let local: [f32; LOCAL] = std::array::from_fn(|at| self.scaled(at, local[at]));
        let [trust, differs] = forward(&self.estimate, &prepared.estimate, &local);
        let [a, b, c, d] = forward(&self.ends, &prepared.ends, &local);
        let outputs = [[a, b], [trust, differs], [c, d]];
        let mut quantiles = std::array::from_fn(|q| {
            let [trust, differs] = outputs[q];
            let trust = 1.0 / (1.0 + (-trust).exp());
            let usual = features.base[q] + differs;
            (trust * features.bound + (1.0 - trust) * usual).clamp(0.0, features.bound)
        });
        let [low, middle, high] = &mut quantiles;
        *low = low.min(*middle);
        *high = high.max(*middle);
        quantiles
    }
}

impl<const OUT: usize> Network<OUT> {
    /// The part of the first hidden layer that the features of the sketch contribute.
    fn prepare(&self, global: &[f32; GLOBAL]) -> [f32; HIDDEN] {
        let mut hidden = self.first.bias;
        for (x, row) in global.iter().zip(&self.first.weight[LOCAL..]) {
            for (sum, weight) in hidden.iter_mut().zip(row) {
                *sum += x * weight;
            }
        }
        hidden
    }
}

#[multiversion(targets("x86_64+avx+avx2+fma"))]
fn forward<const OUT: usize>(
    net: &Network<OUT>,
    prepared: &[f32; HIDDEN],
    local: &[f32; LOCAL],
) -> [f32; OUT] {
    let mut hidden = *prepared;
    for (x, row) in local.iter().zip(&net.first.weight) {
        for (sum, weight) in hidden.iter_mut().zip(row) {
            *sum += x * weight;
        }
    }
    let mut next = net.second.bias;
    for (x, row) in hidden.iter().zip(&net.second.weight) {
        let x = x.max(0.0);
        for (sum, weight) in next.iter_mut().zip(row) {
            *sum += x * weight;
        }
    }
    let mut out = net.last.bias;
    for (x, row) in next.iter().zip(&net.last.weight) {
        let x = x.max(0.0);
        for (sum, weight) in out.iter_mut().zip(row) {
            *sum += x * weight;
        }
    }
    out
}
