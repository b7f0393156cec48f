//! The packed profile: layers of narrow cells, for real traffic.
//!
//! | module | contents |
//! |---|---|
//! | [`cell_finder`] | the cells of an edge |
//! | [`cells`], [`tensor`], [`placement`] | narrow cells, on the CPU or a candle device |
//! | [`narrow`] | three layers of them: conservative update, carry, smallest cell |
//! | [`load_model`], [`features`] | the load of a sketch, and the features that the decoder is given |
//! | [`decoder`], [`weights`], [`calibration`] | from features to estimates and intervals |
//! | [`layers`] | all of it as [`crate::layers::Layers`] |
//! | [`profile`], [`shape`] | how a budget is divided |
//! | [`training`] | the inputs of the decoder, for training |
//!
//! **Accuracy.** The upper bound is never below the count. With D edges in n bottom
//! cells, the bound of an edge with one packet is too high with a probability of about (1
//! − e^(−3D/n))³: 0.3 % for D = n/20, 2 % for D = n/10, 15 % for D = n/4. Beyond that the
//! decoder estimates the median and a 90 % interval, which is widened until it holds 93.5
//! % of the witnesses. **Cost.** Three cells of 4 bits for most edges, so 1.5 bytes for
//! an edge if D = n/3. An arrival reads one bucket of the crown and reads and raises
//! three cells in each layer that its edge has reached.

pub mod calibration;
pub mod cell_finder;
pub mod cells;
pub mod decoder;
pub mod features;
pub mod layers;
pub mod load_model;
pub mod narrow;
pub mod placement;
pub mod profile;
pub mod shape;
pub mod tensor;
pub mod training;
pub mod weights;

pub use profile::PackedProfile;
pub use weights::PackedWeights;
