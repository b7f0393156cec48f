//! The packed profile: what its sketches share, and how it divides a budget.

use std::sync::Arc;

use crate::codes::Codes;
use crate::crown::{Crown, SLOT_BYTES};
use crate::device::OpenDevice;
use crate::layers::{Allotment, LayerProfile};
use crate::packed::cell_finder::CellFinder;
use crate::packed::layers::PackedLayers;
use crate::packed::narrow::{Arrays, NarrowLayers};
use crate::packed::placement::Placement;
use crate::packed::shape::{SMALLEST, Shape};
use crate::witnesses::Witnesses;
use crate::{PackedWeights, Result};

/// Share of the memory that the crown takes.
pub const CROWN_SHARE: f64 = 0.15;

/// Weights and an open device.
pub struct PackedProfile {
    weights: Arc<PackedWeights>,
    placement: Placement,
}

impl PackedProfile {
    /// Sketches with these weights on a device.
    pub fn new(weights: Arc<PackedWeights>, device: &OpenDevice) -> Self {
        Self {
            weights,
            placement: Placement::on(device),
        }
    }

    /// Where the cells of its sketches are stored.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// An empty sketch of this shape with the layers `arrays`. `finder` determines the
    /// cells of each edge.
    pub fn assemble(
        &self,
        codes: &Codes,
        shape: &Shape,
        arrays: Arrays,
        finder: CellFinder,
    ) -> Allotment {
        let layers = NarrowLayers::new(finder, arrays);
        let weights = Arc::clone(&self.weights);
        Allotment {
            crown: Crown::new(shape.crown),
            witnesses: Witnesses::new(shape.witnesses),
            layers: Box::new(PackedLayers::new(layers, codes.clone(), weights)),
        }
    }
}

impl LayerProfile for PackedProfile {
    fn number(&self) -> u64 {
        1
    }

    fn least(&self) -> usize {
        SMALLEST
    }

    fn allot(&self, codes: &Codes, bytes: usize) -> Result<Allotment> {
        let shape = Shape::of(bytes, CROWN_SHARE, SLOT_BYTES)?;
        let arrays = self.placement.narrow(shape.cell_bytes)?;
        Ok(self.assemble(codes, &shape, arrays, CellFinder::new(codes)))
    }
}
