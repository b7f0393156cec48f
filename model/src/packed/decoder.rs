//! The decoder: from what the load model shows of an edge to its count.
//!
//! Two small networks, 27 → 32 → 32 → 2 and 4. For each of three quantiles they
//! say how far to trust the upper bound (`g`) and by how much counts like this
//! one differ from what the witnesses have (`δ`):
//! `ln(1+ŷ) = g·ln(1+bound) + (1−g)·(base+δ)`, within 0 and the bound.
//! One is for the estimate, which is to be right about edges as they are, nearly
//! all of them light; the other for the ends of its interval, which have to hold
//! for heavy edges as well. What the bound alone decides is left alone, and a
//! load outside of what they were trained on is answered with the bound itself.

use multiversion::multiversion;

use crate::packed::features::{FEATURES, Features, GLOBAL, LOCAL, LoadFeatures};

/// Neurons of a hidden layer.
pub const HIDDEN: usize = 32;
/// Outputs for a quantile: trust and difference.
pub const EACH: usize = 2;

/// A linear layer, inputs × outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear<const IN: usize, const OUT: usize> {
    /// One row for each input.
    pub weight: Vec<[f32; OUT]>,
    /// One for each output.
    pub bias: [f32; OUT],
}

/// A network with so many outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Network<const OUT: usize> {
    /// From features.
    pub first: Linear<FEATURES, HIDDEN>,
    /// Between.
    pub second: Linear<HIDDEN, HIDDEN>,
    /// To outputs.
    pub last: Linear<HIDDEN, OUT>,
}

/// The parts of the first layers that are the same for all edges.
#[derive(Debug, Clone, Copy)]
pub struct Focus {
    estimate: [f32; HIDDEN],
    ends: [f32; HIDDEN],
}

/// The networks with what they need to know about their inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileDecoder {
    /// Mean and 1/spread of each feature in training; inputs are scaled by them.
    pub scaling: [[f32; FEATURES]; 2],
    /// Smallest and largest of each global feature in training.
    pub range: [[f32; GLOBAL]; 2],
    /// For the quantile in the middle.
    pub estimate: Network<EACH>,
    /// For the lower and the upper one.
    pub ends: Network<{ 2 * EACH }>,
}

impl QuantileDecoder {
    /// One that no load was trained with: what is a decoder worth?
    pub fn untrained(self) -> Self {
        Self {
            range: [[f32::INFINITY; GLOBAL], [f32::NEG_INFINITY; GLOBAL]],
            ..self
        }
    }

    /// What is the same for all edges; `None` for a load that was never trained.
    pub fn focus(&self, load: &LoadFeatures) -> Option<Focus> {
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
            Focus {
                estimate: self.estimate.focus(&global),
                ends: self.ends.focus(&global),
            }
        })
    }

    fn scaled(&self, at: usize, x: f32) -> f32 {
        (x - self.scaling[0][at]) * self.scaling[1][at]
    }

    /// ln(1 + count) of one edge at each of the
    /// [`QUANTILES`](super::features::QUANTILES).
    pub fn decode(&self, focus: &Focus, features: &Features) -> [f32; 3] {
        let local = features.inputs();
        let local: [f32; LOCAL] = std::array::from_fn(|at| self.scaled(at, local[at]));
        let [trust, differs] = forward(&self.estimate, &focus.estimate, &local);
        let [a, b, c, d] = forward(&self.ends, &focus.ends, &local);
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
    /// The part of the first layer that global features have.
    fn focus(&self, global: &[f32; GLOBAL]) -> [f32; HIDDEN] {
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
    focus: &[f32; HIDDEN],
    local: &[f32; LOCAL],
) -> [f32; OUT] {
    let mut hidden = *focus;
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
