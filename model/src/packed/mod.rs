//! The packed profile: the hierarchy made to fit real traffic.
//!
//! | module | holds |
//! |---|---|
//! | [`codes`] | keyed ids of edges, and the cells that follow from them |
//! | [`cells`], [`plane`], [`tensor`] | narrow cells, on the CPU or a candle device |
//! | [`stack`] | three layers: conservative store, carry, smallest ratio |
//! | [`table`], [`body`] | all edges as long as they fit; table or layers |
//! | [`witnesses`] | a few edges counted exactly, to judge the others by |
//! | [`lens`], [`decoder`], [`weights`] | what the load is, and what it makes of a reading |
//! | [`shape`], [`sketch`] | all of it within a budget, growing |
//! | [`answers`], [`state`] | asking it; saving it |
//!
//! **Accuracy.** The upper bound never lies below the count. With D edges in n
//! bottom cells it is exact for all but about (1 − e^(−3D/n))³ of the edges
//! seen once; beyond that the decoder gives the median of what is likely and
//! an interval, calibrated on the witnesses.
//! **Cost.** Three cells of 4 bits for most edges, one bucket of the crown.

pub mod answers;
pub mod body;
pub mod cells;
pub mod codes;
pub mod decoder;
pub mod lens;
pub mod plane;
pub mod shape;
pub mod sketch;
pub mod stack;
pub mod state;
pub mod table;
pub mod tensor;
pub mod weights;
pub mod witnesses;

pub use sketch::Packed;
pub use weights::Weights;

/// Bytes that a sketch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// At the start of the first window.
    pub start: usize,
    /// Ever.
    pub most: usize,
}

impl Budget {
    /// What a sketch starts with unless told otherwise.
    pub const START: usize = 16 << 10;

    /// All of it from the start.
    pub fn fixed(bytes: usize) -> Self {
        Self {
            start: bytes,
            most: bytes,
        }
    }

    /// Grows from the usual start up to `most`.
    pub fn up_to(most: usize) -> Self {
        Self {
            start: Self::START.min(most),
            most,
        }
    }
}

/// Parts that can be left out, to see what they are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The table of heavy edges.
    pub crown: bool,
    /// Narrow cells with carry; without, one layer of 32-bit cells.
    pub narrow: bool,
    /// The network; without it the upper bound is the answer.
    pub decoder: bool,
    /// The sample that estimates are calibrated on.
    pub witnesses: bool,
}

impl Parts {
    /// As it should be.
    pub const ALL: Self = Self {
        crown: true,
        narrow: true,
        decoder: true,
        witnesses: true,
    };
}
