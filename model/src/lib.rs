//! Crane, a hierarchical neural sketch for graph streams.
//!
//! A sketch summarises a stream of edges `src → dst` in bounded memory and answers how
//! many packets and bytes an edge has had.
//!
//! - As long as all edges fit, the sketch is a *table* and every answer is exact.
//! - Then it becomes a few *layers* of small counters. Each edge is written to a few
//!   cells (its *code*); the part of a count that exceeds a cell's limit is *carried* to
//!   the next layer, so that heavy edges move up and the bottom layer is left to the many
//!   light ones.
//! - The *crown*, a small table above the layers, counts the heaviest edges by name.
//! - *Witnesses* are a few edges that a keyed hash selects and that are counted exactly.
//!   Their true counts calibrate the estimates of the layers.
//!
//! ```
//! use std::sync::Arc;
//! use crane_model::{Allowance, Arrival, Crane, DeviceChoice, PackedWeights, Profile, Secret};
//!
//! # fn main() -> crane_model::Result<()> {
//! let device = DeviceChoice::Cpu.open()?;
//! let profile = Arc::new(Profile::packed(Arc::new(PackedWeights::built_in()?), &device));
//! let secret = Secret::from_seed(1);
//! // 8 KiB at first, 64 KiB at most.
//! let mut sketch = Crane::new(&profile, secret, 0, Allowance::alone(8 << 10, 64 << 10))?;
//!
//! // 3 packets with 180 bytes of the edge named [7].
//! sketch.store(&[Arrival::new(&secret, [7], 3, 180)])?;
//! let flow = sketch.flow([7])?;
//! assert!(flow.packets.is_exact());
//! assert_eq!((flow.packets.estimate, flow.bytes.estimate), (3, 180));
//! # Ok(())
//! # }
//! ```
//!
//! `examples/quickstart.rs` stores a longer stream, lists the heaviest edges, saves and
//! loads. The package `crane-lab` trains the weights and compares Crane with other
//! methods. This crate reads no files and no clock, emits no metrics and starts no
//! threads.
//!
//! | module | contents |
//! |---|---|
//! | [`edge`], [`name`], [`secret`], [`codes`] | edges, their names, keyed ids and what is derived from them |
//! | [`arrival`], [`fold`], [`answer`] | input of a sketch, merging equal edges of a batch, output of a sketch |
//! | [`memory`], [`scratch`] | memory on demand from a shared pool; working memory shared by the sketches of a thread |
//! | [`crane`] | the sketch: a table that grows, then layers below a crown; saved states |
//! | [`table`], [`crown`], [`witnesses`], [`layers`], [`sample`] | the parts of a sketch |
//! | [`fan`] | the number of peers of each node |
//! | [`packed`] | layers for real traffic: narrow cells, witnesses, a decoder adapted to the load |
//! | [`paper`] | layers as in the paper: dense, with learned encoders |
//! | [`format`] | kind and version at the start of saved states |
//! | [`weights`], [`device`] | weight files, and the device that the layers run on |

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
pub mod format;
pub mod layers;
pub mod memory;
pub mod name;
pub mod packed;
pub mod paper;
pub mod sample;
pub mod scratch;
pub mod secret;
pub mod sizes;
pub mod table;
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
pub use paper::settings::HierarchySettings;
pub use paper::sketch::Sketch;
pub use paper::weights::PaperWeights;
pub use paper::writes::Writes;
pub use scratch::Scratch;
pub use secret::Secret;
