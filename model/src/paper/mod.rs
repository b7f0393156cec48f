//! The paper profile: dense layers with learned codes, as published.
//!
//! **Accuracy.** No guaranteed bounds. `docs/accuracy.md` compares it with other methods.
//! **Cost.** 16 KiB for each layer; encoding an edge costs 2 × 3,392 multiplications for
//! each layer.
//!
//! | module | contents |
//! |---|---|
//! | [`sketch`], [`settings`] | the interface of the sketch, and its settings |
//! | [`hierarchy`], [`carry`], [`writes`] | layers that grow: store, carry, query, expansion |
//! | [`ids`], [`encoder`], [`decoder`], [`weights`] | the learned parts and their inputs |
//! | [`executor`] | the operations on a layer: fused CPU code or candle tensors |
//! | [`layers`], [`profile`] | layers below a crown, and how a budget is divided |

mod batch;
pub mod carry;
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

pub use batch::LayerObserver;
pub use profile::PaperProfile;
