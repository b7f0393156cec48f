//! Cells as a candle tensor, on the CPU or a GPU.
//!
//! Values are u32 on the device, whatever they are packed to; what they weigh
//! is counted as packed. Reading is one gather. Raising takes the larger of
//! cell and value; where edges of a batch share a cell the device may write
//! them in any order, so writing is repeated until every cell is as high as
//! all its edges want. Each round raises at least one more, and two or three
//! are enough in practice; the result is the same on every device.

use candle_core::{DType, Device, Tensor};

use crate::packed::cells::{Cells, Plane};
use crate::packed::codes::{CELLS, Places};
use crate::{Error, Result};

/// Cells of one layer on a device.
pub struct TensorCells<const BITS: u32> {
    cells: Tensor,
    count: usize,
}

impl<const BITS: u32> TensorCells<BITS> {
    /// Empty cells.
    pub fn new(cells: usize, device: &Device) -> Result<Self> {
        Ok(Self {
            cells: Tensor::zeros(cells, DType::U32, device)?,
            count: cells,
        })
    }

    fn upload(&self, values: Vec<u32>) -> Result<Tensor> {
        let count = values.len();
        Ok(Tensor::from_vec(values, count, self.cells.device())?)
    }
}

impl<const BITS: u32> Plane for TensorCells<BITS> {
    fn cells(&self) -> usize {
        self.count
    }

    fn limit(&self) -> u32 {
        u32::MAX >> (32 - BITS)
    }

    fn read(&self, places: &[Places], values: &mut Vec<Places>) -> Result<()> {
        values.clear();
        if places.is_empty() {
            return Ok(());
        }
        let places = self.upload(places.as_flattened().to_vec())?;
        let held = self.cells.gather(&places, 0)?.to_vec1::<u32>()?;
        values.extend_from_slice(held.as_chunks::<CELLS>().0);
        Ok(())
    }

    fn raise(&mut self, places: &[Places], values: &[u32]) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let places = self.upload(places.as_flattened().to_vec())?;
        let wanted = values.iter().flat_map(|value| [*value; CELLS]).collect();
        let wanted = self.upload(wanted)?;
        loop {
            let held = self.cells.gather(&places, 0)?;
            let low = held.lt(&wanted)?;
            if low.to_dtype(DType::U32)?.max_all()?.to_scalar::<u32>()? == 0 {
                return Ok(());
            }
            // Edges that want no more than is there write what is there; they
            // must not undo another's write, so they are left out.
            let short: Vec<u32> = low
                .to_vec1::<u8>()?
                .iter()
                .zip(0u32..)
                .filter(|(low, _)| **low > 0)
                .map(|(_, at)| at)
                .collect();
            let short = self.upload(short)?;
            let at = places.index_select(&short, 0)?;
            let value = wanted.index_select(&short, 0)?;
            self.cells = self.cells.scatter(&at, &value, 0)?;
        }
    }

    fn used(&self) -> Result<usize> {
        let used = self.cells.ne(0u32)?.to_dtype(DType::U32)?;
        Ok(used.sum_all()?.to_scalar::<u32>()? as usize)
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        let cells = self.cells.to_vec1::<u32>()?;
        Ok(match BITS {
            4 => {
                let pairs = cells.as_chunks::<2>().0.iter();
                pairs.map(|[a, b]| (a | b << 4) as u8).collect()
            }
            8 => cells.iter().map(|cell| *cell as u8).collect(),
            _ => cells.iter().flat_map(|cell| cell.to_le_bytes()).collect(),
        })
    }

    fn load_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != self.memory_bytes() {
            return Err(Error::State("a layer is of another size".into()));
        }
        let mut host = Cells::<BITS>::new(self.count);
        host.load_bytes(bytes)?;
        self.cells = self.upload(host.values())?;
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.count * BITS as usize / 8
    }
}
