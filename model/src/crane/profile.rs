//! The profile: which layers the sketches of a process have.

use std::sync::Arc;

use crate::device::OpenDevice;
use crate::layers::LayerProfile;
use crate::packed::{Ablation, PackedProfile};
use crate::paper::PaperProfile;
use crate::{PackedWeights, PaperWeights, Result};

/// What all sketches of a process share: weights on an open device.
pub struct Profile {
    pub(super) layers: Box<dyn LayerProfile>,
    device: String,
}

impl Profile {
    /// Narrow cells, for real traffic.
    pub fn packed(weights: Arc<PackedWeights>, device: &OpenDevice) -> Self {
        Self::packed_with(weights, device, Ablation::NONE)
    }

    /// The same without some parts, to see what they are worth.
    pub fn packed_with(
        weights: Arc<PackedWeights>,
        device: &OpenDevice,
        ablation: Ablation,
    ) -> Self {
        Self {
            layers: Box::new(PackedProfile::new(weights, device, ablation)),
            device: device.name().into(),
        }
    }

    /// Dense layers, as in the paper.
    pub fn paper(weights: Arc<PaperWeights>, device: &OpenDevice) -> Result<Self> {
        Ok(Self {
            layers: Box::new(PaperProfile::new(weights, device)?),
            device: device.name().into(),
        })
    }

    /// The least memory a sketch can live in.
    pub fn least(&self) -> usize {
        self.layers.least()
    }

    /// Where sketches live, for people.
    pub fn device_name(&self) -> &str {
        &self.device
    }
}
