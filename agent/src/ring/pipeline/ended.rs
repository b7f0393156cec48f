//! Windows of the previous run that ended while no agent ran. They are reported to the
//! listener once, like windows that end in this run.

use std::sync::Arc;

use super::Pipeline;
use crate::saved::window::SavedWindow;
use crate::sketches::sampling::Sampling;
use crate::traffic::tally::Tally;
use crate::window::windows::{OnTurn, WasReported};
use crate::window::{Bounds, Until, Window};

/// Receives live windows that have ended.
pub struct Listener {
    pub on_turn: OnTurn,
    /// Whether windows of the previous run are reported, too.
    pub reports_saved: bool,
    /// Whether a window was already reported in the previous run.
    pub was_reported: WasReported,
}

impl Pipeline {
    /// Sets the listener for live windows that end. Must be called before
    /// [`Self::keep_windows`].
    pub fn set_listener(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// Reports the windows of the previous run that have ended, and removes them.
    pub(super) fn end_saved(&mut self) {
        let Some((mut folder, thread)) = self.saved.take() else {
            return;
        };
        let report = |window: &SavedWindow, sketches: &[u8]| self.report(window, sketches);
        folder.end(&report);
        self.saved = Some((folder, thread));
    }

    /// Whether a saved window was already reported to the listener as ended.
    pub(super) fn was_reported(&self, window: &SavedWindow) -> bool {
        let listener = self.listener.as_ref();
        listener.is_some_and(|listener| (listener.was_reported)(&window.interface, window.start))
    }

    fn report(&self, saved: &SavedWindow, sketches: &[u8]) -> anyhow::Result<()> {
        let listener = self.listener.as_ref();
        let Some(listener) = listener.filter(|listener| listener.reports_saved) else {
            return Ok(());
        };
        if self.was_reported(saved) {
            return Ok(());
        }
        let tally = Arc::new(Tally::default());
        let scale = u64::from(self.config.capture.sample);
        let sampling = Sampling::new(scale, Arc::clone(&tally), 0).after(saved.unsampled);
        let budget = self.admit()?;
        let mut loaded = self.blueprint.build(&budget, saved.number, sampling)?;
        loaded.load(sketches)?;
        // It ended when it was last saved.
        let bounds = Bounds {
            start: saved.start,
            end: saved.start + saved.lasted,
        };
        let names = self.names.clone();
        let lookup = Arc::clone(&self.lookup);
        let bounds = Some(bounds);
        let mut window = Window::new(saved.number, bounds, Until::End, loaded, names, lookup);
        window.unseen = saved.unseen;
        (window.packets, window.bytes) = (saved.packets, saved.bytes);
        (listener.on_turn)(&saved.interface, &window.finish(), &tally);
        Ok(())
    }
}
