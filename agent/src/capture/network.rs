//! The network interfaces of a machine as captures need them: the list of all, the state of
//! one, and opening a capture.
//!
//! [`Kernel`](super::kernel::Kernel) implements this for the operating system. Tests use a
//! network whose interfaces appear, vanish and fail on demand.

use std::time::Duration;

use super::settings::CaptureSettings;
use super::source::PacketSource;

/// The network interfaces of a machine. Shared by all threads that capture.
pub trait Network: Send + Sync {
    /// Lists all interfaces.
    fn list(&self) -> anyhow::Result<Links>;

    /// Looks up one interface. Returns `None` if there is no interface of that name.
    fn find(&self, name: &str) -> anyhow::Result<Option<LinkState>>;

    /// Waits for `time` at most. Returns whether an interface has appeared, vanished or
    /// changed since the last call, as far as the network can tell.
    fn wait_for_change(&self, time: Duration) -> bool;

    /// Opens a capture on the interface `name`, which sees packets from now on.
    fn open(&self, name: &str, settings: &CaptureSettings)
    -> anyhow::Result<Box<dyn PacketSource>>;
}

/// State of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Index of the interface. An interface that was removed and created again has another
    /// one.
    pub index: u32,
    /// Whether it is administratively up, with or without a link.
    pub up: bool,
    pub loopback: bool,
}

/// All interfaces in the order of their indices.
#[derive(Default)]
pub struct Links {
    /// Interfaces that can be captured.
    pub named: Vec<(String, LinkState)>,
    /// Interfaces whose names are not UTF-8, which libpcap does not accept. Bytes that are
    /// not ASCII are escaped: `v\xff`.
    pub unreadable: Vec<(String, LinkState)>,
}
