//! From edges to answers.
//!
//! A capture fills a [`ring`], the [`worker`] drains it in batches, and each
//! [`interface`] stores its own in the [`sketches`] of its [`windows`], within a
//! [`budget`]. The worker publishes the [`view`] of each and answers each
//! [`query`]; a [`pipeline`] is all of it. Windows are [`saved`] for the next run.

pub mod answer;
mod batch;
mod budget;
pub mod conversations;
pub mod estimate;
pub mod fan_rows;
mod fans;
mod groups;
pub mod inside;
mod interface;
pub mod key;
mod main_services;
pub mod past;
pub mod pipeline;
mod query;
pub mod renewal;
pub mod ring;
mod sampling;
pub mod saved;
mod sketches;
pub mod slot;
pub mod summary;
mod view;
pub mod weights;
pub mod window;
mod windows;
pub mod worker;
