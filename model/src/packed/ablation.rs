//! Ablation: which parts of the packed profile are left out, to see what they
//! are worth. Asked when a sketch is made, never when it is used.

/// Parts that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ablation {
    /// The table of heavy edges.
    pub crown: bool,
    /// Narrow cells with carry; what is left is one layer of 32-bit cells.
    pub narrow: bool,
    /// The network; what is left as an answer is the upper bound.
    pub decoder: bool,
    /// The sample that estimates are calibrated on.
    pub witnesses: bool,
}

impl Ablation {
    /// Nothing is left out.
    pub const NONE: Self = Self {
        crown: false,
        narrow: false,
        decoder: false,
        witnesses: false,
    };
}
