//! Narrow cells: small counters packed into bytes, in host memory.

use crate::packed::cell_finder::{CellIndices, CellValues};
use crate::{Error, Result};

/// The cells of one layer, on any device.
pub trait CellArray: Send + Sync {
    /// Number of cells.
    fn cells(&self) -> usize;

    /// The largest value of a cell. A cell that reaches it stays there and does not wrap.
    fn limit(&self) -> u32;

    /// Reads the cells of each edge.
    fn read(&self, indices: &[CellIndices], values: &mut Vec<CellValues>) -> Result<()>;

    /// Reads the smallest cell of each edge.
    fn least(&self, indices: &[CellIndices], least: &mut Vec<u32>) -> Result<()>;

    /// Raises the cells of each edge to at least its value. The order of the edges makes
    /// no difference.
    fn raise(&mut self, indices: &[CellIndices], values: &[u32]) -> Result<()>;

    /// Number of cells that are not 0.
    fn used(&self) -> Result<usize>;

    /// All cells in packed form.
    fn to_bytes(&self) -> Result<Vec<u8>>;

    /// Replaces all cells by those in packed form.
    fn load_bytes(&mut self, bytes: &[u8]) -> Result<()>;

    /// Bytes of the cells in packed form.
    fn memory_bytes(&self) -> usize;
}

/// Cells of 4, 8 or 32 bits in host memory.
pub struct Cells<const BITS: u32> {
    bytes: Vec<u8>,
}

impl<const BITS: u32> Cells<BITS> {
    /// `cells` cells of value 0. The number must be even.
    pub fn new(cells: usize) -> Self {
        Self {
            bytes: vec![0; cells * BITS as usize / 8],
        }
    }

    /// The values of all cells.
    pub fn values(&self) -> Vec<u32> {
        (0..self.cells() as u32).map(|at| self.get(at)).collect()
    }

    #[inline]
    fn get(&self, index: u32) -> u32 {
        unpack::<BITS>(&self.bytes, index)
    }

    /// Raises a cell to at least `value`, which must be within the limit. It always
    /// writes, which is faster than a branch that is hard to predict.
    #[inline(always)]
    fn lift(&mut self, index: u32, value: u32) {
        let at = index as usize;
        match BITS {
            4 => {
                // No shifts: the value is put into both halves of the byte and a mask
                // selects one.
                let half = 0x0f ^ 0u8.wrapping_sub(index as u8 & 1);
                let byte = &mut self.bytes[at >> 1];
                let held = *byte & half;
                *byte ^= held ^ held.max((value * 0x11) as u8 & half);
            }
            8 => {
                let cell = &mut self.bytes[at];
                *cell = (*cell).max(value as u8);
            }
            _ => {
                if let Some(cell) = self.bytes[4 * at..].first_chunk_mut() {
                    *cell = u32::from_le_bytes(*cell).max(value).to_le_bytes();
                }
            }
        }
    }
}

/// The value of one cell in packed form.
#[inline]
pub(crate) fn unpack<const BITS: u32>(bytes: &[u8], index: u32) -> u32 {
    let at = index as usize;
    match BITS {
        4 => u32::from(bytes[at >> 1] >> ((at & 1) * 4) & 0xf),
        8 => u32::from(bytes[at]),
        _ => {
            let word = bytes[4 * at..].first_chunk();
            u32::from_le_bytes(word.copied().unwrap_or_default())
        }
    }
}

impl<const BITS: u32> CellArray for Cells<BITS> {
    fn cells(&self) -> usize {
        self.bytes.len() * 8 / BITS as usize
    }

    fn limit(&self) -> u32 {
        u32::MAX >> (32 - BITS)
    }

    fn read(&self, indices: &[CellIndices], values: &mut Vec<CellValues>) -> Result<()> {
        values.clear();
        let cells = |[a, b, c]: &CellIndices| [self.get(*a), self.get(*b), self.get(*c)];
        values.extend(indices.iter().map(cells));
        Ok(())
    }

    fn least(&self, indices: &[CellIndices], least: &mut Vec<u32>) -> Result<()> {
        least.clear();
        let smallest = |[a, b, c]: &CellIndices| self.get(*a).min(self.get(*b)).min(self.get(*c));
        least.extend(indices.iter().map(smallest));
        Ok(())
    }

    fn raise(&mut self, indices: &[CellIndices], values: &[u32]) -> Result<()> {
        for (indices, value) in indices.iter().zip(values) {
            for index in indices {
                self.lift(*index, *value);
            }
        }
        Ok(())
    }

    fn used(&self) -> Result<usize> {
        if BITS != 4 {
            let cells = self.bytes.chunks_exact(BITS as usize / 8);
            let used = cells.filter(|cell| cell.iter().any(|byte| *byte > 0));
            return Ok(used.count());
        }
        let used = |word: u64| {
            let any = word | word >> 1 | word >> 2 | word >> 3;
            (any & 0x1111_1111_1111_1111).count_ones() as usize
        };
        let (words, rest) = self.bytes.as_chunks();
        let words = words.iter().map(|word| used(u64::from_le_bytes(*word)));
        let rest = rest.iter().map(|byte| used(u64::from(*byte)));
        Ok(words.sum::<usize>() + rest.sum::<usize>())
    }

    fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.bytes.clone())
    }

    fn load_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != self.bytes.len() {
            return Err(Error::State(format!(
                "a layer has {} bytes, expected are {}",
                bytes.len(),
                self.bytes.len()
            )));
        }
        self.bytes.copy_from_slice(bytes);
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const BITS: u32>() {
        let mut cells = Cells::<BITS>::new(20);
        let limit = cells.limit();
        cells.raise(&[[0, 5, 7], [1, 5, 18]], &[8, limit]).unwrap();
        cells.raise(&[[0, 5, 7]], &[2]).unwrap();
        let mut values = Vec::new();
        cells
            .read(&[[0, 5, 7], [1, 5, 18], [2, 4, 6]], &mut values)
            .unwrap();
        assert_eq!(values, [[8, limit, 8], [limit; 3], [0; 3]], "{BITS} bits");
        assert_eq!(cells.used().unwrap(), 5);
        let mut other = Cells::<BITS>::new(20);
        other.load_bytes(&cells.to_bytes().unwrap()).unwrap();
        assert_eq!(other.bytes, cells.bytes);
        assert_eq!(other.used().unwrap(), 5);
        assert!(other.load_bytes(&[0]).is_err());
    }

    #[test]
    fn cells_of_all_widths_hold_their_values_and_leave_neighbours_unchanged() {
        check::<4>();
        check::<8>();
        check::<32>();
    }
}
