//! The sketch beside exact counts.

use serde::Serialize;

use crate::eval::score::Score;
use crate::sketch::past::Compared;

/// How far the sketch is off.
#[derive(Debug, Serialize)]
pub struct Verify {
    /// Pairs that there were.
    pub distinct: usize,
    /// Mean of |answer − truth| / truth.
    pub are: Option<f64>,
    /// Mean of |answer − truth|.
    pub aae: Option<f64>,
    /// Share of the 100 heaviest pairs that are among the heaviest answers.
    pub top100_recall: Option<f64>,
    /// `are` of the 100 heaviest pairs.
    pub top100_are: Option<f64>,
    /// Pairs whose bytes are told.
    pub bytes_known: usize,
    /// Those of them that are not right, and lower ends that are too high.
    pub bytes_wrong: usize,
}

impl Verify {
    /// Scores all pairs of a capture.
    pub fn new(compared: &[Compared]) -> Self {
        let answers: Vec<f64> = compared.iter().map(|c| c.flow.packets as f64).collect();
        let truth: Vec<u64> = compared.iter().map(|c| c.packets).collect();
        let score = Score::of(&answers, &truth);
        let is_known = |c: &&Compared| c.flow.bytes.is_some();
        let is_wrong = |c: &&Compared| {
            c.flow.bytes.is_some_and(|told| told != c.bytes) || c.flow.bytes_at_least > c.bytes
        };
        Self {
            distinct: compared.len(),
            are: score.are,
            aae: score.aae,
            top100_recall: score.top100_recall,
            top100_are: score.top100_are,
            bytes_known: compared.iter().filter(is_known).count(),
            bytes_wrong: compared.iter().filter(is_wrong).count(),
        }
    }
}
