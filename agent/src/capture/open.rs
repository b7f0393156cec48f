//! An open capture and its state.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use anyhow::Context;

use super::network::Network;
use super::settings::CaptureSettings;
use super::sink::PacketSink;
use super::source::{PacketSource, Stamps, Taken};
use crate::traffic::tally::Tally;

/// An open capture of an interface, with the settings it was opened with.
pub struct Open {
    pub source: Box<dyn PacketSource>,
    /// Index of the interface when the capture was opened.
    pub index: u32,
    pub settings: CaptureSettings,
    /// When the interface was last checked.
    pub checked_at: Instant,
    /// Whether no packet was read since then.
    pub quiet: bool,
}

impl Open {
    /// Opens a capture on the interface `name`.
    pub fn new(
        network: &dyn Network,
        name: &str,
        settings: &CaptureSettings,
    ) -> anyhow::Result<Self> {
        let link_state = network.find(name)?;
        let link_state = link_state.with_context(|| format!("no such interface: {name}"))?;
        Ok(Self {
            source: network.open(name, settings)?,
            index: link_state.index,
            settings: settings.clone(),
            checked_at: Instant::now(),
            quiet: true,
        })
    }

    /// Reads a limited number of packets that are ready, and passes on those whose
    /// timestamps are in `stamps`.
    pub fn take(&mut self, sink: &mut PacketSink, stamps: Stamps) -> anyhow::Result<Taken> {
        self.quiet = false;
        let taken = self.source.take(sink, stamps);
        sink.hand_over();
        taken
    }

    /// Adds the losses since the last call to `tally`. Without a tally they are discarded.
    pub fn count_losses(&mut self, tally: Option<&Tally>) {
        (self.checked_at, self.quiet) = (Instant::now(), true);
        let losses = self.source.losses();
        if let Some(tally) = tally {
            tally.kernel_drops.fetch_add(losses.kernel, Relaxed);
            tally.interface_drops.fetch_add(losses.interface, Relaxed);
        }
    }
}
