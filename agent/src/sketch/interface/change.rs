//! An interface goes on with another ring, in another way, or under other names.

use std::sync::Arc;

use super::Interface;
use crate::names::Names;
use crate::sketch::renewal::Change;
use crate::sketch::ring::RingReader;
use crate::sketch::view::Views;

impl Interface {
    /// Reads this ring when the one before it has ended and is empty. What changes, if
    /// anything does, holds for what comes through it.
    pub fn follow(&mut self, ring: RingReader, change: Option<Box<Change>>) {
        self.next.push_back((ring, change));
    }

    /// Goes on with the next ring, if there is one.
    pub fn change_ring(&mut self) -> anyhow::Result<bool> {
        let Some((ring, change)) = self.next.pop_front() else {
            return Ok(false);
        };
        self.ring = ring;
        let Some(change) = change else {
            return Ok(true);
        };
        // Not before: until here the window has packets of the settings before.
        self.settings = change.settings;
        if let Some(renewal) = change.renewal {
            self.windows.renew(renewal)?;
            self.changed = true;
        }
        Ok(true)
    }

    /// Counts between networks by other names.
    pub fn rename(&mut self, names: Option<Arc<Names>>) {
        self.windows.rename(names);
        self.changed = true;
    }

    /// Has its lists made anew.
    pub fn relist(&mut self) {
        (self.views, self.changed) = (Views::default(), true);
    }
}
