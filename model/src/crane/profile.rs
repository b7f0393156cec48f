//! The profile: the kind of layers that the sketches of a process have.

use std::sync::Arc;

use crate::device::OpenDevice;
use crate::layers::LayerProfile;
use crate::packed::PackedProfile;
use crate::paper::PaperProfile;
use crate::{PackedWeights, PaperWeights, Result};

/// Weights on an open device, shared by all sketches of a process.
///
/// ```
/// use std::sync::Arc;
/// use crane_model::{DeviceChoice, PackedWeights, Profile};
///
/// # fn main() -> crane_model::Result<()> {
/// let device = DeviceChoice::Cpu.open()?;
/// let profile = Profile::packed(Arc::new(PackedWeights::built_in()?), &device);
/// assert_eq!(profile.device_name(), "cpu");
/// assert_eq!(profile.least(), 4096);
/// # Ok(())
/// # }
/// ```
pub struct Profile {
    pub(super) layers: Box<dyn LayerProfile>,
    device: String,
}

impl Profile {
    /// Narrow cells, for real traffic ([`crate::packed`]).
    pub fn packed(weights: Arc<PackedWeights>, device: &OpenDevice) -> Self {
        Self::of_layers(Box::new(PackedProfile::new(weights, device)), device)
    }

    /// Dense layers as in the paper ([`crate::paper`]).
    pub fn paper(weights: Arc<PaperWeights>, device: &OpenDevice) -> Result<Self> {
        let layers = PaperProfile::new(weights, device)?;
        Ok(Self::of_layers(Box::new(layers), device))
    }

    /// Layers of any other kind, for instance a variant of a profile that is measured in
    /// an ablation.
    pub fn of_layers(layers: Box<dyn LayerProfile>, device: &OpenDevice) -> Self {
        Self {
            layers,
            device: device.name().into(),
        }
    }

    /// The smallest memory in bytes that a sketch can have.
    pub fn least(&self) -> usize {
        self.layers.least()
    }

    /// Display name of the device.
    pub fn device_name(&self) -> &str {
        &self.device
    }
}
