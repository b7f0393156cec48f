//! Where packets come from: live [`interfaces`], which come and go, or
//! [files](mod@file) that are played again by [`replay`]. Both write to a [`sink`] for each
//! interface; the one drops what it has no room for, the other waits.

mod bpf;
mod captured;
pub mod devices;
pub mod file;
pub mod filter;
pub mod interfaces;
mod live;
pub mod merge;
mod netlink;
mod open;
pub mod pace;
pub mod replay;
pub mod sink;
pub mod synthetic;
mod thread;
mod wanted;
