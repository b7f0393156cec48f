//! Growth: replacing a full table by a larger one, or by a crown and layers.
//!
//! A table has all names and exact counts, so layers that are filled from a table are as
//! accurate as layers that were used from the start. While entries are moved, the old and
//! the new store exist at the same time: twice the memory, for some milliseconds.

use super::{Crane, Layered, Store};
use crate::Result;
use crate::crown::Count;
use crate::layers::Layers;
use crate::name::{Narrow, Wide};
use crate::sample::Sample;
use crate::table::{TableKey, Tables};

impl Crane {
    /// Enlarges the table for names of this length. If there is no memory for that, or
    /// too little to be worth it, layers replace the tables.
    pub(super) fn grow<N: TableKey>(&mut self, pause: &mut dyn FnMut()) -> Result<()> {
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
            self.store = Store::Layered(self.filled_from(bytes, tables, pause)?);
        }
        Ok(())
    }

    /// Crown and layers of `bytes` that hold what is in `tables`.
    pub(super) fn filled_from(
        &self,
        bytes: usize,
        tables: &Tables,
        pause: &mut dyn FnMut(),
    ) -> Result<Layered> {
        let mut layered = self.empty_layers(bytes)?;
        layered.take_over_tables(tables, pause)?;
        Ok(layered)
    }

    /// Empty crown and layers of `bytes` bytes.
    pub(super) fn empty_layers(&self, bytes: usize) -> Result<Layered> {
        let budget = match self.sampled {
            true => Sample::budget_in(bytes, self.profile.least()),
            false => 0,
        };
        let sample = self
            .sampled
            .then(|| Sample::new(budget, self.codes.sample()));
        let allotment = self.profile.layers.allot(&self.codes, bytes - budget)?;
        Ok(Layered::new(allotment, self.codes.clone(), sample))
    }
}

/// Edges that are stored in the layers at once: a multiple of the batch sizes of all
/// layers.
const AT_ONCE: usize = 1 << 16;

/// Edges that are moved between two calls of `pause`.
const PAUSE_EVERY: usize = 1 << 12;

/// Edges that are to be stored in the layers.
#[derive(Default)]
struct Below {
    ids: Vec<u64>,
    totals: Vec<u64>,
}

impl Below {
    /// Adds an edge, and stores all of them in the layers when there are [`AT_ONCE`].
    fn push(&mut self, id: u64, total: u64, layers: &mut dyn Layers) -> Result<()> {
        self.ids.push(id);
        self.totals.push(total);
        match self.ids.len() {
            AT_ONCE => self.put(layers),
            _ => Ok(()),
        }
    }

    fn put(&mut self, layers: &mut dyn Layers) -> Result<()> {
        layers.put(&self.ids, &self.totals)?;
        self.ids.clear();
        self.totals.clear();
        Ok(())
    }
}

impl Layered {
    /// Moves all entries of the tables into this empty crown and these empty layers.
    fn take_over_tables(&mut self, tables: &Tables, pause: &mut dyn FnMut()) -> Result<()> {
        let mut below = Below::default();
        self.take_over_names::<Narrow>(tables, &mut below, pause)?;
        self.take_over_names::<Wide>(tables, &mut below, pause)?;
        below.put(&mut *self.layers)?;
        self.refresh();
        self.measure_noise_next();
        Ok(())
    }

    /// Moves the entries with names of this length: the heaviest to the crown, all others
    /// to the layers.
    fn take_over_names<N: TableKey>(
        &mut self,
        tables: &Tables,
        below: &mut Below,
        pause: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut evicted = Vec::new();
        for (at, (name, _, total)) in tables.of::<N>().entries().enumerate() {
            if at % PAUSE_EVERY == 0 {
                pause();
            }
            let id = self.codes.id(&name);
            self.record(id, total.packets, total.bytes);
            let spot = self.codes.spot(id);
            let count = Count::exact(total.packets, total.bytes);
            if !self.crown.admit(spot, &name, count, &mut evicted) {
                below.push(id, total.packets, &mut *self.layers)?;
                self.unnamed.raise_for_evicted(&count, &self.sizes);
                if let Some(sample) = &mut self.sample {
                    sample.offer(&name, total.packets, total.bytes);
                }
            }
        }
        for (name, count) in evicted {
            self.unnamed.raise_for_evicted(&count, &self.sizes);
            self.offer_evicted(&name, &count);
            let id = self.codes.id_of_any(&name);
            below.push(id, count.packets, &mut *self.layers)?;
        }
        Ok(())
    }
}
