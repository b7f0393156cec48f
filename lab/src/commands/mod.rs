//! One module for each command.

pub mod device;
pub mod eval;
pub mod train;
