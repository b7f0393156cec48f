//! Narrow layers with their decoder, as [`Layers`].
//!
//! Their memory is fixed from the start. The cells of an edge that is admitted to the
//! crown keep their values; when the edge is evicted, its cells are raised to its count.

use std::sync::{Arc, OnceLock};

use crate::codes::Codes;
use crate::layers::{BoundsKind, LayerEstimate, Layers, Load, Noise};
use crate::packed::calibration::Calibration;
use crate::packed::features::{Features, LoadFeatures};
use crate::packed::narrow::{CellScratch, LAYERS, NarrowLayers, Reading};
use crate::witnesses::UncrownedWitnesses;
use crate::{PackedWeights, Result};

/// Pairs that never occurred that are read to measure the noise.
const ABSENT_PAIRS: u32 = 64;

/// Edges that are stored at once when counts come from elsewhere, which bounds the
/// working memory.
const AT_ONCE: usize = 1 << 16;

/// Narrow layers, their decoder and its calibration.
pub struct PackedLayers {
    codes: Codes,
    narrow: NarrowLayers,
    weights: Arc<PackedWeights>,
    /// Number of pairs that never occurred that were read so far.
    absent_read: u32,
    /// The noise, by the highest layer that an edge has reached.
    noise: [Noise; LAYERS],
    calibration: OnceLock<Calibration>,
}

impl PackedLayers {
    /// Layers that identify edges by the tags of `codes`.
    pub fn new(narrow: NarrowLayers, codes: Codes, weights: Arc<PackedWeights>) -> Self {
        Self {
            codes,
            narrow,
            weights,
            absent_read: 0,
            noise: [Noise::default(); LAYERS],
            calibration: OnceLock::new(),
        }
    }

    fn tags(&self, ids: &[u64]) -> Vec<u32> {
        ids.iter().map(|id| self.codes.tag(*id)).collect()
    }

    /// The calibration, computed on demand after a store.
    fn calibration(&self, uncrowned: &dyn Fn() -> UncrownedWitnesses) -> Result<&Calibration> {
        if let Some(calibration) = self.calibration.get() {
            return Ok(calibration);
        }
        let UncrownedWitnesses {
            witnesses,
            distinct,
        } = uncrowned();
        let tags = witnesses.iter().map(|witness| self.codes.tag(witness.id));
        let counts: Vec<u64> = witnesses.iter().map(|witness| witness.packets).collect();
        let readings = self.narrow.read(&tags.collect::<Vec<u32>>())?;
        let decoder = &self.weights.decoder;
        let made = Calibration::new(&self.narrow, decoder, &readings, counts, distinct)?;
        Ok(self.calibration.get_or_init(|| made))
    }

    /// The inputs of the decoder for each of these edges, see [`super::training`].
    pub(crate) fn features(
        &self,
        ids: &[u64],
        uncrowned: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<(Vec<Features>, LoadFeatures)> {
        let load = self.calibration(uncrowned)?.load();
        let readings = self.narrow.read(&self.tags(ids))?;
        let features = readings.iter().map(|reading| load.features(reading));
        Ok((features.collect(), *load.global()))
    }
}

impl Layers for PackedLayers {
    fn bounds_kind(&self) -> BoundsKind {
        BoundsKind::Guaranteed
    }

    fn add(
        &mut self,
        ids: &[u64],
        packets: &[u64],
        bounds: &mut Vec<u64>,
        scratch: &mut CellScratch,
    ) -> Result<()> {
        let mut tags = std::mem::take(&mut scratch.tags);
        tags.clear();
        tags.extend(ids.iter().map(|id| self.codes.tag(*id)));
        let added = self.narrow.add(&tags, packets, bounds, scratch);
        scratch.tags = tags;
        added
    }

    fn take(&mut self, _: &[u64], _: &[u64]) -> Result<()> {
        Ok(())
    }

    fn put(&mut self, ids: &[u64], totals: &[u64]) -> Result<()> {
        let mut parts = ids.chunks(AT_ONCE).zip(totals.chunks(AT_ONCE));
        parts.try_for_each(|(ids, totals)| self.narrow.raise(&self.tags(ids), totals))
    }

    fn bounds(&self, ids: &[u64]) -> Result<Vec<u64>> {
        self.narrow.bounds(&self.tags(ids))
    }

    fn largest_bound_besides(&self, known: &[u64]) -> Result<Option<u64>> {
        let bound = self.narrow.largest_bound_besides(&self.tags(known))?;
        Ok(Some(bound).filter(|bound| !self.is_at_limit(*bound)))
    }

    fn is_at_limit(&self, bound: u64) -> bool {
        bound >= self.narrow.most()
    }

    fn measure_noise(&mut self) -> Result<()> {
        let readings = self
            .narrow
            .absent_readings(self.absent_read, ABSENT_PAIRS)?;
        self.absent_read = self.absent_read.wrapping_add(ABSENT_PAIRS);
        for (noise, readings) in self.noise.iter_mut().zip(readings) {
            *noise = noise.next(readings);
        }
        Ok(())
    }

    fn noise(&self, bound: u64) -> Noise {
        self.noise[self.narrow.level(bound)]
    }

    fn estimates(
        &self,
        ids: &[u64],
        uncrowned: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<Vec<LayerEstimate>> {
        let calibration = self.calibration(uncrowned)?;
        let readings = self.narrow.read(&self.tags(ids))?;
        let decoder = &self.weights.decoder;
        let estimate = |reading: &Reading| LayerEstimate {
            packets: calibration.estimate(decoder, reading),
            at_most: Some(reading.bound()).filter(|bound| !self.is_at_limit(*bound)),
        };
        Ok(readings.iter().map(estimate).collect())
    }

    fn known_count(
        &self,
        bound: u64,
        uncrowned: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<Option<u64>> {
        Ok(self.calibration(uncrowned)?.known_count(bound))
    }

    fn invalidate(&mut self) {
        self.calibration.take();
    }

    /// The share of cells that are not 0.
    fn loads(&self) -> Result<Vec<Load>> {
        let fill = self.narrow.fill()?.into_iter();
        let load = |mean| Load {
            mean,
            max: mean,
            typical: mean,
        };
        Ok(fill.map(load).collect())
    }

    fn expansions(&self) -> usize {
        0
    }

    fn is_saturated(&self) -> Result<bool> {
        let top = self.narrow.arrays()[LAYERS - 1].to_bytes()?;
        Ok(top.as_chunks::<4>().0.contains(&[u8::MAX; 4]))
    }

    fn memory_bytes(&self) -> usize {
        self.narrow.memory_bytes()
    }

    fn save(&self, state: &mut Vec<u8>) -> Result<()> {
        self.noise.iter().for_each(|noise| noise.save(state));
        self.narrow.save(state)
    }

    fn load(&mut self, state: &mut &[u8]) -> Result<()> {
        for noise in &mut self.noise {
            *noise = Noise::load(state)?;
        }
        self.narrow.load(state)
    }
}
