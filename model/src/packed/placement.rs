//! The memory that cells are stored in: host memory or a candle device.

use candle_core::Device;

use crate::Result;
use crate::device::OpenDevice;
use crate::packed::cells::{CellArray, Cells};
use crate::packed::narrow::Arrays;
use crate::packed::shape::Shape;
use crate::packed::tensor::TensorCells;

/// Where the cells of a sketch are stored.
#[derive(Clone)]
pub enum Placement {
    /// Packed cells in host memory.
    Host,
    /// Tensors on a candle device.
    Tensor(Device),
}

impl Placement {
    /// The memory that belongs to a device.
    pub fn on(device: &OpenDevice) -> Self {
        match &device.device {
            None => Self::Host,
            Some(device) => Self::Tensor(device.clone()),
        }
    }

    /// Empty cells of three widths that fit into `bytes` bytes.
    pub fn narrow(&self, bytes: usize) -> Result<Arrays> {
        let [a, b, c] = Shape::cells(bytes);
        Ok([
            self.array::<4>(a)?,
            self.array::<8>(b)?,
            self.array::<32>(c)?,
        ])
    }

    /// `cells` empty cells of `BITS` bits.
    pub fn array<const BITS: u32>(&self, cells: usize) -> Result<Box<dyn CellArray>> {
        Ok(match self {
            Self::Host => Box::new(Cells::<BITS>::new(cells)),
            Self::Tensor(device) => Box::new(TensorCells::<BITS>::new(cells, device)?),
        })
    }
}
