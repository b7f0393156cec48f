//! Measures the accuracy of answers.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

/// Measures over all distinct edges. `None` if a measure has no meaning for a stream or method.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Score {
    /// Mean of |answer − truth| / truth.
    pub are: Option<f64>,
    /// Mean of |answer − truth|.
    pub aae: Option<f64>,
    /// Maximum of |answer − truth|.
    pub largest_error: Option<f64>,
    /// Number of answers with an error of more than 25.
    pub off_by_more_than_25: Option<usize>,
    /// `are` by frequency of the edge.
    pub bands: BTreeMap<&'static str, Option<f64>>,
    /// Part of the 100 heaviest edges that are among the 100 heaviest answers.
    pub top100_recall: Option<f64>,
    /// `are` of the 100 heaviest edges.
    pub top100_are: Option<f64>,
    /// Spearman's ρ of answer and truth over the 1000 heaviest edges.
    pub rank_correlation_top1000: Option<f64>,
    /// Coefficient of variation of the answers.
    pub estimate_cv: Option<f64>,
}

const FAR_OFF: f64 = 25.0;

/// Names and ranges of the bands.
pub const BANDS: [(&str, u64, u64); 5] = [
    ("1", 1, 1),
    ("2-9", 2, 9),
    ("10-99", 10, 99),
    ("100-999", 100, 999),
    ("1000+", 1000, u64::MAX),
];

impl Score {
    /// Compares `answers` with `truth`, in the same order.
    pub fn of(answers: &[f64], truth: &[u64]) -> Self {
        let relative = |at: usize| (answers[at] - truth[at] as f64).abs() / truth[at] as f64;
        let all = || 0..truth.len();
        let errors = || all().map(|at| (answers[at] - truth[at] as f64).abs());
        let bands = BANDS.iter().map(|(name, low, high)| {
            (
                *name,
                mean(
                    all()
                        .filter(|at| (*low..=*high).contains(&truth[*at]))
                        .map(relative),
                ),
            )
        });
        let by_truth = order(truth.len(), |at| truth[at] as f64);
        let top = tied_top(&by_truth, truth, 100);
        // Recall has no meaning if all edges are among the heaviest.
        let top = if top.len() < truth.len() || truth.len() <= 100 {
            top
        } else {
            &[]
        };
        Self {
            are: mean(all().map(relative)),
            aae: mean(errors()),
            largest_error: errors().reduce(f64::max),
            off_by_more_than_25: (!truth.is_empty())
                .then(|| errors().filter(|error| *error > FAR_OFF).count()),
            bands: bands.collect(),
            top100_recall: recall(top, answers),
            top100_are: mean(top.iter().map(|at| relative(*at))),
            rank_correlation_top1000: {
                let heavy = &by_truth[..by_truth.len().min(1000)];
                let answers: Vec<f64> = heavy.iter().map(|at| answers[*at]).collect();
                let truth: Vec<f64> = heavy.iter().map(|at| truth[*at] as f64).collect();
                spearman(&answers, &truth)
            },
            estimate_cv: variation(answers),
        }
    }
}

pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| {
        (sum + value, count + 1)
    });
    (count > 0).then(|| sum / count as f64)
}

/// Indices from the largest to the smallest value; the order of equal ones is kept.
fn order(count: usize, value: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| value(*b).total_cmp(&value(*a)));
    places
}

/// The first `count` indices and all with the same true number as the last of them.
fn tied_top<'a>(by_truth: &'a [usize], truth: &[u64], count: usize) -> &'a [usize] {
    let Some(last) = by_truth.get(count.min(by_truth.len()).wrapping_sub(1)) else {
        return &[];
    };
    let end = by_truth.partition_point(|at| Reverse(truth[*at]) <= Reverse(truth[*last]));
    &by_truth[..end]
}

/// Part of `top` among as many of the largest answers.
fn recall(top: &[usize], answers: &[f64]) -> Option<f64> {
    let by_answer = order(answers.len(), |at| answers[at]);
    let mut found = by_answer[..top.len()].to_vec();
    found.sort_unstable();
    let hits = top
        .iter()
        .filter(|at| found.binary_search(at).is_ok())
        .count();
    (!top.is_empty()).then(|| hits as f64 / top.len() as f64)
}

fn variation(values: &[f64]) -> Option<f64> {
    let mean_value = mean(values.iter().copied())?;
    let variance = mean(values.iter().map(|value| (value - mean_value).powi(2)))?;
    (mean_value != 0.0).then(|| variance.sqrt() / mean_value)
}

/// Rank correlation with mean ranks for ties. `None` if one side is constant.
fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let (mean_a, mean_b) = (mean(a.iter().copied())?, mean(b.iter().copied())?);
    let product = |x: &[f64], y: &[f64], mx: f64, my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    let spread = (product(&a, &a, mean_a, mean_a) * product(&b, &b, mean_b, mean_b)).sqrt();
    (spread > 0.0).then(|| product(&a, &b, mean_a, mean_b) / spread)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let order = order(values.len(), |at| values[at]);
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        for at in tied {
            ranks[*at] = first as f64 + (tied.len() - 1) as f64 / 2.0;
        }
        first += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correct_answers_have_no_error() {
        let truth = [1, 5, 20, 300];
        let score = Score::of(&truth.map(|t| t as f64), &truth);
        assert_eq!((score.are, score.aae), (Some(0.0), Some(0.0)));
        assert_eq!(score.rank_correlation_top1000, Some(1.0));
        assert_eq!(score.bands["10-99"], Some(0.0));
    }

    #[test]
    fn an_answer_of_one_for_every_edge_has_the_expected_error() {
        let truth = [1, 2, 4, 4];
        let score = Score::of(&[1.0; 4], &truth);
        // mean(1 − 1/f) and mean(f − 1)
        assert_eq!(score.are, Some((0.0 + 0.5 + 0.75 + 0.75) / 4.0));
        assert_eq!(score.aae, Some((0.0 + 1.0 + 3.0 + 3.0) / 4.0));
        assert_eq!(score.estimate_cv, Some(0.0));
        assert_eq!(score.largest_error, Some(3.0));
        assert_eq!(score.off_by_more_than_25, Some(0));
        assert_eq!(
            score.rank_correlation_top1000, None,
            "a constant has no order"
        );
    }

    #[test]
    fn the_largest_errors_are_reported_beside_the_mean() {
        let truth = [1, 100, 100, 100];
        let score = Score::of(&[1.0, 125.0, 74.0, 1100.0], &truth);
        assert_eq!(score.largest_error, Some(1000.0));
        assert_eq!(score.off_by_more_than_25, Some(2), "25 is not more than 25");
        let none = Score::of(&[], &[]);
        assert_eq!((none.largest_error, none.off_by_more_than_25), (None, None));
    }

    #[test]
    fn all_edges_that_tie_with_the_hundredth_are_included() {
        let truth: Vec<u64> = (0..300)
            .map(|n| {
                if n < 50 {
                    9
                } else {
                    5 - u64::from(n >= 120) * 4
                }
            })
            .collect();
        let answers: Vec<f64> = truth.iter().map(|t| *t as f64).collect();
        let score = Score::of(&answers, &truth);
        assert_eq!(score.top100_recall, Some(1.0));
        let mut reversed = answers.clone();
        reversed.reverse();
        // The 120 heaviest edges now have the smallest answers.
        assert_eq!(Score::of(&reversed, &truth).top100_recall, Some(0.0));
        assert_eq!(
            Score::of(&vec![1.0; 300], &vec![1; 300]).top100_recall,
            None
        );
    }
}
