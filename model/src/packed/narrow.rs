//! Three layers of narrow cells. The lower a layer, the more cells it has and the
//! narrower they are.
//!
//! An edge is counted in the bottom layer until its cells are full; the rest is carried
//! to the next layer. The upper bound of an edge is its smallest cell in the bottom
//! layer, plus, if that is at its limit, its smallest cell in the next layer, and so on.
//! It is never below the count.
//!
//! Storing is conservative and batch-synchronous: each edge of a batch reads its cells in
//! the state before the batch, adds its own packets to the smallest one and raises its
//! cells to that sum, no further. Raising commutes, so a batch has the same result in any
//! order and on any device; batches of one edge are the sequential algorithm.

use crate::packed::cell_finder::{CELLS, CellFinder, CellIndices, CellValues};
use crate::packed::cells::CellArray;
use crate::{Error, Result};

/// Number of layers.
pub const LAYERS: usize = 3;

/// The cells of one edge by layer, smallest first; 0 in layers that the edge has not
/// reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Cells by layer, bottom first.
    pub cells: [CellValues; LAYERS],
    /// The highest layer that the edge has reached; 0 is the bottom layer.
    pub reached: usize,
}

impl Reading {
    /// The upper bound: the sum of the smallest cells of all layers that the edge has
    /// reached.
    pub fn bound(&self) -> u64 {
        let reached = &self.cells[..=self.reached];
        reached.iter().map(|cells| u64::from(cells[0])).sum()
    }

    /// The cells of the highest layer that the edge has reached.
    pub fn top(&self) -> CellValues {
        self.cells[self.reached]
    }
}

/// The cells of each layer, bottom first.
pub type Arrays = [Box<dyn CellArray>; LAYERS];

/// The layers. Edges are identified by their tags, see [`crate::codes`].
pub struct NarrowLayers {
    finder: CellFinder,
    arrays: Arrays,
    /// By layer: the highest bound of an edge that has reached this layer and no higher
    /// one.
    highest: [u64; LAYERS],
}

/// Working memory of [`NarrowLayers::add`].
#[derive(Default)]
pub struct CellScratch {
    /// Tags of the edges.
    pub tags: Vec<u32>,
    indices: Vec<CellIndices>,
    least: Vec<u32>,
    targets: Vec<u32>,
    carrying: Vec<CarriedEdge>,
    carried: Vec<CarriedEdge>,
}

impl CellScratch {
    /// Bytes for each arrival of a batch.
    pub const BYTES_PER_ARRIVAL: usize =
        3 * size_of::<u32>() + size_of::<CellIndices>() + 2 * size_of::<CarriedEdge>();

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        4 * (self.tags.capacity() + self.least.capacity() + self.targets.capacity())
            + self.indices.capacity() * size_of::<CellIndices>()
            + (self.carrying.capacity() + self.carried.capacity()) * size_of::<CarriedEdge>()
    }
}

impl NarrowLayers {
    /// Layers of these cells. `finder` determines the cells of each edge.
    pub fn new(finder: CellFinder, arrays: Arrays) -> Self {
        let mut sum = 0;
        let highest = std::array::from_fn(|layer| {
            let array: &dyn CellArray = &*arrays[layer];
            sum += u64::from(array.limit());
            sum
        });
        Self {
            finder,
            arrays,
            highest,
        }
    }

    /// The cells of each layer, bottom first.
    pub fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    fn indices(&self, layer: usize, tags: impl Iterator<Item = u32>) -> Vec<CellIndices> {
        let mut indices = Vec::new();
        let cells = self.arrays[layer].cells();
        self.finder.find(tags, layer, cells, &mut indices);
        indices
    }

    /// Adds a batch without equal tags. `bounds` receives the bounds afterwards.
    pub fn add(
        &mut self,
        tags: &[u32],
        packets: &[u64],
        bounds: &mut Vec<u64>,
        scratch: &mut CellScratch,
    ) -> Result<()> {
        let Self {
            finder,
            arrays: [bottom, above @ ..],
            ..
        } = self;
        let CellScratch {
            indices,
            least,
            targets,
            carrying,
            carried,
            ..
        } = scratch;
        bounds.clear();
        targets.clear();
        carrying.clear();
        let (cells, limit) = (bottom.cells(), u64::from(bottom.limit()));
        finder.find(tags.iter().copied(), 0, cells, indices);
        bottom.least(indices, least)?;
        let wanted = packets.iter().zip(&*least);
        bounds.extend(wanted.map(|(packets, found)| packets.saturating_add((*found).into())));
        targets.extend(bounds.iter().map(|wanted| (*wanted).min(limit) as u32));
        for (edge, (wanted, found)) in (0..).zip(bounds.iter_mut().zip(&*least)) {
            if *wanted > limit {
                carrying.push(CarriedEdge {
                    edge,
                    packets: *wanted - limit,
                    was_here: u64::from(*found) == limit,
                });
                *wanted = limit;
            }
        }
        bottom.raise(indices, targets)?;
        for (layer, array) in (1..).zip(above) {
            if carrying.is_empty() {
                break;
            }
            let (cells, limit) = (array.cells(), u64::from(array.limit()));
            let carried_tags = carrying.iter().map(|c| tags[c.edge as usize]);
            finder.find(carried_tags, layer, cells, indices);
            array.least(indices, least)?;
            targets.clear();
            carried.clear();
            for (carried_edge, found) in carrying.iter().zip(&*least) {
                let found = u64::from(*found) * u64::from(carried_edge.was_here);
                let wanted = found.saturating_add(carried_edge.packets);
                let kept = wanted.min(limit);
                targets.push(kept as u32);
                bounds[carried_edge.edge as usize] += kept;
                if wanted > limit {
                    carried.push(CarriedEdge {
                        edge: carried_edge.edge,
                        packets: wanted - limit,
                        was_here: found == limit,
                    });
                }
            }
            array.raise(indices, targets)?;
            std::mem::swap(carrying, carried);
        }
        Ok(())
    }

