//! What changes in the worker and in an interface when the configuration is reloaded.

use std::sync::Arc;
use std::time::Duration;

use crate::saved::settings::Settings;
use crate::traffic::batch::Cut;
use crate::traffic::names::Names;
use crate::window::windows::Renewal;

/// Changes that take effect with the first packet of the next ring.
pub struct Change {
    /// The settings under which its packets are stored; `None` if windows are not saved.
    pub settings: Option<Arc<Settings>>,
    /// The new way of storing packets, if it changes.
    pub renewal: Option<Renewal>,
}

/// Settings of the worker that are the same for all interfaces.
pub struct WorkerSettings {
    /// When a batch is stored.
    pub cut: Cut,
    /// Names of networks, if there are any.
    pub names: Option<Arc<Names>>,
    /// Pause between two saves of an interface, if windows are saved.
    pub save_interval: Duration,
}
