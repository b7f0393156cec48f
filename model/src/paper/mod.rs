//! The paper profile: dense layers, as published.
//!
//! | module | holds |
//! |---|---|
//! | [`hierarchy`], [`carry`] | layers that grow: store, carry, query, expansion |
//! | [`encoder`], [`decoder`], [`weights`] | their learned parts |
//! | [`executor`] | how a batch meets a layer: fused CPU code or candle tensors |
//! | [`layers`] | layers under a crown |

pub mod carry;
pub mod decoder;
pub mod encoder;
pub mod executor;
pub mod hierarchy;
pub mod layers;
pub mod weights;

pub use layers::{Paper, Profile, SMALLEST};
