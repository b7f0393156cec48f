//! Training, on synthetic streams only.
//!
//! | module | contents |
//! |---|---|
//! | [`streams`] | synthetic streams: ids, counts, order |
//! | [`optimiser`] | AdamW |
//! | [`paper`] | encoders and decoder of the paper profile |
//! | [`packed`] | the decoder of the packed profile |

pub mod optimiser;
pub mod packed;
pub mod paper;
pub mod streams;

pub use paper::fit::{Options, Progress, Trainer};
