//! The hierarchy: dense layers whose number grows with the stream.
//!
//! - **Store** adds a batch to the layers that [`Writes`] selects and carries upwards.
//! - **Query** takes the smallest ratio of memory to pattern in each layer; the decoder
//!   makes one estimate of them.
//! - **Expansion** adds a layer on top when the mean load λ of the top layer exceeds τ,
//!   up to `max_layers`.
//!
//! **Cost.** 16 KiB for each layer (64 × 64 cells of f32). Cells count exactly up to
//! 2^24; beyond that the sketch is saturated and [`Sketch::is_saturated`] returns true.

use std::sync::Arc;

use crate::fold::fold;
use crate::format::strip_magic;
use crate::layers::Load;
use crate::paper::batch::{LayerObserver, store_batch};
use crate::paper::encoder::CODE;
use crate::paper::executor::{CELL_LIMIT, Executor, floor};
use crate::paper::sketch::{Ratios, Sketch};
use crate::{Carry, Edge, Error, HierarchySettings, PaperWeights, Result, Weighted, Writes};

/// Largest weight that is added at once. Larger weights are added in steps with a carry
/// after each, so that the bottom layer stays far from its limit.
const STEP: u64 = 1 << 22;
/// A weight is cut off when it would fill the top layer this many times. Filling it once
/// is not enough: that fills only the cells in which the pattern of the edge is strong.
const TIMES_FULL: f64 = 256.0;
/// Largest weight of an edge in a batch, independent of the layers: 2^18 steps, which
/// take some seconds.
const MOST: f64 = (1u64 << 40) as f64;

/// The layers of one sketch, run by an executor.
pub struct Hierarchy<X: Executor> {
    executor: X,
    weights: Arc<PaperWeights>,
    settings: HierarchySettings,
    planes: Vec<X::Plane>,
    loads: Vec<Load>,
    /// Whether a weight was too large to be stored in full.
    overflowed: bool,
}

impl<X: Executor> Hierarchy<X> {
    /// An empty hierarchy.
    pub fn new(
        executor: X,
        weights: Arc<PaperWeights>,
        settings: HierarchySettings,
    ) -> Result<Self> {
        settings.check(weights.layers.len())?;
        let mut hierarchy = Self {
            executor,
            weights,
            settings,
            planes: Vec::new(),
            loads: Vec::new(),
            overflowed: false,
        };
        hierarchy.reset()?;
        Ok(hierarchy)
    }

    /// The largest weight of an edge in a batch that is stored in full. A layer takes
    /// every packet, or one in θ^(i−1). A larger weight would not change the estimate,
    /// because the top layer is full long before, but would take more time. If a weight
    /// is cut off, the sketch is marked as saturated.
    fn most(&self) -> u64 {
        let packets = match self.settings.writes {
            Writes::Every => 1.0,
            Writes::Bottom => f64::from(self.settings.theta).powi(self.planes.len() as i32 - 1),
        };
        (TIMES_FULL * f64::from(CELL_LIMIT) * packets).min(MOST) as u64
    }

    /// Stores a batch without equal edges, in steps if weights are very large.
    fn store_folded(
        &mut self,
        batch: &[Weighted],
        observer: &mut impl LayerObserver<X>,
    ) -> Result<()> {
        let most = self.most();
        let mut left = batch.to_vec();
        for arrival in left.iter_mut().filter(|arrival| arrival.weight > most) {
            arrival.weight = most;
            self.overflowed = true;
        }
        while !left.is_empty() {
            let edges: Vec<Edge> = left.iter().map(|w| self.weights.ids.of(w.edge)).collect();
            let weight = left.iter().map(|w| w.weight.min(STEP) as f32).collect();
            store_batch(
                &self.executor,
                &mut self.planes,
                &self.settings,
                &edges,
                weight,
                &mut *observer,
            )?;
            left.retain_mut(|w| {
                w.weight = w.weight.saturating_sub(STEP);
                w.weight > 0
            });
        }
        Ok(())
    }

