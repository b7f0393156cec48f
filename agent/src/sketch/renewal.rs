//! How an interface goes on when the configuration has changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Cut;
use super::budget::Budget;
use super::saved::settings::Settings;
use super::sketches::Blueprint;
use super::view::Lists;
use crate::config::length::WindowLength;
use crate::names::Names;

/// What holds from the first packet of another ring on.
pub struct Change {
    /// The settings under which its packets are stored; none if windows are not saved.
    pub settings: Option<Arc<Settings>>,
    /// How they are stored, if that is another way.
    pub renewal: Option<Renewal>,
}

/// Another way to store packets. What came before stays in the window that ends there.
pub struct Renewal {
    /// When the first windows of all began: those of the same length turn together.
    pub origin: Instant,
    /// How long windows are.
    pub length: WindowLength,
    /// Packets that each packet stands for.
    pub scale: u64,
    /// How sketches are built and out of which memory, if that has changed.
    pub rebuilt: Option<(Arc<Blueprint>, Budget)>,
}

/// What the worker goes by, whatever the interface.
pub struct Rules {
    /// When a batch is stored.
    pub cut: Cut,
    /// What is published of each interface.
    pub lists: Lists,
    /// Names of networks, if there are any.
    pub names: Option<Arc<Names>>,
    /// Pause between two saves of an interface, if windows are saved.
    pub save_interval: Duration,
}
