//! The inner state of sketches, in the form that all JSON has.

use std::collections::BTreeMap;

use crane_model::crane::{SketchDetails, WitnessCoverage};
use serde::Serialize;

/// One state for each sketch: pairs, sources, destinations, services.
pub type SketchStates = BTreeMap<&'static str, SketchState>;

/// The state of one sketch.
#[derive(Debug, Clone, Serialize)]
pub struct SketchState {
    /// `table` or `layers`.
    kind: &'static str,
    /// Used part of the table, or of each layer, bottom first. Null if a cell can hold any number
    /// of pairs.
    fill: Option<Vec<f32>>,
    /// Number of different keys.
    distinct: Option<u64>,
    /// Number of keys that are known by name.
    named: usize,
    /// Number of keys that can be known by name.
    places: usize,
    memory_bytes: usize,
    budget_bytes: usize,
    /// How well the intervals hold for the witnesses, which are pairs that are counted exactly in
    /// addition to the layers.
    judged: Option<Coverage>,
}

/// How many 90 % intervals there are, and how many of them contain the true number.
#[derive(Debug, Clone, Serialize)]
struct Coverage {
    of: usize,
    held: usize,
}

pub fn states(details: &[(&'static str, SketchDetails)]) -> SketchStates {
    let states = details.iter();
    states
        .map(|(name, details)| (*name, details.into()))
        .collect()
}

impl From<&SketchDetails> for SketchState {
    fn from(details: &SketchDetails) -> Self {
        let coverage = |judged: WitnessCoverage| Coverage {
            of: judged.witnesses,
            held: judged.covered,
        };
        Self {
            kind: if details.exact { "table" } else { "layers" },
            fill: details.fill.clone(),
            distinct: details.distinct,
            named: details.named,
            places: details.capacity,
            memory_bytes: details.memory_bytes,
            budget_bytes: details.budget_bytes,
            judged: details.coverage.map(coverage),
        }
    }
}