    /// Raises the bounds of these edges to at least `totals`.
    pub fn raise(&mut self, tags: &[u32], totals: &[u64]) -> Result<()> {
        let mut carrying: Vec<(u32, u64)> =
            tags.iter().copied().zip(totals.iter().copied()).collect();
        for layer in 0..LAYERS {
            carrying.retain(|(_, left)| *left > 0);
            if carrying.is_empty() {
                break;
            }
            let indices = self.indices(layer, carrying.iter().map(|(tag, _)| *tag));
            let limit = u64::from(self.arrays[layer].limit());
            let kept = carrying.iter().map(|(_, left)| (*left).min(limit) as u32);
            self.arrays[layer].raise(&indices, &kept.collect::<Vec<_>>())?;
            for (_, left) in &mut carrying {
                *left = left.saturating_sub(limit);
            }
        }
        Ok(())
    }

    /// Reads the cells of each edge.
    pub fn read(&self, tags: &[u32]) -> Result<Vec<Reading>> {
        let mut readings = vec![Reading::default(); tags.len()];
        let mut here: Vec<usize> = (0..tags.len()).collect();
        let mut values = Vec::new();
        for (layer, array) in self.arrays.iter().enumerate() {
            if here.is_empty() {
                break;
            }
            let indices = self.indices(layer, here.iter().map(|at| tags[*at]));
            array.read(&indices, &mut values)?;
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

    /// The highest possible bound.
    pub fn most(&self) -> u64 {
        self.highest[LAYERS - 1]
    }

    /// What other edges add to the bound of an edge, by the layer it has reached: the
    /// readings of `count` pairs that never occurred, from the one numbered `first`, as
    /// if each of them had been carried to every layer.
    pub fn absent_readings(&self, first: u32, count: u32) -> Result<[Vec<u64>; LAYERS]> {
        let numbers = (0..count).map(|n| first.wrapping_add(n));
        let tags: Vec<u32> = numbers.map(|n| n.wrapping_mul(0x9e37_79b1)).collect();
        let mut sums = vec![0u64; tags.len()];
        let mut noise: [Vec<u64>; LAYERS] = Default::default();
        let mut least = Vec::new();
        for (layer, noise) in noise.iter_mut().enumerate() {
            let indices = self.indices(layer, tags.iter().copied());
            self.arrays[layer].least(&indices, &mut least)?;
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

    /// The largest bound of an edge that has, in each layer, a cell that belongs to none
    /// of the `known` edges. That cell is at least as high as the smallest cell of the
    /// edge.
    pub fn largest_bound_besides(&self, known: &[u32]) -> Result<u64> {
        let (mut sum, mut values) = (0, Vec::new());
        for (layer, array) in self.arrays.iter().enumerate() {
            let first_of_three = (0..array.cells() as u32).step_by(CELLS);
            let all: Vec<CellIndices> = first_of_three.map(|at| [at, at + 1, at + 2]).collect();
            array.read(&all, &mut values)?;
            let cells = values.as_flattened_mut();
            for index in self.indices(layer, known.iter().copied()).as_flattened() {
                cells[*index as usize] = 0;
            }
            let largest = cells.iter().copied().max().unwrap_or(0);
            sum += u64::from(largest);
            if largest < array.limit() {
                break;
            }
        }
        Ok(sum)
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

    /// Appends all cells to a saved state, bottom layer first.
    pub fn save(&self, state: &mut Vec<u8>) -> Result<()> {
        for array in &self.arrays {
            state.extend(array.to_bytes()?);
        }
        Ok(())
    }

    /// Removes the cells from the front of a saved state.
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

/// Packets of an edge that are carried to the next layer.
#[derive(Clone, Copy)]
struct CarriedEdge {
    edge: u32,
    packets: u64,
    /// Whether the edge may have been carried to this layer before, so that its cells may
    /// hold packets of its own.
    was_here: bool,
}
