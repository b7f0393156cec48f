//! Cells as a candle tensor, on the CPU or a GPU.
//!
//! On the device every value is a u32, independent of its packed width; memory is
//! accounted for at the packed width. Reading is one gather and one transfer; raising is
//! a gather, a maximum and a scatter, and transfers nothing back. The result is the same
//! on every device.

use std::cmp::Reverse;

use candle_core::{DType, Device, Tensor};

use crate::packed::cell_finder::{CELLS, CellIndices, CellValues};
use crate::packed::cells::{CellArray, Cells};
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

    /// The values of these cells, in one transfer.
    fn held(&self, indices: &[CellIndices]) -> Result<Vec<u32>> {
        if indices.is_empty() {
            return Ok(Vec::new());
        }
        let indices = self.upload(indices.as_flattened().to_vec())?;
        Ok(self.cells.gather(&indices, 0)?.to_vec1()?)
    }

    fn upload(&self, values: Vec<u32>) -> Result<Tensor> {
        let count = values.len();
        Ok(Tensor::from_vec(values, count, self.cells.device())?)
    }
}

impl<const BITS: u32> CellArray for TensorCells<BITS> {
    fn cells(&self) -> usize {
        self.count
    }

    fn limit(&self) -> u32 {
        u32::MAX >> (32 - BITS)
    }

    fn read(&self, indices: &[CellIndices], values: &mut Vec<CellValues>) -> Result<()> {
        values.clear();
        values.extend_from_slice(self.held(indices)?.as_chunks::<CELLS>().0);
        Ok(())
    }

    fn least(&self, indices: &[CellIndices], least: &mut Vec<u32>) -> Result<()> {
        least.clear();
        let held = self.held(indices)?;
        let cells = held.as_chunks::<CELLS>().0.iter();
        least.extend(cells.map(|[a, b, c]| *a.min(b).min(c)));
        Ok(())
    }

    fn raise(&mut self, indices: &[CellIndices], values: &[u32]) -> Result<()> {
        if indices.is_empty() {
            return Ok(());
        }
        // Each cell occurs once, with the highest value of its edges, because a device
        // may write equal indices in any order.
        let cells = indices.iter().zip(values);
        let cells = cells.flat_map(|(indices, value)| indices.map(|index| (index, *value)));
        let mut wanted: Vec<(u32, u32)> = cells.collect();
        wanted.sort_unstable_by_key(|(index, value)| (*index, Reverse(*value)));
        wanted.dedup_by_key(|(index, _)| *index);
        let (indices, values) = wanted.into_iter().unzip();
        let indices = self.upload(indices)?;
        let values = self
            .cells
            .gather(&indices, 0)?
            .maximum(&self.upload(values)?)?;
        self.cells = self.cells.scatter(&indices, &values, 0)?;
        Ok(())
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
