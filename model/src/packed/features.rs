//! Features: the inputs of the decoder, for an edge and for the sketch.
//!
//! Probabilities and counts are logarithms, so that the same ratio makes the same
//! difference under every load. The order of the fields is that of the inputs of the
//! network.

/// Number of features of an edge.
pub const LOCAL: usize = 15;
/// Number of features of the sketch as a whole.
pub const GLOBAL: usize = 12;
/// Number of all features.
pub const FEATURES: usize = LOCAL + GLOBAL;

/// The quantiles that are estimated.
pub const QUANTILES: [f64; 3] = [0.05, 0.5, 0.95];

/// Log odds of noise below which the estimate is not taken from the network.
const SETTLED: f32 = -7.0;

/// Probability of noise below which the bound is taken as the count.
const CERTAIN: f32 = 0.005;

/// Features of an edge.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// ln(1 + upper bound).
    pub bound: f32,
    /// 1 if the edge has reached a layer above the bottom, else 0.
    pub above_bottom: f32,
    /// 1 if the edge has reached the top layer, else 0.
    pub in_top: f32,
    /// By how much the logarithm of its second smallest cell exceeds that of the
    /// smallest.
    pub second_cell: f32,
    /// By how much the logarithm of its largest cell exceeds that of the smallest.
    pub third_cell: f32,
    /// Log probability that a pair that never occurred reads as much as the bound.
    pub noise: f32,
    /// Log probability that it reads more than the bound.
    pub noise_above: f32,
    /// Logarithm of the share of witnesses whose count is at least the bound.
    pub counts_at_least: f32,
    /// ln(1 + count) at each of the [`QUANTILES`] of the witnesses with counts up to the
    /// bound.
    pub base: [f32; 3],
    /// Mean of ln(1 + count) − ln(1 + bound) of witnesses with similar bounds.
    pub excess: f32,
    /// Share of these witnesses whose bound is exact.
    pub exact: f32,
    /// ln(1 + count) if the noise in the bound is the median, and if it is the 95 %
    /// quantile.
    pub without_noise: [f32; 2],
    /// Probability that the bound contains any noise.
    pub any_noise: f32,
}

impl Features {
    /// Whether noise as high as the reading is far less likely than a count as high. Then
    /// the count is the bound minus the usual noise.
    pub fn is_settled(&self) -> bool {
        self.noise - self.counts_at_least < SETTLED
    }

    /// Whether noise is so rare in the layers that the edge has reached that the bound is
    /// taken as the count.
    pub fn is_certain(&self) -> bool {
        self.any_noise < CERTAIN
    }

    /// The first inputs of the network.
    pub fn inputs(&self) -> [f32; LOCAL] {
        let [low, middle, high] = self.base;
        [
            self.bound,
            self.above_bottom,
            self.in_top,
            self.second_cell,
            self.third_cell,
            self.noise,
            self.noise_above,
            self.counts_at_least,
            low,
            middle,
            high,
            self.excess,
            self.exact,
            self.without_noise[0],
            self.without_noise[1],
        ]
    }
}

/// Features of the sketch as a whole.
#[derive(Debug, Clone, Copy)]
pub struct LoadFeatures {
    /// Logarithm of the number of distinct edges per cell of the bottom layer.
    pub edges_per_cell: f32,
    /// Logarithm of the mean count of the witnesses.
    pub mean_count: f32,
    /// Share of the witnesses with one packet.
    pub once: f32,
    /// Share of the witnesses whose bound is exact.
    pub exact: f32,
    /// Share of the bottom cells that are 0.
    pub bottom_empty: f32,
    /// Share of the bottom cells that are at their limit.
    pub bottom_full: f32,
    /// Mean of the bottom cells, relative to their limit.
    pub bottom_mean: f32,
    /// Share of the middle cells that are 0.
    pub middle_empty: f32,
    /// Share of the middle cells that are at their limit.
    pub middle_full: f32,
    /// Share of the top cells that are 0.
    pub top_empty: f32,
    /// ln(1 + number of witnesses).
    pub witnesses: f32,
    /// ln(1 + median reading of pairs that never occurred).
    pub absent: f32,
}

impl LoadFeatures {
    /// The inputs of the network that follow those of the edge.
    pub fn inputs(&self) -> [f32; GLOBAL] {
        [
            self.edges_per_cell,
            self.mean_count,
            self.once,
            self.exact,
            self.bottom_empty,
            self.bottom_full,
            self.bottom_mean,
            self.middle_empty,
            self.middle_full,
            self.top_empty,
            self.witnesses,
            self.absent,
        ]
    }
}
