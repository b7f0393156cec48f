//! Learned codes: trained encoders select the cells instead of a hash. They cost a
//! hundred times as much and do not improve the accuracy on keyed ids; `docs/accuracy.md`
//! has the figures.

use std::sync::Arc;

use crane_model::PaperWeights;
use crane_model::codes::{ODD, SALT, mix};
use crane_model::packed::cell_finder::{CellIndices, FindCells};
use crane_model::paper::encoder::{CODE, Code};
use crane_model::paper::weights::EdgeEncoders;

/// Encoder runs for one cell, 6 bits each.
const DIGITS: u32 = 4;

/// Cells selected by the encoders of the paper profile, which are given the two halves of
/// a keyed hash.
pub struct LearnedCells(pub Arc<PaperWeights>);

impl FindCells for LearnedCells {
    fn find(&self, layer: usize, id: u64, third: u64) -> CellIndices {
        let layers = &self.0.layers;
        indices(&layers[layer % layers.len()], id, third)
    }
}

/// The strongest outputs of four codes are the digits of a number that determines the
/// position of a cell within its third.
fn indices(ends: &EdgeEncoders, id: u64, third: u64) -> CellIndices {
    std::array::from_fn(|cell| {
        let mut seen = id;
        let mut number = 0;
        for digit in 0..DIGITS {
            seen = mix(seen ^ SALT, ODD ^ cell as u64);
            let code = match digit % 2 {
                0 => ends.src.encode((seen >> 32) as u32),
                _ => ends.dst.encode(seen as u32),
            };
            number = number * CODE as u64 + strongest(&code);
        }
        let all = (CODE as u64).pow(DIGITS);
        (cell as u64 * third + number * third / all) as u32
    })
}

fn strongest(code: &Code) -> u64 {
    let outputs = (0..).zip(code);
    let best = outputs.max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or(0, |(at, _)| at)
}
