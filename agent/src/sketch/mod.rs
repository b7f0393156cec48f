//! From edges to answers.
//!
//! A capture writes to a [`ring`], the [`worker`] drains it in a [`batch`], and
//! the [`interface`] stores that in the [`sketches`] of its [`window`], within a
//! [`budget`]. The worker answers each [`query`]; a [`pipeline`] is all of it.

pub mod batch;
pub mod budget;
pub mod interface;
pub mod pipeline;
pub mod query;
pub mod ring;
pub mod sketches;
pub mod weights;
pub mod window;
pub mod worker;
