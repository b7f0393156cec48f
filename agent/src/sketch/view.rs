//! The picture that others see of an interface, made anew when it has changed.

use std::sync::Arc;

use super::groups::Groups;
use super::sketches::Sketches;
use super::window::WindowClock;
use super::windows::Windows;
use crate::edge::Pair;
use crate::export::snapshot::{Exported, InterfaceView, Until, WindowView};
use crate::tally::Tally;

/// What pictures show.
#[derive(PartialEq)]
pub struct Lists {
    /// How many heavy hitters.
    pub top: usize,
    /// Pairs that are always shown.
    pub watch: Vec<Pair>,
}

/// Makes pictures, each of which follows the one before: lists change no more
/// often than they have to, and a window that is over is looked at once.
#[derive(Default)]
pub struct Views {
    exported: Exported,
    /// The last window, and how many had begun when it was looked at.
    last: Option<(u64, Arc<WindowView>)>,
}

impl Views {
    /// The next picture.
    pub fn next(
        &mut self,
        name: &str,
        tally: &Arc<Tally>,
        windows: &Windows,
        ended: bool,
        lists: &Lists,
    ) -> crane_model::Result<InterfaceView> {
        let current = windows.current();
        match (windows.last(), &self.last) {
            // Nothing new: it was exported when it was over.
            (Some(_), Some((begun, _))) if *begun == windows.begun() => {}
            (Some(last), _) => {
                self.exported = follow(&self.exported, &last.sketches, lists)?;
                let view = last.view(lists.top, Until::End);
                self.last = Some((windows.begun(), Arc::new(view)));
            }
            (None, _) => self.exported = follow(&self.exported, &current.sketches, lists)?,
        }
        let loads = current.sketches.pairs.loads()?;
        Ok(InterfaceView {
            name: name.into(),
            tally: Arc::clone(tally),
            ended,
            loads: loads.iter().map(|load| load.mean).collect(),
            expansions: windows.expansions(),
            memory_bytes: windows.memory_bytes(),
            saturated: current.sketches.is_saturated()?,
            groups: windows.groups().map(Groups::seen),
            current: current.view(lists.top, until(windows)),
            last: self.last.as_ref().map(|(_, view)| Arc::clone(view)),
            exported: self.exported.clone(),
        })
    }
}

/// Until when the current window has lasted.
pub fn until(windows: &Windows) -> Until {
    match windows.clock() {
        WindowClock::Monotonic(clock) => Until::Now(clock.began()),
        WindowClock::Packets(_) | WindowClock::Never => Until::Latest,
    }
}

/// What is exported of `sketches` after `before`.
fn follow(before: &Exported, sketches: &Sketches, lists: &Lists) -> crane_model::Result<Exported> {
    let top = lists.top;
    let watched = lists.watch.iter().map(|pair| sketches.pair(*pair));
    // Twice as many, to see whether those who are in the list still belong there.
    let fans = sketches.largest_fans(2 * top);
    Ok(Exported {
        fans: before.fans.follow(&fans, top),
        pairs: before.pairs.follow(sketches.named_pairs(), top),
        sources: before.sources.follow(sketches.named_sources(), top),
        destinations: before
            .destinations
            .follow(sketches.named_destinations(), top),
        services: before.services.follow(sketches.named_services(), top),
        watched: watched.collect::<Result<_, _>>()?,
    })
}
