//! Where cells live.

use candle_core::Device;

use crate::Result;
use crate::device::OpenDevice;
use crate::packed::cells::{CellArray, Cells};
use crate::packed::narrow::Arrays;
use crate::packed::shape::Shape;
use crate::packed::tensor::TensorCells;

/// The device of a sketch.
#[derive(Clone)]
pub enum Placement {
    /// Packed cells in host memory.
    Host,
    /// Tensors on a candle device.
    Tensor(Device),
}

impl Placement {
    /// Where cells are on a device.
    pub fn on(device: &OpenDevice) -> Self {
        match &device.device {
            None => Self::Host,
            Some(device) => Self::Tensor(device.clone()),
        }
    }

    /// Empty cells of three widths within `bytes`.
    pub fn narrow(&self, bytes: usize) -> Result<Arrays> {
        let [a, b, c] = Shape::cells(bytes);
        Ok([
            self.array::<4>(a)?,
            self.array::<8>(b)?,
            self.array::<32>(c)?,
        ])
    }

    /// Empty cells of 32 bits, nearly all of them in the bottom layer.
    pub fn wide(&self, bytes: usize) -> Result<Arrays> {
        let least = Shape::cells(0);
        let cells = bytes / 4 / 24 * 24 - 2 * least[0];
        Ok([
            self.array::<32>(cells)?,
            self.array::<8>(least[1])?,
            self.array::<32>(least[2])?,
        ])
    }

    fn array<const BITS: u32>(&self, cells: usize) -> Result<Box<dyn CellArray>> {
        Ok(match self {
            Self::Host => Box::new(Cells::<BITS>::new(cells)),
            Self::Tensor(device) => Box::new(TensorCells::<BITS>::new(cells, device)?),
        })
    }
}
