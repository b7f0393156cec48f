//! Which device the layers live on.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use candle_core::Device;

use crate::error::first_line;
use crate::executor::fused::Fused;
use crate::executor::tensor::TensorExecutor;
use crate::packed::plane::Home;
use crate::{Error, Hierarchy, Result, Settings, Sketch, Weights};

/// A device as named in configuration and on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU if this build and this machine have one, else the CPU.
    #[default]
    Auto,
    /// Fused code on the CPU.
    Cpu,
    /// Tensor operations on the CPU: what a GPU runs, without one.
    CpuTensor,
    /// Tensor operations on the numbered NVIDIA GPU.
    Cuda(usize),
}

impl DeviceChoice {
    /// The candle device, none for fused code.
    fn device(self) -> Result<Option<Device>> {
        Ok(match self {
            Self::Cpu => None,
            Self::CpuTensor => Some(Device::Cpu),
            Self::Cuda(ordinal) => Some(cuda(ordinal)?),
            Self::Auto => cuda(0).ok(),
        })
    }

    /// Where the cells of a packed sketch live.
    pub(crate) fn home(self) -> Result<Home> {
        Ok(match self.device()? {
            None => Home::Host,
            Some(device) => Home::Tensor(device.clone(), name(self, &device)),
        })
    }

    /// An empty sketch of the paper profile on this device.
    pub fn open(self, weights: Arc<Weights>, settings: Settings) -> Result<Box<dyn Sketch>> {
        Ok(match self.device()? {
            None => {
                let fused = Fused::new(Arc::clone(&weights));
                Box::new(Hierarchy::new(fused, weights, settings)?)
            }
            Some(device) => {
                let name = name(self, &device);
                let tensor = TensorExecutor::new(&weights, device, name)?;
                Box::new(Hierarchy::new(tensor, weights, settings)?)
            }
        })
    }
}

fn name(choice: DeviceChoice, device: &Device) -> String {
    match (device, choice) {
        (Device::Cpu, _) => DeviceChoice::CpuTensor.to_string(),
        (_, DeviceChoice::Cuda(ordinal)) => format!("cuda:{ordinal}"),
        _ => "cuda:0".into(),
    }
}

fn cuda(ordinal: usize) -> Result<Device> {
    let fault = |why: String| Error::Device {
        name: format!("cuda:{ordinal}"),
        why,
    };
    if !candle_core::utils::cuda_is_available() {
        return Err(fault(
            "this binary was built without CUDA; build it with `--features cuda`, or use \"cpu\""
                .into(),
        ));
    }
    Device::new_cuda(ordinal).map_err(|e| {
        fault(format!(
            "{}; is there such a GPU and its driver?",
            first_line(&e)
        ))
    })
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::CpuTensor => f.write_str("cpu-tensor"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let cuda = || text.strip_prefix("cuda:")?.parse().ok().map(Self::Cuda);
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cpu-tensor" => Ok(Self::CpuTensor),
            _ => cuda().ok_or_else(|| Error::Setting {
                name: "device",
                value: text.into(),
                allowed: "auto, cpu, cpu-tensor or cuda:N".into(),
            }),
        }
    }
}
