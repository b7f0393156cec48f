//! Training of the paper profile.
//!
//! A task is a small world: a stream is stored without gradient by the same
//! code that stores real traffic, which also tells how much of each edge ended
//! up in each layer. With that fixed, every layer's memory is one product of
//! codes, through which the error of the queries flows back into the encoders.
//!
//! | module | holds |
//! |---|---|
//! | [`network`] | the encoders as trainable variables |
//! | [`task`] | storing a stream and asking it back, with gradient |
//! | [`decoder_fit`] | the decoder that fits frozen encoders best |
//! | [`fit`] | the loop: AdamW, validation |
//! | `files` | weights and checkpoints |

pub mod decoder_fit;
mod files;
pub mod fit;
pub mod network;
pub mod task;
