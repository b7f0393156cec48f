//! Where packets come from: [`live`] interfaces or [`file`]s.

pub mod devices;
pub mod file;
pub mod live;
pub mod pace;
pub mod synthetic;
