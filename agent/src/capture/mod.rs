//! Where packets come from: [`live`] interfaces, or [files](mod@file) that are
//! played again by [`replay`]. Both write to a [`sink`] for each
//! interface; the one drops what it has no room for, the other waits.

mod bpf;
pub mod devices;
pub mod file;
pub mod filter;
pub mod live;
pub mod merge;
pub mod pace;
pub mod replay;
pub mod sink;
pub mod synthetic;
