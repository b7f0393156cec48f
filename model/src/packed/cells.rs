//! Narrow cells: many small counters in few bytes, on the CPU.

use crate::packed::places::Places;
use crate::{Error, Result};

/// The cells of one layer, wherever they are.
pub trait CellArray: Send {
    /// How many cells.
    fn cells(&self) -> usize;

    /// The largest number a cell can hold. It stays there, it never wraps.
    fn limit(&self) -> u32;

    /// The values of each edge's cells.
    fn read(&self, places: &[Places], values: &mut Vec<Places>) -> Result<()>;

    /// The smallest value of each edge's cells.
    fn least(&self, places: &[Places], least: &mut Vec<u32>) -> Result<()>;

    /// Raises the cells of each edge to at least its value. The order of the
    /// edges makes no difference.
    fn raise(&mut self, places: &[Places], values: &[u32]) -> Result<()>;

    /// How many cells are not 0.
    fn used(&self) -> Result<usize>;

    /// All cells as they are packed.
    fn to_bytes(&self) -> Result<Vec<u8>>;

    /// Replaces all cells by packed ones.
    fn load_bytes(&mut self, bytes: &[u8]) -> Result<()>;

    /// Bytes of memory of the packed cells.
    fn memory_bytes(&self) -> usize;
}

/// Cells of 4, 8 or 32 bits in host memory.
pub struct Cells<const BITS: u32> {
    bytes: Vec<u8>,
}

impl<const BITS: u32> Cells<BITS> {
    /// Empty cells, an even number of them.
    pub fn new(cells: usize) -> Self {
        Self {
            bytes: vec![0; cells * BITS as usize / 8],
        }
    }

    /// All cells, one number each.
    pub fn values(&self) -> Vec<u32> {
        (0..self.cells() as u32).map(|at| self.get(at)).collect()
    }

    #[inline]
    fn get(&self, place: u32) -> u32 {
        unpack::<BITS>(&self.bytes, place)
    }

    /// Raises a cell to at least `value`, which it can hold. Writes always:
    /// faster than a branch that nobody can predict.
    #[inline(always)]
    fn lift(&mut self, place: u32, value: u32) {
        let at = place as usize;
        match BITS {
            4 => {
                // Without shifts: both halves have the value, one is taken.
                let half = 0x0f ^ 0u8.wrapping_sub(place as u8 & 1);
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

/// The value of one cell among packed ones.
#[inline]
pub(crate) fn unpack<const BITS: u32>(bytes: &[u8], place: u32) -> u32 {
    let at = place as usize;
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

    fn read(&self, places: &[Places], values: &mut Vec<Places>) -> Result<()> {
        values.clear();
        let cells = |[a, b, c]: &Places| [self.get(*a), self.get(*b), self.get(*c)];
        values.extend(places.iter().map(cells));
        Ok(())
    }

    fn least(&self, places: &[Places], least: &mut Vec<u32>) -> Result<()> {
        least.clear();
        let smallest = |[a, b, c]: &Places| self.get(*a).min(self.get(*b)).min(self.get(*c));
        least.extend(places.iter().map(smallest));
        Ok(())
    }

    fn raise(&mut self, places: &[Places], values: &[u32]) -> Result<()> {
        for (places, value) in places.iter().zip(values) {
            for place in places {
                self.lift(*place, *value);
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
    fn cells_of_all_widths_hold_what_they_are_given_and_touch_no_neighbour() {
        check::<4>();
        check::<8>();
        check::<32>();
    }
}
