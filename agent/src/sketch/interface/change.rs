//! An interface goes on with another ring, in another way, or under other names.

use std::sync::Arc;

use super::Interface;
use crate::names::Names;
use crate::sketch::renewal::Renewal;
use crate::sketch::ring::RingReader;
use crate::sketch::view::Views;

impl Interface {
    /// Reads this ring when the one before it has ended and is empty, and stores what
    /// comes through it in another way, if there is one.
    pub fn follow(&mut self, ring: RingReader, renewal: Option<Box<Renewal>>) {
        self.next.push_back((ring, renewal));
    }

    /// Goes on with the next ring, if there is one.
    pub fn change_ring(&mut self) -> anyhow::Result<bool> {
        let Some((ring, renewal)) = self.next.pop_front() else {
            return Ok(false);
        };
        self.ring = ring;
        if let Some(renewal) = renewal {
            self.windows.renew(*renewal)?;
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
