//! Growth: a full table becomes a larger one, or layers.
//!
//! Names and counts of a table are all known when it is poured, so layers that
//! were grown into are as good as layers from the start. While it is poured
//! both are there: twice the memory, for milliseconds.

use super::{Crane, Layered, Store};
use crate::Result;
use crate::crown::Count;
use crate::name::{Narrow, Wide};
use crate::sample::Sample;
use crate::table::{Kept, Tables};

impl Crane {
    /// Makes the table of names of this kind larger; where there is no memory
    /// for that, or no use in it, layers take its place.
    pub(super) fn grow<N: Kept>(&mut self) -> Result<()> {
        let Store::Tables(tables) = &mut self.store else {
            return Ok(());
        };
        self.expansions += 1;
        let doubled = tables.doubled::<N>(self.allowance.most());
        let larger = doubled.filter(|bytes| self.allowance.reach(*bytes));
        if larger.is_some_and(|bytes| tables.resize::<N>(bytes)) {
            return Ok(());
        }
        let bytes = self.allowance.reach_most();
        if let Store::Tables(tables) = &self.store {
            self.store = Store::Layered(self.poured(bytes, tables)?);
        }
        Ok(())
    }

    /// Crown and layers of `bytes` that hold what is in `tables`.
    pub(super) fn poured(&self, bytes: usize, tables: &Tables) -> Result<Layered> {
        let mut layered = self.empty_layers(bytes)?;
        layered.pour(tables)?;
        Ok(layered)
    }

    /// Crown and layers of `bytes` without an edge.
    pub(super) fn empty_layers(&self, bytes: usize) -> Result<Layered> {
        let room = match self.sampled {
            true => Sample::room_in(bytes, self.profile.least()),
            false => 0,
        };
        let sample = self.sampled.then(|| Sample::new(room, self.codes.sample()));
        let allotment = self.profile.layers.allot(&self.codes, bytes - room)?;
        Ok(Layered::new(allotment, self.codes.clone(), sample))
    }
}

/// Edges on their way to the layers.
#[derive(Default)]
struct Below {
    ids: Vec<u64>,
    totals: Vec<u64>,
}

impl Layered {
    /// Takes over all that was in tables, while it is empty.
    fn pour(&mut self, tables: &Tables) -> Result<()> {
        let mut below = Below::default();
        self.pour_names::<Narrow>(tables, &mut below);
        self.pour_names::<Wide>(tables, &mut below);
        self.layers.put(&below.ids, &below.totals)?;
        self.begin();
        self.expect_noise();
        Ok(())
    }

    /// The heaviest go to the crown, all others to the layers.
    fn pour_names<N: Kept>(&mut self, tables: &Tables, below: &mut Below) {
        let mut gone = Vec::new();
        for (name, _, total) in tables.of::<N>().entries() {
            let id = self.codes.id(&name);
            self.note(id, total.packets, total.bytes);
            let spot = self.codes.spot(id);
            let count = Count::exact(total.packets, total.bytes);
            if self.outranks::<N>(count.rank(), spot) {
                self.crown.admit(spot, &name, count, &mut gone);
            } else {
                below.ids.push(id);
                below.totals.push(total.packets);
                self.unnamed.note_gone(&count, &self.sizes);
                if let Some(sample) = &mut self.sample {
                    sample.offer(&name, total.packets, total.bytes);
                }
            }
        }
        for (name, count) in gone {
            self.unnamed.note_gone(&count, &self.sizes);
            self.offer_gone(&name, &count);
            below.ids.push(self.codes.id_of_any(&name));
            below.totals.push(count.packets);
        }
    }
}
