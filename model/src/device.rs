//! The device that the layers run on.

use std::fmt;
use std::str::FromStr;

use candle_core::Device;

use crate::error::first_line;
use crate::{Error, Result};

/// A device as named in configuration and on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU if this build and this machine have one, else the CPU.
    #[default]
    Auto,
    /// Fused code on the CPU.
    Cpu,
    /// Tensor operations on the CPU: the code that a GPU runs, for tests without a GPU.
    CpuTensor,
    /// Tensor operations on the numbered NVIDIA GPU.
    Cuda(usize),
}

/// An open device. A process opens a device once.
#[derive(Clone)]
pub struct OpenDevice {
    /// The candle device. `None` for fused code.
    pub(crate) device: Option<Device>,
    name: String,
}

impl DeviceChoice {
    /// Returns an error if this binary cannot use the device on any machine. Opens
    /// nothing.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Cuda(ordinal) => check_build(ordinal),
            Self::Auto | Self::Cpu | Self::CpuTensor => Ok(()),
        }
    }

    /// Opens the device.
    pub fn open(self) -> Result<OpenDevice> {
        let device = match self {
            Self::Cpu => None,
            Self::CpuTensor => Some(Device::Cpu),
            Self::Cuda(ordinal) => Some(cuda(ordinal)?),
            Self::Auto => cuda(0).ok(),
        };
        let name = match (&device, self) {
            (None, _) => Self::Cpu.to_string(),
            (Some(Device::Cpu), _) => Self::CpuTensor.to_string(),
            (Some(_), Self::Cuda(ordinal)) => Self::Cuda(ordinal).to_string(),
            (Some(_), _) => Self::Cuda(0).to_string(),
        };
        Ok(OpenDevice { device, name })
    }
}

impl OpenDevice {
    /// Display name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn check_build(ordinal: usize) -> Result<()> {
    if candle_core::utils::cuda_is_available() {
        return Ok(());
    }
    let why = "this binary was built without CUDA; build it with `--features cuda`, or use \"cpu\"";
    Err(fault(ordinal, why.into()))
}

fn cuda(ordinal: usize) -> Result<Device> {
    check_build(ordinal)?;
    Device::new_cuda(ordinal).map_err(|e| {
        let why = format!("{}; is there such a GPU and its driver?", first_line(&e));
        fault(ordinal, why)
    })
}

fn fault(ordinal: usize, why: String) -> Error {
    Error::Device {
        name: format!("cuda:{ordinal}"),
        why,
    }
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
