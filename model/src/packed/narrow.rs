//! Three layers of narrow cells, the lower the more and the narrower.
//!
//! An edge is counted in layer 1 until its cells are full; what is beyond is
//! carried to the next layer, so that small cells suffice below. The answer is
//! the smallest of an edge's cells, plus that of the next layer where they are
//! full, and so on: never below the truth.
//!
//! Store is conservative and batch-synchronous: each edge of a batch reads its
//! cells in the state before the batch, adds its own packets to the smallest
//! and raises its cells to that, no further. Raising commutes, so a batch can
//! be done in any order and on any device with the same result; a batch of one
//! is the sequential store.

use crate::packed::cells::CellArray;
use crate::packed::places::{CellPlaces, Places};
use crate::{Error, Result};

/// How many layers there are.
pub const LAYERS: usize = 3;

/// What the cells of one edge hold, smallest first, by layer; zeros where the
/// edge has not been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Cells by layer, bottom first.
    pub cells: [Places; LAYERS],
    /// Layers above the bottom that the edge has reached.
    pub reached: usize,
}

impl Reading {
    /// The upper bound: the smallest cells of all layers reached.
    pub fn bound(&self) -> u64 {
        let reached = &self.cells[..=self.reached];
        reached.iter().map(|cells| u64::from(cells[0])).sum()
    }

    /// The cells of the highest layer that the edge has reached.
    pub fn top(&self) -> Places {
        self.cells[self.reached]
    }
}

/// The cells of each layer, bottom first.
pub type Arrays = [Box<dyn CellArray>; LAYERS];

/// The layers. An edge is known by its tag, see [`crate::codes`].
pub struct NarrowLayers {
    places: CellPlaces,
    arrays: Arrays,
    /// The highest bound of an edge that has reached a layer, by layer.
    highest: [u64; LAYERS],
    scratch: Scratch,
}

/// Memory of [`NarrowLayers::add`] that is kept from batch to batch.
#[derive(Default)]
struct Scratch {
    places: Vec<Places>,
    least: Vec<u32>,
    targets: Vec<u32>,
    climbing: Vec<Climber>,
    carried: Vec<Climber>,
}

impl NarrowLayers {
    /// Layers of these cells, in which edges have these places.
    pub fn new(places: CellPlaces, arrays: Arrays) -> Self {
        let mut sum = 0;
        let highest = std::array::from_fn(|layer| {
            let array: &dyn CellArray = &*arrays[layer];
            sum += u64::from(array.limit());
            sum
        });
        Self {
            places,
            arrays,
            highest,
            scratch: Scratch::default(),
        }
    }

    /// The cells of each layer, bottom first.
    pub fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn places(&self, layer: usize, tags: impl Iterator<Item = u32>) -> Vec<Places> {
        let mut places = Vec::new();
        let cells = self.arrays[layer].cells();
        self.places.find(tags, layer, cells, &mut places);
        places
    }

    /// Adds a batch without equal tags; `bounds` are the bounds afterwards.
    pub fn add(&mut self, tags: &[u32], packets: &[u64], bounds: &mut Vec<u64>) -> Result<()> {
        let Self {
            places: finder,
            arrays: [bottom, above @ ..],
            scratch,
            ..
        } = self;
        let Scratch {
            places,
            least,
            targets,
            climbing,
            carried,
        } = scratch;
        bounds.clear();
        targets.clear();
        climbing.clear();
        let (cells, limit) = (bottom.cells(), u64::from(bottom.limit()));
        finder.find(tags.iter().copied(), 0, cells, places);
        bottom.least(places, least)?;
        let wanted = packets.iter().zip(&*least);
        bounds.extend(wanted.map(|(packets, found)| packets.saturating_add((*found).into())));
        targets.extend(bounds.iter().map(|wanted| (*wanted).min(limit) as u32));
        for (edge, (wanted, found)) in (0..).zip(bounds.iter_mut().zip(&*least)) {
            if *wanted > limit {
                climbing.push(Climber {
                    edge,
                    packets: *wanted - limit,
                    was_here: u64::from(*found) == limit,
                });
                *wanted = limit;
            }
        }
        bottom.raise(places, targets)?;
        for (layer, array) in (1..).zip(above) {
            if climbing.is_empty() {
                break;
            }
            let (cells, limit) = (array.cells(), u64::from(array.limit()));
            let climbers = climbing.iter().map(|c| tags[c.edge as usize]);
            finder.find(climbers, layer, cells, places);
            array.least(places, least)?;
            targets.clear();
            carried.clear();
            for (climber, found) in climbing.iter().zip(&*least) {
                let found = u64::from(*found) * u64::from(climber.was_here);
                let wanted = found.saturating_add(climber.packets);
                let kept = wanted.min(limit);
                targets.push(kept as u32);
                bounds[climber.edge as usize] += kept;
                if wanted > limit {
                    carried.push(Climber {
                        edge: climber.edge,
                        packets: wanted - limit,
                        was_here: found == limit,
                    });
                }
            }
            array.raise(places, targets)?;
            std::mem::swap(climbing, carried);
        }
        Ok(())
    }

