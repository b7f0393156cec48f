//! Measuring methods on one edge stream, side by side.

pub mod methods;
pub mod report;
pub mod score;
pub mod stream;
