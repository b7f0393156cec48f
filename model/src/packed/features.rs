//! Features: the numbers that the decoder sees, of an edge and of the sketch.
//!
//! Chances and counts are logarithms, so that they differ by as much under
//! every load. The order of the fields is that of the network's inputs.

/// Features that differ from edge to edge.
pub const LOCAL: usize = 15;
/// Features of the sketch as a whole.
pub const GLOBAL: usize = 12;
/// All of them.
pub const FEATURES: usize = LOCAL + GLOBAL;

/// The quantiles that are estimated.
pub const QUANTILES: [f64; 3] = [0.05, 0.5, 0.95];

/// Logarithm of the odds below which a reading is not for the networks to
/// estimate.
const SETTLED: f32 = -7.0;

/// The chance of noise below which a bound is taken for the count.
const CERTAIN: f32 = 0.005;

/// What the network sees of one edge.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    /// ln(1 + upper bound).
    pub bound: f32,
    /// 1 for an edge that has left the bottom layer.
    pub above_bottom: f32,
    /// 1 for one that has reached the top layer.
    pub in_top: f32,
    /// By how much its second smallest cell exceeds the smallest.
    pub second_cell: f32,
    /// By how much the third does.
    pub third_cell: f32,
    /// How likely a pair that never occurred reads as much.
    pub noise: f32,
    /// How likely it reads more.
    pub noise_above: f32,
    /// Share of the witnesses with such a count or a higher one.
    pub counts_at_least: f32,
    /// ln(1 + count) at each of the [`QUANTILES`] of the witnesses up to the
    /// bound.
    pub base: [f32; 3],
    /// By how much readings of witnesses near the bound are too high.
    pub excess: f32,
    /// Share of them that are exact.
    pub exact: f32,
    /// ln(1 + count) if of the bound as much is noise as in the middle, and as
    /// in one case of twenty.
    pub without_noise: [f32; 2],
    /// The chance that any of the bound is noise.
    pub any_noise: f32,
}

impl Features {
    /// Whether noise as high as the reading is far less likely than a count as
    /// high: then the bound is the count, but for what others usually add.
    pub fn is_settled(&self) -> bool {
        self.noise - self.counts_at_least < SETTLED
    }

    /// Whether noise is so rare in the layers that the edge has reached that the
    /// bound is the count.
    pub fn is_certain(&self) -> bool {
        self.any_noise < CERTAIN
    }

    /// The inputs of the network.
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

/// What the network sees of the sketch as a whole.
#[derive(Debug, Clone, Copy)]
pub struct LoadFeatures {
    /// Distinct edges for each cell of the bottom layer.
    pub edges_per_cell: f32,
    /// Mean count of the witnesses.
    pub mean_count: f32,
    /// Share of them that were seen once.
    pub once: f32,
    /// Share of them that are read exactly.
    pub exact: f32,
    /// Share of the bottom cells that are 0.
    pub bottom_empty: f32,
    /// Share of them that are at their limit.
    pub bottom_full: f32,
    /// What they hold on average, as a share of the limit.
    pub bottom_mean: f32,
    /// Share of the middle cells that are 0.
    pub middle_empty: f32,
    /// Share of them that are at their limit.
    pub middle_full: f32,
    /// Share of the top cells that are 0.
    pub top_empty: f32,
    /// How many witnesses there are.
    pub witnesses: f32,
    /// What a pair that never occurred reads in the middle.
    pub absent: f32,
}

impl LoadFeatures {
    /// The inputs of the network, behind those of the edge.
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