    /// Makes the bounds of these edges at least `totals`.
    pub fn raise(&mut self, tags: &[u32], totals: &[u64]) -> Result<()> {
        let mut climbing: Vec<(u32, u64)> =
            tags.iter().copied().zip(totals.iter().copied()).collect();
        for layer in 0..LAYERS {
            climbing.retain(|(_, left)| *left > 0);
            if climbing.is_empty() {
                break;
            }
            let places = self.places(layer, climbing.iter().map(|(tag, _)| *tag));
            let limit = u64::from(self.arrays[layer].limit());
            let kept = climbing.iter().map(|(_, left)| (*left).min(limit) as u32);
            self.arrays[layer].raise(&places, &kept.collect::<Vec<_>>())?;
            for (_, left) in &mut climbing {
                *left = left.saturating_sub(limit);
            }
        }
        Ok(())
    }

    /// What the cells of each edge hold.
    pub fn read(&self, tags: &[u32]) -> Result<Vec<Reading>> {
        let mut readings = vec![Reading::default(); tags.len()];
        let mut here: Vec<usize> = (0..tags.len()).collect();
        let mut values = Vec::new();
        for (layer, array) in self.arrays.iter().enumerate() {
            if here.is_empty() {
                break;
            }
            let places = self.places(layer, here.iter().map(|at| tags[*at]));
            array.read(&places, &mut values)?;
            for (at, mut cells) in here.iter().zip(values.iter().copied()) {
                cells.sort_unstable();
                readings[*at].cells[layer] = cells;
                readings[*at].reached = layer;
            }
            here.retain(|at| readings[*at].cells[layer][0] == array.limit());
        }
        Ok(readings)
    }

    /// The highest layer that an edge with this bound has reached.
    pub fn level(&self, bound: u64) -> usize {
        let [one, two, _] = self.highest;
        usize::from(bound > one) + usize::from(bound > two)
    }

    /// The highest bound there can be.
    pub fn most(&self) -> u64 {
        self.highest[LAYERS - 1]
    }

    /// What others add to the bound of an edge that has reached a layer, by
    /// layer: what pairs would read that never occurred, if what they find below
    /// had carried them there. `count` of them, from the one numbered `first`.
    pub fn phantoms(&self, first: u32, count: u32) -> Result<[Vec<u64>; LAYERS]> {
        let numbers = (0..count).map(|n| first.wrapping_add(n));
        let tags: Vec<u32> = numbers.map(|n| n.wrapping_mul(0x9e37_79b1)).collect();
        let mut sums = vec![0u64; tags.len()];
        let mut noise: [Vec<u64>; LAYERS] = Default::default();
        let mut least = Vec::new();
        for (layer, noise) in noise.iter_mut().enumerate() {
            let places = self.places(layer, tags.iter().copied());
            self.arrays[layer].least(&places, &mut least)?;
            for (sum, least) in sums.iter_mut().zip(&least) {
                *sum += u64::from(*least);
            }
            noise.clone_from(&sums);
        }
        Ok(noise)
    }

    /// The upper bound of each edge.
    pub fn bounds(&self, tags: &[u32]) -> Result<Vec<u64>> {
        let readings = self.read(tags)?;
        Ok(readings.iter().map(Reading::bound).collect())
    }

    /// Share of the cells of each layer that are not 0.
    pub fn fill(&self) -> Result<[f32; LAYERS]> {
        let mut fill = [0.0; LAYERS];
        for (fill, array) in fill.iter_mut().zip(&self.arrays) {
            *fill = array.used()? as f32 / array.cells() as f32;
        }
        Ok(fill)
    }

    /// Bytes of all cells.
    pub fn memory_bytes(&self) -> usize {
        self.arrays.iter().map(|array| array.memory_bytes()).sum()
    }

    /// All cells, bottom layer first.
    pub fn save(&self, state: &mut Vec<u8>) -> Result<()> {
        for array in &self.arrays {
            state.extend(array.to_bytes()?);
        }
        Ok(())
    }

    /// Takes its cells off the front of a saved state.
    pub fn load(&mut self, state: &mut &[u8]) -> Result<()> {
        for array in &mut self.arrays {
            let (cells, rest) = state
                .split_at_checked(array.memory_bytes())
                .ok_or_else(|| Error::State("it ends inside a layer".into()))?;
            array.load_bytes(cells)?;
            *state = rest;
        }
        Ok(())
    }
}

/// An edge of a batch on its way up.
#[derive(Clone, Copy)]
struct Climber {
    edge: u32,
    packets: u64,
    /// Whether what it finds in this layer can be its own.
    was_here: bool,
}
