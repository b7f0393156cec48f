//! Narrow layers with their decoder, as a sketch asks for them.
//!
//! They do not grow: all they ever have is theirs from the start. What an edge
//! leaves behind when it goes to the crown stays; one that comes back raises its
//! cells to what it has had.

use std::sync::{Arc, OnceLock};

use crate::codes::Codes;
use crate::layers::{Bounds, Layers, Likely, Load, Noise};
use crate::packed::calibration::Calibration;
use crate::packed::features::{Features, LoadFeatures};
use crate::packed::narrow::{LAYERS, NarrowLayers, Reading};
use crate::witnesses::UncrownedWitnesses;
use crate::{PackedWeights, Result};

/// Pairs that never occurred whose readings tell the noise of the layers.
const PHANTOMS: u32 = 64;

/// Edges that are put in at once, which bounds what that takes beside the cells.
const AT_ONCE: usize = 1 << 16;

/// See the head of this module.
pub struct PackedLayers {
    codes: Codes,
    narrow: NarrowLayers,
    weights: Arc<PackedWeights>,
    /// How many pairs that never occurred were asked about so far.
    phantoms: u32,
    /// What they read, by the highest layer that an edge has reached.
    noise: [Noise; LAYERS],
    /// Memory of [`Layers::add`] that is kept from batch to batch.
    tags: Vec<u32>,
    calibration: OnceLock<Calibration>,
}

impl PackedLayers {
    /// Layers whose edges are known by the tags of `codes`.
    pub fn new(narrow: NarrowLayers, codes: Codes, weights: Arc<PackedWeights>) -> Self {
        Self {
            codes,
            narrow,
            weights,
            phantoms: 0,
            noise: [Noise::default(); LAYERS],
            tags: Vec::new(),
            calibration: OnceLock::new(),
        }
    }

    fn tags(&self, ids: &[u64]) -> Vec<u32> {
        ids.iter().map(|id| self.codes.tag(*id)).collect()
    }

    /// Made up once after a store.
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

    /// What the decoder is given for each of these edges, for training.
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
    fn worth(&self) -> Bounds {
        Bounds::Guaranteed
    }

    fn add(&mut self, ids: &[u64], packets: &[u64], bounds: &mut Vec<u64>) -> Result<()> {
        let Self { codes, tags, .. } = self;
        tags.clear();
        tags.extend(ids.iter().map(|id| codes.tag(*id)));
        self.narrow.add(&self.tags, packets, bounds)
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

    fn is_at_limit(&self, bound: u64) -> bool {
        bound >= self.narrow.most()
    }

    fn look_at_noise(&mut self) -> Result<()> {
        let readings = self.narrow.phantoms(self.phantoms, PHANTOMS)?;
        self.phantoms = self.phantoms.wrapping_add(PHANTOMS);
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
    ) -> Result<Vec<Likely>> {
        let calibration = self.calibration(uncrowned)?;
        let readings = self.narrow.read(&self.tags(ids))?;
        let decoder = &self.weights.decoder;
        let estimate = |reading: &Reading| Likely {
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

    /// The share of cells that are taken.
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
