//! Replaces the ring, the settings or the names of an interface.

use std::sync::Arc;

use super::Interface;
use crate::ring::edge_ring::RingReader;
use crate::ring::renewal::Change;
use crate::traffic::names::Names;

impl Interface {
    /// Adds the next ring, which is read when the current one has ended and is empty. `change`
    /// takes effect with the first packet of that ring.
    pub fn follow(&mut self, ring: RingReader, change: Option<Box<Change>>) {
        self.next.push_back((ring, change));
    }

    /// Switches to the next ring. Returns whether there is one.
    pub fn change_ring(&mut self) -> anyhow::Result<bool> {
        let Some((ring, change)) = self.next.pop_front() else {
            return Ok(false);
        };
        self.ring = ring;
        let Some(change) = change else {
            return Ok(true);
        };
        // Set only now, because the window had packets of the previous settings until here.
        self.settings = change.settings;
        if let Some(renewal) = change.renewal {
            self.windows.renew(renewal)?;
        }
        Ok(true)
    }

    /// Replaces the names by which traffic between networks is counted.
    pub fn rename(&mut self, names: Option<Arc<Names>>) {
        self.windows.rename(names);
    }
}
