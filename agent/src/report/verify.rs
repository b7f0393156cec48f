//! The sketch compared with exact counts.

use crane_model::Amount;
use serde::Serialize;

use super::intervals::Intervals;
use super::score::{Score, mean};
use crate::window::exact::Compared;

#[derive(Debug, Clone, Serialize)]
pub struct Verify {
    /// Number of pairs.
    pub distinct: usize,
    /// Mean of |answer − truth| / truth.
    pub are: Option<f64>,
    /// Mean of |answer − truth|.
    pub aae: Option<f64>,
    /// Maximum of |answer − truth|.
    pub largest_error: Option<f64>,
    /// Number of answers with an error of more than 25 packets.
    pub off_by_more_than_25: Option<usize>,
    /// Part of the 100 heaviest pairs that are among the 100 heaviest answers.
    pub top100_recall: Option<f64>,
    /// `are` of the 100 heaviest pairs.
    pub top100_are: Option<f64>,
    #[serde(flatten)]
    pub intervals: Intervals,
    /// `are` of bytes.
    pub bytes_are: Option<f64>,
    /// Part of the 90 % intervals of bytes that contain the true number.
    pub bytes_coverage90: Option<f64>,
    /// Answers whose bytes are outside the guaranteed bounds. There must be none.
    pub bytes_outside: usize,
}

impl Verify {
    pub fn new(compared: &[Compared]) -> Self {
        let answers: Vec<f64> = compared
            .iter()
            .map(|c| c.flow.packets.estimate as f64)
            .collect();
        let truth: Vec<u64> = compared.iter().map(|c| c.packets).collect();
        let score = Score::of(&answers, &truth);
        let packets: Vec<Amount> = compared.iter().map(|c| c.flow.packets).collect();
        let bytes: Vec<Amount> = compared.iter().map(|c| c.flow.bytes).collect();
        let true_bytes: Vec<u64> = compared.iter().map(|c| c.bytes).collect();
        let of_bytes = Intervals::of(&bytes, &true_bytes);
        let outside = [of_bytes.below_at_least, of_bytes.above_at_most];
        let relative =
            |c: &Compared| c.flow.bytes.estimate.abs_diff(c.bytes) as f64 / c.bytes.max(1) as f64;
        Self {
            distinct: compared.len(),
            are: score.are,
            aae: score.aae,
            largest_error: score.largest_error,
            off_by_more_than_25: score.off_by_more_than_25,
            top100_recall: score.top100_recall,
            top100_are: score.top100_are,
            intervals: Intervals::of(&packets, &truth),
            bytes_are: mean(compared.iter().map(relative)),
            bytes_coverage90: of_bytes.coverage90,
            bytes_outside: outside.into_iter().flatten().sum(),
        }
    }
}
