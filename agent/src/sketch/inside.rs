//! What sketches look like inside, as all JSON has it.

use std::collections::BTreeMap;

use crane_model::crane::{Inside, Judged};
use serde::Serialize;

/// Sketches by what they are of: pairs, sources, destinations, services.
pub type SketchStates = BTreeMap<&'static str, SketchState>;

/// One sketch.
#[derive(Debug, Serialize)]
pub struct SketchState {
    /// `table` or `layers`.
    kind: &'static str,
    /// Share of the table that is taken, or of each layer, bottom first; null where
    /// a cell holds any number of pairs.
    fill: Option<Vec<f32>>,
    /// How many different ones there are.
    distinct: Option<u64>,
    /// Known by name.
    named: usize,
    /// Room for names.
    places: usize,
    memory_bytes: usize,
    budget_bytes: usize,
    /// Counted exactly beside the layers, to judge them by.
    judged: Option<Coverage>,
}

/// How many of the 90 % intervals hold the truth.
#[derive(Debug, Serialize)]
struct Coverage {
    of: usize,
    held: usize,
}

/// Sketches by what they are of.
pub fn states(inside: &[(&'static str, Inside)]) -> SketchStates {
    let states = inside.iter();
    states
        .map(|(name, inside)| (*name, inside.into()))
        .collect()
}

impl From<&Inside> for SketchState {
    fn from(inside: &Inside) -> Self {
        let coverage = |judged: Judged| Coverage {
            of: judged.edges,
            held: judged.held,
        };
        Self {
            kind: if inside.exact { "table" } else { "layers" },
            fill: inside.fill.clone(),
            distinct: inside.distinct,
            named: inside.named,
            places: inside.places,
            memory_bytes: inside.memory_bytes,
            budget_bytes: inside.budget_bytes,
            judged: inside.judged.map(coverage),
        }
    }
}
