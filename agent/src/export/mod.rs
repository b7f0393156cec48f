//! Metrics for Prometheus: [`metrics`] has the families, [`stable_lists`] what is exported of a
//! window, [`text`] the exposition format.

pub mod agent;
pub mod metrics;
mod process;
pub mod stable_lists;
mod text;
mod watched;
