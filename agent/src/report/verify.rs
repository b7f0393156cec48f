//! The sketch beside exact counts.

use crane_model::Amount;
use serde::Serialize;

use crate::eval::intervals::Intervals;
use crate::eval::score::{Score, mean};
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
    /// The largest |answer − truth|.
    pub largest_error: Option<f64>,
    /// How many answers are off by more than 25 packets.
    pub off_by_more_than_25: Option<usize>,
    /// Share of the 100 heaviest pairs that are among the heaviest answers.
    pub top100_recall: Option<f64>,
    /// `are` of the 100 heaviest pairs.
    pub top100_are: Option<f64>,
    /// How far the answers can be trusted.
    #[serde(flatten)]
    pub intervals: Intervals,
    /// Mean of |answer − truth| / truth of their bytes.
    pub bytes_are: Option<f64>,
    /// Share of the 90 % intervals of their bytes that hold the truth.
    pub bytes_coverage90: Option<f64>,
    /// Answers whose bytes are outside of what was guaranteed. There are none.
    pub bytes_outside: usize,
}

impl Verify {
    /// Scores all pairs of a capture.
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