    fn store_by_carry(
        &mut self,
        batch: &[Weighted],
        observer: &mut impl LayerObserver<X>,
    ) -> Result<()> {
        match self.settings.carry {
            Carry::Sequential => batch
                .iter()
                .filter(|w| w.weight > 0)
                .try_for_each(|arrival| self.store_folded(std::slice::from_ref(arrival), observer)),
            Carry::BatchSynchronous | Carry::MiniBatch => self.store_folded(&fold(batch), observer),
        }
    }

    /// Stores a batch and calls `observer` for every layer, for training.
    pub fn store_observed(
        &mut self,
        batch: &[Weighted],
        observer: &mut impl LayerObserver<X>,
    ) -> Result<()> {
        self.store_by_carry(batch, observer)?;
        let (loads, _) = self.executor.read(&self.planes, &[])?;
        self.expand(loads)
    }

    /// The memory of each layer, bottom first.
    pub fn planes(&self) -> &[X::Plane] {
        &self.planes
    }

    /// The inputs of the decoder. If every layer is written to, a ratio grows with the
    /// load of its layer, most of which belongs to other edges, so ratios are divided by
    /// the load. In that case an edge that may have been carried is read from the top
    /// layer only, which contains all of its packets.
    pub fn seen(&self, ratios: &[f32]) -> Ratios {
        if self.settings.writes == Writes::Bottom {
            return ratios.to_vec();
        }
        let by_load = ratios.iter().zip(&self.loads);
        let by_load: Ratios = by_load.map(|(q, load)| q / load.typical).collect();
        match (ratios.last(), by_load.last()) {
            (Some(top), Some(seen)) if floor(top / self.settings.theta) > 0.0 => {
                vec![*seen; ratios.len()]
            }
            _ => by_load,
        }
    }

    fn ratio_columns(&self, edges: &[Edge]) -> Result<Vec<X::Column>> {
        let x = &self.executor;
        let edges: Vec<Edge> = edges
            .iter()
            .map(|edge| self.weights.ids.of(*edge))
            .collect();
        let (edges, _) = x.upload(&edges, vec![0.0; edges.len()])?;
        let columns = self.planes.iter().enumerate();
        columns
            .map(|(layer, m)| x.least_ratio(m, &x.encode(layer, &edges)?))
            .collect()
    }

    /// Stores the loads of the layers, and adds a layer if the top layer is full.
    fn expand(&mut self, loads: Vec<Load>) -> Result<()> {
        let full = loads.last().is_some_and(|top| top.mean > self.settings.tau);
        self.loads = loads;
        if full && self.planes.len() < self.settings.max_layers {
            self.add_layer()?;
        }
        Ok(())
    }

    fn add_layer(&mut self) -> Result<()> {
        self.planes.push(self.executor.plane()?);
        self.loads.push(Load {
            mean: 0.0,
            max: 0.0,
            typical: 1.0,
        });
        Ok(())
    }
}

/// The first bytes of every saved state of this profile.
const STATE_MAGIC: &[u8; 8] = b"CRANEp01";

/// Bytes of one layer.
pub const LAYER_BYTES: usize = CODE * CODE * size_of::<f32>();

impl<X: Executor> Sketch for Hierarchy<X> {
    fn store(&mut self, batch: &[Weighted]) -> Result<()> {
        self.store_observed(batch, &mut |_: usize, _: &_, _: &_, _: Option<&_>| ())
    }

    fn store_and_query(&mut self, batch: &[Weighted]) -> Result<Vec<Ratios>> {
        self.store_by_carry(batch, &mut |_: usize, _: &_, _: &_, _: Option<&_>| ())?;
        let edges: Vec<Edge> = batch.iter().map(|w| w.edge).collect();
        if edges.is_empty() {
            return Ok(Vec::new());
        }
        let columns = self.ratio_columns(&edges)?;
        let (loads, columns) = self.executor.read(&self.planes, &columns)?;
        self.expand(loads)?;
        Ok(transpose(&columns, edges.len()))
    }

    fn ratios(&self, edges: &[Edge]) -> Result<Vec<Ratios>> {
        if edges.is_empty() {
            return Ok(Vec::new());
        }
        let (_, columns) = self.executor.read(&[], &self.ratio_columns(edges)?)?;
        Ok(transpose(&columns, edges.len()))
    }

