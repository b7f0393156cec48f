//! What all sketches of the packed profile share, and what it makes of a budget.

use std::sync::Arc;

use crate::codes::Codes;
use crate::crown::{Crown, PLACE};
use crate::device::OpenDevice;
use crate::layers::{Allotment, LayerProfile};
use crate::packed::ablation::Ablation;
use crate::packed::layers::PackedLayers;
use crate::packed::narrow::NarrowLayers;
use crate::packed::placement::Placement;
use crate::packed::places::CellPlaces;
use crate::packed::shape::{SMALLEST, Shape};
use crate::witnesses::Witnesses;
use crate::{PackedWeights, Result};

/// Share of the memory that the crown takes.
const CROWN_SHARE: f64 = 0.15;

/// Weights, and a device that was opened once.
pub struct PackedProfile {
    weights: Arc<PackedWeights>,
    placement: Placement,
    ablation: Ablation,
}

impl PackedProfile {
    /// Sketches with these weights on a device, without some of their parts.
    pub fn new(weights: Arc<PackedWeights>, device: &OpenDevice, ablation: Ablation) -> Self {
        let weights = match ablation.decoder {
            false => weights,
            true => Arc::new(PackedWeights {
                decoder: weights.decoder.clone().untrained(),
                encoders: weights.encoders.clone(),
            }),
        };
        Self {
            weights,
            placement: Placement::on(device),
            ablation,
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
        let without = self.ablation;
        let share = if without.crown { 0.0 } else { CROWN_SHARE };
        let shape = Shape::of(bytes, share, PLACE)?;
        let crown = Crown::new(shape.crown);
        let witnesses = Witnesses::new(shape.witnesses);
        let arrays = match without.narrow {
            false => self.placement.narrow(shape.cell_bytes)?,
            true => self.placement.wide(shape.cell_bytes)?,
        };
        let places = CellPlaces::new(codes, self.weights.encoders.clone());
        let layers = NarrowLayers::new(places, arrays);
        let weights = Arc::clone(&self.weights);
        Ok(Allotment {
            crown: if without.crown { crown.closed() } else { crown },
            witnesses: match without.witnesses {
                false => witnesses,
                true => witnesses.unheard(),
            },
            layers: Box::new(PackedLayers::new(layers, codes.clone(), weights)),
        })
    }
}
