//! Measuring methods on one edge stream, side by side: [`measure`] stores the
//! [`stream`] in one of the [`methods`], compares its answers with the [`truth`]
//! and gives its [`score`] to the [`report`].

pub mod fan;
pub mod intervals;
pub mod measure;
pub mod methods;
pub mod report;
pub mod score;
mod state;
pub mod stream;
pub mod truth;
