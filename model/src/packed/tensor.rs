//! Cells as a candle tensor, on the CPU or a GPU.
//!
//! Values are u32 on the device, whatever they are packed to; what they weigh
//! is counted as packed. Reading is one gather and the transfer of what it
//! finds; raising is a gather, a maximum and a scatter, and transfers nothing
//! back. The result is the same on every device.

use std::cmp::Reverse;

use candle_core::{DType, Device, Tensor};

use crate::packed::cells::{CellArray, Cells};
use crate::packed::places::{CELLS, Places};
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

    /// The values of all these cells, in one transfer.
    fn held(&self, places: &[Places]) -> Result<Vec<u32>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let places = self.upload(places.as_flattened().to_vec())?;
        Ok(self.cells.gather(&places, 0)?.to_vec1()?)
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

    fn read(&self, places: &[Places], values: &mut Vec<Places>) -> Result<()> {
        values.clear();
        values.extend_from_slice(self.held(places)?.as_chunks::<CELLS>().0);
        Ok(())
    }

    fn least(&self, places: &[Places], least: &mut Vec<u32>) -> Result<()> {
        least.clear();
        let held = self.held(places)?;
        let cells = held.as_chunks::<CELLS>().0.iter();
        least.extend(cells.map(|[a, b, c]| *a.min(b).min(c)));
        Ok(())
    }

    fn raise(&mut self, places: &[Places], values: &[u32]) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        // Each cell once, with the highest value that its edges want: a device
        // may write equal places in any order.
        let cells = places.iter().zip(values);
        let cells = cells.flat_map(|(places, value)| places.map(|place| (place, *value)));
        let mut wanted: Vec<(u32, u32)> = cells.collect();
        wanted.sort_unstable_by_key(|(place, value)| (*place, Reverse(*value)));
        wanted.dedup_by_key(|(place, _)| *place);
        let (places, values) = wanted.into_iter().unzip();
        let places = self.upload(places)?;
        let values = self
            .cells
            .gather(&places, 0)?
            .maximum(&self.upload(values)?)?;
        self.cells = self.cells.scatter(&places, &values, 0)?;
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
