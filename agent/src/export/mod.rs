//! What is told of the traffic: a [`snapshot`] with the [`hitters`] of each
//! interface, from which [`metrics`] are written as [`text`].

pub mod agent;
pub mod fans;
pub mod hitters;
pub mod metrics;
mod process;
pub mod snapshot;
mod text;
mod watched;
