//! Where packets come from: [`live`] interfaces, or [files](mod@file) that are
//! played again by [`replay`]. Both write to the sink that the pipeline has for
//! each interface; the one drops what it has no room for, the other waits.

pub mod devices;
pub mod file;
pub mod live;
pub mod pace;
pub mod replay;
pub mod synthetic;
