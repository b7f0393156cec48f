//! Comparison of methods on one edge stream: [`measure`] stores the [`stream`] in one of
//! the [`methods`], compares its answers with the [`truth`] and adds its score to the
//! [`report`].

pub mod fan;
pub mod measure;
pub mod methods;
pub mod report;
mod state;
pub mod stream;
pub mod truth;
