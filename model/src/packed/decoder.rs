//! The decoder: from what the load model shows of an edge to its count.
//!
//! A small network, 25 → 32 → 32 → 6. For each of three quantiles it says how
//! far to trust the upper bound (`g`) and by how much counts like this one
//! differ from what the witnesses have (`δ`):
//! `ln(1+ŷ) = g·ln(1+bound) + (1−g)·(base+δ)`, within 0 and the bound.
//! What the bound alone decides is left alone, and a load outside of what the
//! network was trained on is answered with the bound itself.

use multiversion::multiversion;

use crate::packed::features::{FEATURES, Features, GLOBAL, LOCAL, LoadFeatures};

/// Neurons of a hidden layer.
pub const HIDDEN: usize = 32;
/// Outputs: trust and difference for each quantile.
pub const OUTPUTS: usize = 6;

/// A linear layer, inputs × outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear<const IN: usize, const OUT: usize> {
    /// One row for each input.
    pub weight: Vec<[f32; OUT]>,
    /// One for each output.
    pub bias: [f32; OUT],
}

/// The network with what it needs to know about its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileDecoder {
    /// Mean and 1/spread of each feature in training; inputs are scaled by them.
    pub scaling: [[f32; FEATURES]; 2],
    /// Smallest and largest of each global feature in training.
    pub range: [[f32; GLOBAL]; 2],
    /// From features.
    pub first: Linear<FEATURES, HIDDEN>,
    /// Between.
    pub second: Linear<HIDDEN, HIDDEN>,
    /// To outputs.
    pub last: Linear<HIDDEN, OUTPUTS>,
}

impl QuantileDecoder {
    /// One that no load was trained with: what is a decoder worth?
    pub fn untrained(self) -> Self {
        Self {
            range: [[f32::INFINITY; GLOBAL], [f32::NEG_INFINITY; GLOBAL]],
            ..self
        }
    }

    /// The part of the first layer that is the same for all edges; `None` for
    /// a load that was never trained.
    pub fn focus(&self, load: &LoadFeatures) -> Option<[f32; HIDDEN]> {
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
            let mut hidden = self.first.bias;
            for (at, x) in (LOCAL..).zip(global) {
                let x = (x - self.scaling[0][at]) * self.scaling[1][at];
                for (sum, weight) in hidden.iter_mut().zip(&self.first.weight[at]) {
                    *sum += x * weight;
                }
            }
            hidden
        })
    }

    /// ln(1 + count) of one edge at each of the
    /// [`QUANTILES`](super::features::QUANTILES).
    pub fn decode(&self, focus: &[f32; HIDDEN], features: &Features) -> [f32; 3] {
        let out = forward(self, focus, &features.inputs());
        let mut quantiles = std::array::from_fn(|q| {
            let trust = 1.0 / (1.0 + (-out[2 * q]).exp());
            let usual = features.base[q] + out[2 * q + 1];
            (trust * features.bound + (1.0 - trust) * usual).clamp(0.0, features.bound)
        });
        quantiles.sort_unstable_by(f32::total_cmp);
        quantiles
    }
}

#[multiversion(targets("x86_64+avx+avx2+fma"))]
fn forward(net: &QuantileDecoder, focus: &[f32; HIDDEN], local: &[f32; LOCAL]) -> [f32; OUTPUTS] {
    let mut hidden = *focus;
    for (at, x) in local.iter().enumerate() {
        let x = (x - net.scaling[0][at]) * net.scaling[1][at];
        let row = &net.first.weight[at];
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