    fn take(&mut self, edge: Edge, amount: u64) -> Result<u64> {
        let ratios = self.ratios(&[edge])?;
        let Some(ratios) = ratios.first() else {
            return Ok(0);
        };
        let x = &self.executor;
        let (amount, mut taken) = (amount as f64, 0.0);
        for (layer, m) in self.planes.iter_mut().enumerate().rev() {
            let (unit, left) = match self.settings.writes {
                Writes::Bottom => (
                    f64::from(self.settings.theta).powi(layer as i32),
                    amount - taken,
                ),
                Writes::Every => (1.0, amount),
            };
            let units = (left / unit).floor().min(f64::from(floor(ratios[layer])));
            if units > 0.0 {
                let (edges, units_column) =
                    x.upload(&[self.weights.ids.of(edge)], vec![units as f32])?;
                x.subtract(m, &x.encode(layer, &edges)?, &units_column)?;
            }
            taken = match self.settings.writes {
                Writes::Bottom => taken + units * unit,
                Writes::Every => units.max(taken),
            };
        }
        Ok(taken as u64)
    }

    fn decode(&self, ratios: &[f32]) -> f64 {
        let estimate = self.weights.decoder.decode(&self.seen(ratios));
        estimate.min(self.bound(ratios))
    }

    fn bound(&self, ratios: &[f32]) -> f64 {
        let theta = f64::from(self.settings.theta);
        let ratios = ratios.iter().map(|q| f64::from(*q));
        match self.settings.writes {
            Writes::Bottom => ratios.rev().fold(0.0, |sum, q| sum * theta + q),
            Writes::Every => ratios.fold(0.0, f64::max),
        }
    }

    fn loads(&self) -> &[Load] {
        &self.loads
    }

    fn is_saturated(&self) -> bool {
        self.overflowed || self.loads.iter().any(|load| load.max >= CELL_LIMIT)
    }

    fn expansions(&self) -> usize {
        self.planes.len() - self.settings.start_layers
    }

    fn memory_bytes(&self) -> usize {
        self.planes.len() * LAYER_BYTES
    }

    fn reset(&mut self) -> Result<()> {
        self.overflowed = false;
        self.planes.clear();
        self.loads.clear();
        for _ in 0..self.settings.start_layers {
            self.add_layer()?;
        }
        Ok(())
    }

    fn save_state(&self) -> Result<Vec<u8>> {
        let mut state = STATE_MAGIC.to_vec();
        state.extend((self.planes.len() as u32).to_le_bytes());
        for plane in &self.planes {
            let cells = self.executor.cells(plane)?;
            state.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let fault = |what: &str| Err(Error::State(what.into()));
        let rest = strip_magic(state, STATE_MAGIC, "a state of the paper profile")?;
        let Some((count, cells)) = rest.split_first_chunk::<4>() else {
            return fault("it breaks off");
        };
        let layers = u32::from_le_bytes(*count) as usize;
        if layers == 0 || layers > self.settings.max_layers {
            return fault(&format!(
                "it has {layers} layers, allowed are 1 to {}",
                self.settings.max_layers
            ));
        }
        if cells.len() != layers * LAYER_BYTES {
            return fault(&format!(
                "{layers} layers need {} bytes, it has {}",
                layers * LAYER_BYTES,
                cells.len()
            ));
        }
        let cells: Vec<f32> = cells
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect();
        if !cells.iter().all(|cell| (0.0..=CELL_LIMIT).contains(cell)) {
            return fault("a cell is not a count");
        }
        let planes: Vec<X::Plane> = cells
            .chunks_exact(CODE * CODE)
            .map(|cells| self.executor.plane_from(cells))
            .collect::<Result<_>>()?;
        self.overflowed = false;
        self.loads = self.executor.read(&planes, &[])?.0;
        self.planes = planes;
        Ok(())
    }

    fn device_name(&self) -> String {
        self.executor.device_name()
    }
}

/// From one column for each layer to one row for each edge.
fn transpose(columns: &[Vec<f32>], edges: usize) -> Vec<Ratios> {
    (0..edges)
        .map(|e| columns.iter().map(|column| column[e]).collect())
        .collect()
}
