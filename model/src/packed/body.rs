//! Where the edges outside of the crown are: in a table, or in layers.

use crate::Result;
use crate::packed::stack::{LAYERS, Stack};
use crate::packed::table::Table;

/// Table or layers.
pub enum Body {
    /// All edges, exactly.
    Table(Table),
    /// What layers remember of them.
    Layers(Stack),
}

impl Body {
    /// Adds packets to each of these ids, all different. `bounds` are the upper
    /// bounds afterwards. Returns how many fitted: a table may become full.
    pub fn add(&mut self, ids: &[u32], packets: &[u64], bounds: &mut Vec<u64>) -> Result<usize> {
        match self {
            Self::Layers(stack) => {
                stack.add(ids, packets, bounds)?;
                Ok(ids.len())
            }
            Self::Table(table) => {
                bounds.clear();
                for (id, packets) in ids.iter().zip(packets) {
                    let count = table.get(*id).saturating_add(*packets);
                    if !table.set(*id, count) {
                        break;
                    }
                    bounds.push(count);
                }
                Ok(bounds.len())
            }
        }
    }

    /// Makes the bounds of these ids at least `totals`. Returns how many
    /// fitted.
    pub fn raise(&mut self, ids: &[u32], totals: &[u64]) -> Result<usize> {
        match self {
            Self::Layers(stack) => {
                stack.raise(ids, totals)?;
                Ok(ids.len())
            }
            Self::Table(table) => {
                let mut entries = ids.iter().zip(totals);
                let full =
                    entries.position(|(id, total)| !table.set(*id, table.get(*id).max(*total)));
                Ok(full.unwrap_or(ids.len()))
            }
        }
    }

    /// The upper bound of each of these ids.
    pub fn bounds(&self, ids: &[u32]) -> Result<Vec<u64>> {
        match self {
            Self::Layers(stack) => {
                let readings = stack.read(ids)?;
                Ok(readings.iter().map(|reading| reading.bound()).collect())
            }
            Self::Table(table) => Ok(ids.iter().map(|id| table.get(*id)).collect()),
        }
    }

    /// How full it is: the table, or each layer, bottom first.
    pub fn fill(&self) -> Result<Vec<f32>> {
        match self {
            Self::Layers(stack) => Ok(stack.fill()?.to_vec()),
            Self::Table(table) => Ok(vec![table.fill()]),
        }
    }

    /// What it weighs.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Layers(stack) => stack.memory_bytes(),
            Self::Table(table) => table.memory_bytes(),
        }
    }

    /// Whether a cell of the top layer is at its limit.
    pub fn is_saturated(&self) -> Result<bool> {
        match self {
            Self::Layers(stack) => {
                let top = stack.planes()[LAYERS - 1].to_bytes()?;
                Ok(top.as_chunks::<4>().0.contains(&[u8::MAX; 4]))
            }
            Self::Table(_) => Ok(false),
        }
    }
}
