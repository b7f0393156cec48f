//! Crane, a hierarchical neural sketch for graph streams.
//!
//! A stream of edges `src → dst` is summarised in a few small layers of
//! memory. Each edge is written as a pattern (its *code*); what grows beyond a
//! threshold is *carried* to the next layer. Heavy edges thus move up and
//! leave the bottom to the many light ones. The *crown*, a small part above the
//! layers, counts the heaviest edges by name. *Witnesses*, a few edges chosen by
//! a keyed hash and counted exactly, tell how far the layers can be believed.
//! As long as all edges fit, a sketch is simply a *table* of them.
//!
//! `examples/quickstart.rs` stores a stream, asks, saves and loads.
//!
//! This crate is pure: no files, no clocks, no metrics, no threads of its own.
//!
//! | module | holds |
//! |---|---|
//! | [`edge`], [`name`], [`secret`], [`codes`] | edges, what sketches call them, keyed ids and where they lead |
//! | [`arrival`], [`fold`], [`answer`] | what reaches a sketch, equal edges of a batch as one; what it says |
//! | [`memory`] | memory on demand, out of a pool |
//! | [`crane`] | the sketch: a table that grows, then layers below a crown; saving it |
//! | [`table`], [`crown`], [`witnesses`], [`layers`], [`sample`] | what it is made of |
//! | [`fan`] | with how many others each node talks |
//! | [`packed`] | layers for real traffic: narrow cells, witnesses, a load-aware decoder |
//! | [`paper`] | layers as in the paper: dense, with learned encoders |
//! | [`weights`], [`device`] | files of learned parts, and where they run |
//! | [`train`] | how the weights are made |
//! | [`rivals`] | other methods, to be measured beside it |

pub mod answer;
pub mod arrival;
mod choice;
pub mod codes;
pub mod crane;
pub mod crown;
pub mod device;
pub mod edge;
pub mod error;
pub mod fan;
pub mod fold;
pub mod layers;
pub mod memory;
pub mod name;
pub mod packed;
pub mod paper;
pub mod rivals;
pub mod sample;
pub mod secret;
pub mod sizes;
pub mod table;
pub mod train;
pub mod weights;
pub mod witnesses;

pub use answer::{Amount, Flow};
pub use arrival::Arrival;
pub use crane::{Crane, Profile};
pub use device::DeviceChoice;
pub use edge::{Edge, Weighted};
pub use error::{Error, Result};
pub use memory::{Allowance, Pool};
pub use packed::weights::PackedWeights;
pub use paper::carry::Carry;
pub use paper::hierarchy::Hierarchy;
pub use paper::ids::Ids;
pub use paper::settings::Settings;
pub use paper::sketch::Sketch;
pub use paper::weights::PaperWeights;
pub use paper::writes::Writes;
pub use secret::Secret;
