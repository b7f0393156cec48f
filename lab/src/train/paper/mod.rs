//! Training of the paper profile.
//!
//! A stream is stored without gradient by the code that stores real traffic, which also
//! reports how much of each edge is kept in each layer. With these amounts fixed, the
//! memory of a layer is a product of codes, through which the error of the queries is
//! propagated back to the encoders.
//!
//! | module | contents |
//! |---|---|
//! | [`network`] | the encoders as trainable variables |
//! | [`task`] | storing a stream and reading it, with gradient |
//! | [`decoder_fit`] | the decoder that fits frozen encoders best |
//! | [`fit`] | the loop: AdamW, validation |
//! | `files` | weights and checkpoints |
//! | [`usage`] | how evenly codes use their outputs |

pub mod decoder_fit;
mod files;
pub mod fit;
pub mod network;
pub mod task;
pub mod usage;
