//! What is known of an interface when it has ended.

use std::sync::Arc;

use super::past::{Compared, PastWindow};
use crate::edge::Pair;
use crate::export::hitters::Hitters;
use crate::names::{Group, Names};
use crate::tally::Tally;

/// The end of an interface or file. The sketch is that of all its packets, or of
/// the last window where no other is kept.
pub struct Summary {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Layers of the sketch.
    pub layers: usize,
    /// Layers added on the way.
    pub expansions: usize,
    /// Bytes of all sketches.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// The heaviest pairs.
    pub top: Hitters<Pair>,
    /// Names of networks, if there are any.
    pub names: Option<Arc<Names>>,
    /// What was sent between them, exactly.
    pub groups: Option<Vec<Group>>,
    /// Windows that are over, if they were kept.
    pub windows: Vec<PastWindow>,
    /// All pairs beside their exact counts, if those were wanted.
    pub compared: Option<Vec<Compared>>,
}
