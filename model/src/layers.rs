//! Layers: what a sketch has below its crown.
//!
//! The two profiles differ in their layers and in what they make of a budget.
//! Everything else (the table before, the crown above, who is admitted to it,
//! saving, answering) is written once, in [`crate::crane`], on top of
//! [`Layers`].

use std::any::Any;

use crate::codes::Codes;
use crate::crown::Crown;
use crate::witnesses::{UncrownedWitnesses, Witnesses};
use crate::{Error, Result};

/// How full a layer is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// λ, the mean over all cells.
    pub mean: f32,
    /// The fullest cell; at its limit the layer is saturated.
    pub max: f32,
    /// What a cell usually holds, however full a few of them are: the
    /// geometric mean of all, each taken with 1 more.
    pub typical: f32,
}

/// What the upper bounds of layers are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// No edge has ever had more.
    Guaranteed,
    /// Nearly all edges have not, but where many share cells they can be wrong
    /// without limit.
    Likely,
}

/// How much of a bound is not the edge's own: what pairs read that never
/// occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Noise {
    /// In the middle.
    pub middle: u64,
    /// Hardly one in sixty-four reads more.
    pub high: u64,
}

impl Noise {
    /// Appends it to a saved state.
    pub fn save(&self, state: &mut Vec<u8>) {
        state.extend([self.middle, self.high].map(u64::to_le_bytes).concat());
    }

    /// Takes it off a saved state.
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

    /// What these readings say. Noise never falls, so the highest stays.
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

/// What an edge has likely had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Likely {
    /// Lower end, middle and upper end.
    pub packets: [u64; 3],
    /// The upper bound; none where it is not certain.
    pub at_most: Option<u64>,
}

/// What a sketch asks of its layers, a batch at a time. Edges are known by their
/// ids, see [`crate::codes`].
pub trait Layers: Any + Send {
    /// What the upper bounds are worth.
    fn worth(&self) -> Bounds;

    /// Adds packets of edges without equal ids; `bounds` gets their upper
    /// bounds afterwards.
    fn add(&mut self, ids: &[u64], packets: &[u64], bounds: &mut Vec<u64>) -> Result<()>;

    /// Takes up to so many packets of edges out, which the crown counts from
    /// now on. Layers that raise cells instead of adding to them leave them.
    fn take(&mut self, ids: &[u64], packets: &[u64]) -> Result<()>;

    /// Holds from now on what these edges have had elsewhere.
    fn put(&mut self, ids: &[u64], totals: &[u64]) -> Result<()>;

    /// The upper bound of each edge.
    fn bounds(&self, ids: &[u64]) -> Result<Vec<u64>>;

    /// Whether a bound is that of cells at their limit, which may stand for
    /// more.
    fn is_at_limit(&self, bound: u64) -> bool;

    /// Looks at how much of bounds is not the edges' own, for [`Self::noise`].
    fn look_at_noise(&mut self) -> Result<()>;

    /// How much of a bound is not the edge's own.
    fn noise(&self, bound: u64) -> Noise;

    /// What each edge has likely had. `uncrowned` is asked for at most once
    /// after every [`Self::invalidate`].
    fn estimates(
        &self,
        ids: &[u64],
        uncrowned: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<Vec<Likely>>;

    /// The count that an edge with this bound has, where all edges have one of
    /// few counts.
    fn known_count(
        &self,
        bound: u64,
        uncrowned: &dyn Fn() -> UncrownedWitnesses,
    ) -> Result<Option<u64>>;

    /// Forgets what was worked out for answers: something was stored since.
    fn invalidate(&mut self);

    /// How full each layer is, bottom first.
    fn loads(&self) -> Result<Vec<Load>>;

    /// Layers added since the start.
    fn expansions(&self) -> usize;

    /// Whether a cell has reached its limit, so that counts may be too low.
    fn is_saturated(&self) -> Result<bool>;

    /// Bytes of all cells.
    fn memory_bytes(&self) -> usize;

    /// Appends all cells to a saved state, of which they are the end.
    fn save(&self, state: &mut Vec<u8>) -> Result<()>;

    /// Takes its cells off a saved state.
    fn load(&mut self, state: &mut &[u8]) -> Result<()>;
}

/// What a profile makes of a budget, all of it empty.
pub struct Allotment {
    /// The table of heavy edges.
    pub crown: Crown,
    /// The sample.
    pub witnesses: Witnesses,
    /// All others.
    pub layers: Box<dyn Layers>,
}

/// A kind of layers, with what all sketches that have them share.
pub trait LayerProfile: Send + Sync {
    /// Tells states of this profile from others. 0 is a table.
    fn number(&self) -> u64;

    /// The least memory a sketch can live in.
    fn least(&self) -> usize;

    /// Shares `bytes` out.
    fn allot(&self, codes: &Codes, bytes: usize) -> Result<Allotment>;
}
