//! The sketch of the paper as [`Layers`] below a crown.
//!
//! When an edge is admitted to the crown, its estimated packets are subtracted from the
//! layers; when it is evicted, its count is stored again. Edges are identified by their
//! keyed ids, whose halves are used as source and destination.

use crate::layers::{BoundsKind, LayerEstimate, Layers, Load, Noise};
use crate::packed::narrow::CellScratch;
use crate::paper::sketch::Ratios;
use crate::witnesses::UncrownedWitnesses;
use crate::{Edge, Result, Sketch, Weighted};

/// Edges that are stored at once when counts come from elsewhere.
const AT_ONCE: usize = 4096;

/// Pairs that never occurred that are read to measure the noise.
const ABSENT_PAIRS: u64 = 64;

/// The sketch of the paper, as layers below a crown.
pub struct PaperLayers {
    sketch: Box<dyn Sketch>,
    /// Number of pairs that never occurred that were read so far.
    absent_read: u64,
    noise: Noise,
}

impl PaperLayers {
    /// The layers of a sketch.
    pub fn new(sketch: Box<dyn Sketch>) -> Self {
        Self {
            sketch,
            absent_read: 0,
            noise: Noise::default(),
        }
    }

    fn bound(&self, ratios: &Ratios) -> u64 {
        self.sketch.bound(ratios).ceil() as u64
    }

    fn ratios(&self, ids: &[u64]) -> Result<Vec<Ratios>> {
        let edges: Vec<Edge> = ids.iter().map(|id| edge(*id)).collect();
        self.sketch.ratios(&edges)
    }
}

fn edge(id: u64) -> Edge {
    Edge::of_name([id])
}

fn weighted(ids: &[u64], packets: &[u64]) -> Vec<Weighted> {
    let edges = ids.iter().zip(packets);
    edges
        .map(|(id, packets)| Weighted::new(edge(*id), *packets))
        .collect()
}

impl Layers for PaperLayers {
    fn bounds_kind(&self) -> BoundsKind {
        BoundsKind::Likely
    }

    fn add(
        &mut self,
        ids: &[u64],
        packets: &[u64],
        bounds: &mut Vec<u64>,
        _: &mut CellScratch,
    ) -> Result<()> {
        let ratios = self.sketch.store_and_query(&weighted(ids, packets))?;
        bounds.clear();
        // Rounded down: fractions are rounding errors.
        let whole = |ratios: &Ratios| self.sketch.bound(ratios) as u64;
        bounds.extend(ratios.iter().map(whole));
        Ok(())
    }

    fn take(&mut self, ids: &[u64], packets: &[u64]) -> Result<()> {
        for (id, packets) in ids.iter().zip(packets) {
            self.sketch.take(edge(*id), *packets)?;
        }
        Ok(())
    }

    fn put(&mut self, ids: &[u64], totals: &[u64]) -> Result<()> {
        let mut parts = ids.chunks(AT_ONCE).zip(totals.chunks(AT_ONCE));
        parts.try_for_each(|(ids, totals)| self.sketch.store(&weighted(ids, totals)))
    }

    fn bounds(&self, ids: &[u64]) -> Result<Vec<u64>> {
        let ratios = self.ratios(ids)?;
        Ok(ratios.iter().map(|ratios| self.bound(ratios)).collect())
    }

    fn is_at_limit(&self, _: u64) -> bool {
        false
    }

    fn measure_noise(&mut self) -> Result<()> {
        let ids: Vec<u64> = (self.absent_read..self.absent_read + ABSENT_PAIRS)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        self.absent_read += ABSENT_PAIRS;
        self.noise = self.noise.next(self.bounds(&ids)?);
        Ok(())
    }

    fn noise(&self, _: u64) -> Noise {
        self.noise
    }

    /// There are no witnesses in this profile, so the decoder is not calibrated.
    fn estimates(
        &self,
        ids: &[u64],
        _: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<Vec<LayerEstimate>> {
        let estimate = |ratios: &Ratios| {
            let packets = self.sketch.decode(ratios).round() as u64;
            LayerEstimate {
                packets: [0, packets, self.bound(ratios).max(packets)],
                at_most: None,
            }
        };
        Ok(self.ratios(ids)?.iter().map(estimate).collect())
    }

    fn known_count(&self, _: u64, _: &dyn Fn() -> UncrownedWitnesses) -> Result<Option<u64>> {
        Ok(None)
    }

    fn invalidate(&mut self) {}

    fn loads(&self) -> Result<Vec<Load>> {
        Ok(self.sketch.loads().to_vec())
    }

    fn expansions(&self) -> usize {
        self.sketch.expansions()
    }

    fn is_saturated(&self) -> Result<bool> {
        Ok(self.sketch.is_saturated())
    }

    fn memory_bytes(&self) -> usize {
        self.sketch.memory_bytes()
    }

    fn save(&self, state: &mut Vec<u8>) -> Result<()> {
        self.noise.save(state);
        state.extend(self.sketch.save_state()?);
        Ok(())
    }

    fn load(&mut self, state: &mut &[u8]) -> Result<()> {
        self.noise = Noise::load(state)?;
        self.sketch.load_state(std::mem::take(state))
    }
}
