//! The packed profile: the hierarchy made to fit real traffic.
//!
//! | module | holds |
//! |---|---|
//! | [`cells`], [`placement`], [`tensor`] | narrow cells, on the CPU or a candle device |
//! | [`layers`] | three layers: conservative store, carry, smallest ratio |
//! | [`load_model`], [`features`], [`decoder`], [`weights`] | what the load is, and what it makes of a reading |
//! | [`shape`], [`sketch`] | all of it within a budget |
//! | [`calibration`] | asking it |
//!
//! **Accuracy.** The upper bound never lies below the count. With D edges in n
//! bottom cells it is exact for all but about (1 − e^(−3D/n))³ of the edges
//! seen once; beyond that the decoder gives the median of what is likely and
//! an interval, calibrated on the witnesses.
//! **Cost.** Three cells of 4 bits for most edges, one bucket of the crown.

pub mod calibration;
pub mod cells;
pub mod decoder;
pub mod features;
pub mod layers;
pub mod load_model;
pub mod placement;
pub mod shape;
pub mod sketch;
pub mod tensor;
pub mod weights;

use std::sync::Arc;

pub use placement::Placement;
pub use sketch::Packed;
pub use weights::PackedWeights;

/// What all sketches of this profile share.
#[derive(Clone)]
pub struct PackedProfile {
    /// What is learnt.
    pub weights: Arc<PackedWeights>,
    /// Where the cells live; opened once.
    pub placement: Placement,
    /// What takes part.
    pub ablation: Ablation,
}

/// Which parts take part. Those that are left out show what they are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ablation {
    /// The table of heavy edges.
    pub crown: bool,
    /// Narrow cells with carry; without, one layer of 32-bit cells.
    pub narrow: bool,
    /// The network; without it the upper bound is the answer.
    pub decoder: bool,
    /// The sample that estimates are calibrated on.
    pub witnesses: bool,
}

impl Ablation {
    /// As it should be.
    pub const ALL: Self = Self {
        crown: true,
        narrow: true,
        decoder: true,
        witnesses: true,
    };
}
