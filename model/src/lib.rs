//! Crane, a hierarchical neural sketch for graph streams.
//!
//! A stream of edges `src → dst` is summarised in a few small layers of
//! memory. Each edge is written as a pattern (its *code*); what grows beyond a
//! threshold is *carried* to the next layer. Heavy edges thus move up and
//! leave the bottom to the many light ones. A small keyed table, the *crown*,
//! holds the heaviest edges exactly.
//!
//! This crate is pure: no files, no clocks, no metrics, no threads of its own.
//!
//! | module | holds |
//! |---|---|
//! | [`edge`] | edges, weighted edges, folding a batch |
//! | [`encoder`], [`decoder`], [`weights`] | the learned parts |
//! | [`executor`] | how a batch meets one layer: fused CPU code or candle tensors |
//! | [`carry`] | which layers are written to, what moves from one to the next |
//! | [`hierarchy`] | the layers: store, query, expansion |
//! | [`crown`], [`crane`] | the heavy-hitter table, and layers and table together |
//! | [`packed`] | the profile for real traffic: narrow cells, witnesses, a load-aware decoder |
//! | [`train`] | how the weights are made |
//! | [`rivals`] | other methods, to be measured beside it |

pub mod carry;
mod choice;
pub mod crane;
pub mod crown;
pub mod decoder;
pub mod device;
pub mod edge;
pub mod encoder;
pub mod error;
pub mod executor;
pub mod hierarchy;
pub mod packed;
pub mod rivals;
pub mod train;
pub mod weights;

pub use carry::{Carry, Writes};
pub use crane::{Arrival, Crane, Flow};
pub use device::DeviceChoice;
pub use edge::{Edge, Ids, Weighted};
pub use error::{Error, Result};
pub use hierarchy::{Hierarchy, Settings, Sketch};
pub use weights::Weights;
