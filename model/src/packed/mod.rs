//! The packed profile: the hierarchy made to fit real traffic.
//!
//! | module | holds |
//! |---|---|
//! | [`places`] | which cells an edge has |
//! | [`cells`], [`tensor`], [`placement`] | narrow cells, on the CPU or a candle device |
//! | [`narrow`] | three layers of them: conservative store, carry, smallest cell |
//! | [`load_model`], [`features`] | what the load is, and what it makes of a reading |
//! | [`decoder`], [`weights`], [`calibration`] | what an answer is made of |
//! | [`layers`] | all of it, as a sketch asks for it |
//! | [`profile`], [`shape`], [`ablation`] | how a budget is shared out |
//!
//! **Accuracy.** The upper bound never lies below the count. With D edges in n
//! bottom cells it is exact for all but about (1 − e^(−3D/n))³ of the edges
//! seen once; beyond that the decoder gives the median of what is likely and
//! an interval, calibrated on the witnesses.
//! **Cost.** Three cells of 4 bits for most edges, one bucket of the crown.

pub mod ablation;
pub mod calibration;
pub mod cells;
pub mod decoder;
pub mod features;
pub mod layers;
pub mod load_model;
pub mod narrow;
pub mod placement;
pub mod places;
pub mod profile;
pub mod shape;
pub mod tensor;
pub mod weights;

pub use ablation::Ablation;
pub use profile::PackedProfile;
pub use weights::PackedWeights;
