//! The decoder: one estimate from the ratios of all layers.

use crate::Writes;

/// Linear decoder `ŷ = w·q + b` with one set of parameters for each number of layers: the
/// top layer of a hierarchy that may still grow holds what a taller one would have
/// carried on, so the same ratio has another meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearDecoder {
    /// `by_depth[n - 1]` holds n weights, for a hierarchy of n layers.
    pub by_depth: Vec<DepthWeights>,
}

/// Weights and bias for one number of layers.
#[derive(Debug, Clone, PartialEq)]
pub struct DepthWeights {
    /// One weight for each layer, bottom layer first.
    pub weight: Vec<f32>,
    /// Added to every answer.
    pub bias: f32,
}

impl LinearDecoder {
    /// The decoder without any correction: a unit in layer i stands for θ^(i−1) packets,
    /// or, if every layer is written to, each layer is a count of its own and the answer
    /// is their mean.
    pub fn plain(writes: Writes, theta: f32, max_layers: usize) -> Self {
        let weight = |layer: usize, depth: usize| match writes {
            Writes::Bottom => theta.powi(layer as i32),
            Writes::Every => 1.0 / depth as f32,
        };
        let by_depth = (1..=max_layers)
            .map(|depth| DepthWeights {
                weight: (0..depth).map(|layer| weight(layer, depth)).collect(),
                bias: 0.0,
            })
            .collect();
        Self { by_depth }
    }

    /// The estimate for an edge with these ratios, bottom layer first. Never negative.
    pub fn decode(&self, ratios: &[f32]) -> f64 {
        let Some(linear) = self.by_depth.get(ratios.len().wrapping_sub(1)) else {
            return 0.0;
        };
        let sum: f64 = linear
            .weight
            .iter()
            .zip(ratios)
            .map(|(w, q)| f64::from(*w) * f64::from(*q))
            .sum();
        (sum + f64::from(linear.bias)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_decoder_is_a_weighted_sum_or_a_mean() {
        let decoder = LinearDecoder::plain(Writes::Bottom, 4.0, 3);
        assert_eq!(decoder.decode(&[3.0, 2.0, 1.0]), 27.0);
        assert_eq!(decoder.decode(&[3.0]), 3.0);
        let decoder = LinearDecoder::plain(Writes::Every, 4.0, 2);
        assert_eq!(decoder.decode(&[3.0, 2.0]), 2.5);
    }
}
