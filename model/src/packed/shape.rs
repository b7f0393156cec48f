//! How a budget is shared out.

use crate::packed::narrow::LAYERS;
use crate::packed::places::CELLS;
use crate::witnesses::Witness;
use crate::{Error, Result};

/// Bits of a cell, by layer.
pub const BITS: [usize; LAYERS] = [4, 8, 32];

/// Share of the cells' memory, by layer.
const SHARES: [f64; LAYERS] = [0.78, 0.18, 0.04];

/// One byte in this many is for witnesses, within limits.
const WITNESS_SHARE: usize = 32;
const WITNESSES: std::ops::RangeInclusive<usize> = 32..=512;

/// The least that a sketch can be made of.
pub const SMALLEST: usize = 4096;

/// Parts of a sketch of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Entries of the crown.
    pub crown: usize,
    /// Witnesses.
    pub witnesses: usize,
    /// Bytes left for cells.
    pub cell_bytes: usize,
}

impl Shape {
    /// Shares `bytes` out; a crown entry weighs `entry` bytes and all of them
    /// together `crown` of the whole.
    pub fn of(bytes: usize, crown: f64, entry: usize) -> Result<Self> {
        if bytes < SMALLEST {
            return Err(Error::Setting {
                name: "memory",
                value: format!("{bytes} bytes"),
                allowed: format!("three layers and a crown need {SMALLEST} or more"),
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

    /// Cells by layer that fit into `bytes`: whole thirds, and whole words.
    pub fn cells(bytes: usize) -> [usize; LAYERS] {
        let unit = 8 * CELLS;
        std::array::from_fn(|layer| {
            let bits = bytes as f64 * SHARES[layer] * 8.0;
            ((bits / BITS[layer] as f64) as usize / unit * unit).max(unit)
        })
    }
}
