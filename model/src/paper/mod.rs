//! The paper profile: dense layers, as published.
//!
//! | module | holds |
//! |---|---|
//! | [`sketch`], [`settings`] | what can be asked of it, what can be chosen about it |
//! | [`hierarchy`], [`carry`], [`writes`] | layers that grow: store, carry, query, expansion |
//! | [`ids`], [`encoder`], [`decoder`], [`weights`] | their learned parts and what these see |
//! | [`executor`] | how a batch meets a layer: fused CPU code or candle tensors |
//! | [`layers`], [`profile`] | layers below a crown, and how a budget is shared out |

pub mod carry;
mod climb;
pub mod decoder;
pub mod encoder;
pub mod executor;
pub mod hierarchy;
pub mod ids;
pub mod layers;
pub mod profile;
pub mod settings;
pub mod sketch;
pub mod weights;
pub mod writes;

pub use profile::PaperProfile;
