//! Metrics for Prometheus: the families are in [`metrics`], the exported lists of a window in
//! [`stable_lists`], the exposition format in [`text`].

pub mod agent;
pub mod metrics;
mod process;
pub mod stable_lists;
mod text;
mod watched;
