//! The paper profile: what its sketches share, and how it divides a budget.

use std::sync::Arc;

use crate::codes::Codes;
use crate::crown::{Crown, SLOT_BYTES, WAYS};
use crate::device::OpenDevice;
use crate::layers::{Allotment, LayerProfile};
use crate::paper::executor::fused::Fused;
use crate::paper::executor::tensor::TensorExecutor;
use crate::paper::hierarchy::LAYER_BYTES;
use crate::paper::layers::PaperLayers;
use crate::witnesses::Witnesses;
use crate::{Error, Hierarchy, HierarchySettings, PaperWeights, Result, Sketch};

/// The smallest memory in bytes: one layer and a small crown.
pub const SMALLEST: usize = LAYER_BYTES + (4 << 10);

/// Weights on an open device.
pub struct PaperProfile {
    weights: Arc<PaperWeights>,
    executor: AnyExecutor,
}

enum AnyExecutor {
    Fused(Fused),
    Tensor(TensorExecutor),
}

impl PaperProfile {
    /// Copies the weights to a device.
    pub fn new(weights: Arc<PaperWeights>, device: &OpenDevice) -> Result<Self> {
        let executor = match &device.device {
            None => AnyExecutor::Fused(Fused::new(Arc::clone(&weights))),
            Some(open) => {
                let name = device.name().to_owned();
                AnyExecutor::Tensor(TensorExecutor::new(&weights, open.clone(), name)?)
            }
        };
        Ok(Self { weights, executor })
    }

    /// Empty layers.
    pub fn layers(&self, settings: HierarchySettings) -> Result<Box<dyn Sketch>> {
        let weights = Arc::clone(&self.weights);
        Ok(match &self.executor {
            AnyExecutor::Fused(fused) => {
                Box::new(Hierarchy::new(fused.clone(), weights, settings)?)
            }
            AnyExecutor::Tensor(tensor) => {
                Box::new(Hierarchy::new(tensor.clone(), weights, settings)?)
            }
        })
    }
}

impl LayerProfile for PaperProfile {
    fn number(&self) -> u64 {
        2
    }

    fn least(&self) -> usize {
        SMALLEST
    }

    /// Half of the memory is for layers, the rest for the crown.
    fn allot(&self, _: &Codes, bytes: usize) -> Result<Allotment> {
        if bytes < SMALLEST {
            return Err(Error::Setting {
                name: "memory",
                value: format!("{bytes} bytes"),
                allowed: format!("{SMALLEST} bytes or more, for a layer and a crown"),
            });
        }
        let max_layers = (bytes / 2 / LAYER_BYTES).clamp(1, self.weights.layers.len());
        let settings = HierarchySettings {
            max_layers,
            ..HierarchySettings::of(&self.weights)
        };
        let slots = (bytes - max_layers * LAYER_BYTES) / SLOT_BYTES / WAYS * WAYS;
        Ok(Allotment {
            crown: Crown::new(slots),
            witnesses: Witnesses::none(),
            layers: Box::new(PaperLayers::new(self.layers(settings)?)),
        })
    }
}
