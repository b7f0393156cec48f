//! Where cells live.

use candle_core::Device;

use crate::Result;
use crate::device::OpenDevice;
use crate::packed::cells::{CellArray, Cells};
use crate::packed::layers::LAYERS;
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

    /// Empty layers within `bytes`.
    pub fn planes(&self, bytes: usize, narrow: bool) -> Result<[Box<dyn CellArray>; LAYERS]> {
        let [a, b, c] = Shape::cells(bytes);
        if narrow {
            return Ok([
                self.plane::<4>(a)?,
                self.plane::<8>(b)?,
                self.plane::<32>(c)?,
            ]);
        }
        let least = Shape::cells(0);
        let cells = bytes / 4 / 24 * 24 - 2 * least[0];
        Ok([
            self.plane::<32>(cells)?,
            self.plane::<8>(least[1])?,
            self.plane::<32>(least[2])?,
        ])
    }

    fn plane<const BITS: u32>(&self, cells: usize) -> Result<Box<dyn CellArray>> {
        Ok(match self {
            Self::Host => Box::new(Cells::<BITS>::new(cells)),
            Self::Tensor(device) => Box::new(TensorCells::<BITS>::new(cells, device)?),
        })
    }
}
