//! The process: log, signals, privileges, panics, and notifications to systemd.

pub mod clock;
pub mod host;
pub mod log;
pub(crate) mod panics;
pub(crate) mod privileges;
pub mod stop;
pub(crate) mod systemd;
