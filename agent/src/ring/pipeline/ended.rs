//! Windows of the run before that have ended while no agent ran: they are told of as those
//! that end in this run, once.

use std::sync::Arc;

use super::Pipeline;
use crate::saved::window::SavedWindow;
use crate::sketches::sampling::Sampling;
use crate::traffic::tally::Tally;
use crate::window::windows::{OnTurn, WasTold};
use crate::window::{Bounds, Until, Window};

/// Who is told of live windows that are over.
pub struct Listener {
    pub on_turn: OnTurn,
    /// Whether windows of the run before are of use to it.
    pub wants_saved: bool,
    pub was_told: WasTold,
}

impl Pipeline {
    /// Has live windows told of when they are over. To be called before windows are kept.
    pub fn tell(&mut self, listener: Listener) {
        self.listener = Some(listener);
    }

    /// Tells of the windows of the run before that have ended, and removes them.
    pub(super) fn end_saved(&mut self) {
        let Some((mut folder, thread)) = self.saved.take() else {
            return;
        };
        let tell = |window: &SavedWindow, sketches: &[u8]| self.tell_of(window, sketches);
        folder.end(&tell);
        self.saved = Some((folder, thread));
    }

    /// Whether a window that could be continued is over for who is told of windows.
    pub(super) fn was_told(&self, window: &SavedWindow) -> bool {
        let listener = self.listener.as_ref();
        listener.is_some_and(|listener| (listener.was_told)(&window.interface, window.start))
    }

    fn tell_of(&self, saved: &SavedWindow, sketches: &[u8]) -> anyhow::Result<()> {
        let listener = self.listener.as_ref();
        let Some(listener) = listener.filter(|listener| listener.wants_saved) else {
            return Ok(());
        };
        if self.was_told(saved) {
            return Ok(());
        }
        let tally = Arc::new(Tally::default());
        let scale = u64::from(self.config.capture.sample);
        let sampling = Sampling::new(scale, Arc::clone(&tally), 0).after(saved.unsampled);
        let budget = self.admit()?;
        let mut loaded = self.blueprint.build(&budget, saved.number, sampling)?;
        loaded.load(sketches)?;
        // It ended for good when it was saved last.
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
