//! How a budget is divided among crown, witnesses and cells.

use crate::packed::cell_finder::CELLS;
use crate::packed::narrow::LAYERS;
use crate::witnesses::Witness;
use crate::{Error, Result};

/// Bits of a cell, by layer.
pub const BITS: [usize; LAYERS] = [4, 8, 32];

/// Share of the memory for cells, by layer.
const SHARES: [f64; LAYERS] = [0.78, 0.18, 0.04];

/// One byte in this many is used for witnesses, within [`WITNESSES`].
const WITNESS_SHARE: usize = 32;
const WITNESSES: std::ops::RangeInclusive<usize> = 32..=512;

/// The smallest memory of a sketch in bytes.
pub const SMALLEST: usize = 4096;

/// The sizes of the parts of a sketch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Number of slots of the crown.
    pub crown: usize,
    /// Number of witnesses.
    pub witnesses: usize,
    /// Bytes for cells.
    pub cell_bytes: usize,
}

impl Shape {
    /// Divides `bytes` bytes. The crown gets the share `crown` of them; one of its
    /// entries has `entry` bytes.
    pub fn of(bytes: usize, crown: f64, entry: usize) -> Result<Self> {
        if bytes < SMALLEST {
            return Err(Error::Setting {
                name: "memory",
                value: format!("{bytes} bytes"),
                allowed: format!("{SMALLEST} bytes or more, for three layers and a crown"),
            });
        }
        let most = bytes / WITNESS_SHARE / size_of::<Witness>();
        let witnesses = most.clamp(*WITNESSES.start(), *WITNESSES.end());
        let ways = crate::crown::WAYS;
        let crown = ((bytes as f64 * crown) as usize / entry / ways * ways).max(ways);
        let used = witnesses * size_of::<Witness>() + crown * entry;
        Ok(Self {
            crown,
            witnesses,
            cell_bytes: bytes.saturating_sub(used),
        })
    }

    /// Number of cells by layer that fit into `bytes` bytes, a multiple of three cells
    /// and of a word.
    pub fn cells(bytes: usize) -> [usize; LAYERS] {
        let unit = 8 * CELLS;
        std::array::from_fn(|layer| {
            let bits = bytes as f64 * SHARES[layer] * 8.0;
            ((bits / BITS[layer] as f64) as usize / unit * unit).max(unit)
        })
    }
}
