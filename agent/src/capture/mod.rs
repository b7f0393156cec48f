//! Where packets come from: [`live`] interfaces, or [`file`]s that are played
//! again by [`replay`].

pub mod devices;
pub mod file;
pub mod live;
pub mod pace;
pub mod replay;
pub mod synthetic;
