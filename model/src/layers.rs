//! Layers: the part of a sketch below its crown.
//!
//! The two profiles differ in their layers and in how they divide a budget. Everything
//! else (the table before, the crown above, admission, saving, answering) is written
//! once, in [`crate::crane`], on top of the trait [`Layers`].

use std::any::Any;

use crate::codes::Codes;
use crate::crown::Crown;
use crate::packed::narrow::CellScratch;
use crate::witnesses::{UncrownedWitnesses, Witnesses};
use crate::{Error, Result};

/// How full a layer is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// The mean λ of all cells, or the share of cells in use.
    pub mean: f32,
    /// The fullest cell. At its limit the layer is saturated.
    pub max: f32,
    /// What a cell usually holds, independent of a few very full cells: the geometric
    /// mean of (1 + cell).
    pub typical: f32,
}

/// How reliable the upper bounds of layers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundsKind {
    /// The count of an edge never exceeds its bound.
    Guaranteed,
    /// The count of nearly every edge is within its bound, but a bound can be wrong by
    /// any amount where many edges share cells.
    Likely,
}

/// The part of a bound that belongs to other edges, measured by reading pairs that never
/// occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noise {
    /// The median.
    pub middle: u64,
    /// The highest reading so far. About one pair in 64 reads more.
    pub high: u64,
}

impl Noise {
    /// Appends the noise to a saved state.
    pub fn save(&self, state: &mut Vec<u8>) {
        state.extend([self.middle, self.high].map(u64::to_le_bytes).concat());
    }

    /// Removes the noise from the front of a saved state.
    pub fn load(state: &mut &[u8]) -> Result<Self> {
        let mut number = || {
            let (bytes, rest) = state.split_first_chunk()?;
            *state = rest;
            Some(u64::from_le_bytes(*bytes))
        };
        let fault = || Error::State("it ends before the layers".into());
        Ok(Self {
            middle: number().ok_or_else(fault)?,
            high: number().ok_or_else(fault)?,
        })
    }

    /// The noise after new readings. Noise never decreases, so the highest reading is
    /// kept.
    pub fn next(self, mut readings: Vec<u64>) -> Self {
        readings.sort_unstable();
        Self {
            middle: readings.get(readings.len() / 2).copied().unwrap_or(0),
            high: readings
                .last()
                .map_or(self.high, |high| self.high.max(*high)),
        }
    }
}

/// The estimate of the layers for one edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerEstimate {
    /// Lower end of the interval, estimate, upper end of the interval.
    pub packets: [u64; 3],
    /// The guaranteed upper bound, if there is one.
    pub at_most: Option<u64>,
}

/// The operations of layers, each on a batch of edges. Edges are identified by their ids,
/// see [`crate::codes`].
pub trait Layers: Any + Send + Sync {
    /// How reliable the upper bounds are.
    fn bounds_kind(&self) -> BoundsKind;

    /// Adds packets of edges without equal ids. `bounds` receives their upper bounds
    /// afterwards.
    fn add(
        &mut self,
        ids: &[u64],
        packets: &[u64],
        bounds: &mut Vec<u64>,
        scratch: &mut CellScratch,
    ) -> Result<()>;

    /// Removes up to this many packets of edges that the crown counts from now on. Layers
    /// that raise cells instead of adding to them cannot remove anything and do nothing.
    fn take(&mut self, ids: &[u64], packets: &[u64]) -> Result<()>;

    /// Stores the counts of edges that were counted elsewhere until now.
    fn put(&mut self, ids: &[u64], totals: &[u64]) -> Result<()>;

    /// The upper bound of each edge.
    fn bounds(&self, ids: &[u64]) -> Result<Vec<u64>>;

    /// The largest bound of an edge with at least one cell in each layer that belongs to
    /// no `known` edge. `None` if the layers cannot tell.
    fn largest_bound_besides(&self, _known: &[u64]) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Whether this is the bound of cells at their limit, so that the count may be
    /// higher.
    fn is_at_limit(&self, bound: u64) -> bool;

    /// Measures the noise again, for [`Self::noise`].
    fn measure_noise(&mut self) -> Result<()>;

    /// The noise in a bound of this size.
    fn noise(&self, bound: u64) -> Noise;

    /// The estimate for each edge. `uncrowned` is called at most once after every
    /// [`Self::invalidate`].
    fn estimates(
        &self,
        ids: &[u64],
        uncrowned: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<Vec<LayerEstimate>>;

    /// If all edges of the stream have one of few counts, the count of an edge with this
    /// bound.
    fn known_count(
        &self,
        bound: u64,
        uncrowned: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<Option<u64>>;

    /// Drops the values that were computed for answers, because something was stored
    /// since.
    fn invalidate(&mut self);

    /// How full each layer is, bottom layer first.
    fn loads(&self) -> Result<Vec<Load>>;

    /// Number of layers added since the start.
    fn expansions(&self) -> usize;

    /// Whether a cell has reached its limit, so that estimates may be too low.
    fn is_saturated(&self) -> Result<bool>;

    /// Bytes of all cells.
    fn memory_bytes(&self) -> usize;

    /// Appends all cells to a saved state. They are its last part.
    fn save(&self, state: &mut Vec<u8>) -> Result<()>;

    /// Removes the cells from the front of a saved state.
    fn load(&mut self, state: &mut &[u8]) -> Result<()>;
}

/// The empty parts of a sketch that a profile makes from a budget.
pub struct Allotment {
    /// Counts the heaviest edges.
    pub crown: Crown,
    /// A uniform sample of the edges, counted exactly.
    pub witnesses: Witnesses,
    /// Count all other edges.
    pub layers: Box<dyn Layers>,
}

/// A kind of layers, with what all sketches of that kind share.
pub trait LayerProfile: Send + Sync {
    /// Identifies the profile in saved states. 0 is reserved for tables.
    fn number(&self) -> u64;

    /// The smallest memory in bytes that a sketch can have.
    fn least(&self) -> usize;

    /// Divides `bytes` bytes among the parts of a sketch.
    fn allot(&self, codes: &Codes, bytes: usize) -> Result<Allotment>;
}
