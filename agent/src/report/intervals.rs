//! Measures how reliable intervals and bounds are.

use std::collections::BTreeMap;

use crane_model::Amount;
use serde::Serialize;

use super::score::{BANDS, mean};

/// Measures of intervals. `None` if a measure has no meaning for a stream or method.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Intervals {
    /// Part of the 90 % intervals that contain the true number.
    pub coverage90: Option<f64>,
    /// The same by frequency of the edge. `None` for fewer than [`ENOUGH`] edges.
    pub coverage_bands: BTreeMap<&'static str, Option<f64>>,
    /// Winkler's score of the 90 % intervals in ln(1 + count): their width, plus a penalty for the
    /// distance of a miss. It is the mean over the bands with enough edges; lower is better.
    pub interval_score: Option<f64>,
    /// The same score of the guaranteed bounds.
    pub guarantee_score: Option<f64>,
    pub median_width: Option<f64>,
    /// Answers with a true number below the guaranteed bound. There must be none.
    pub below_at_least: Option<usize>,
    /// Answers with a true number above the guaranteed bound. There must be none.
    pub above_at_most: Option<usize>,
}

/// Least number of edges of a band.
pub const ENOUGH: usize = 100;

/// Penalty of a miss by its distance, for intervals of which one in ten may miss.
const COST_OF_A_MISS: f64 = 2.0 / 0.1;

impl Intervals {
    /// Compares `amounts` with `truth`, in the same order.
    pub fn of(amounts: &[Amount], truth: &[u64]) -> Self {
        let held = |(amount, truth): &(&Amount, &u64)| (amount.low..=amount.high).contains(truth);
        let all = || amounts.iter().zip(truth);
        let share = |held: bool| f64::from(u8::from(held));
        let bands = BANDS.iter().map(|(name, low, high)| {
            let of_band = all().filter(|(_, truth)| (low..=high).contains(truth));
            (*name, of_band.collect::<Vec<_>>())
        });
        let bands: Vec<_> = bands.collect();
        let enough = || bands.iter().filter(|(_, edges)| edges.len() >= ENOUGH);
        let scored = |ends: fn(&Amount) -> Option<(u64, u64)>| {
            let of_band = |edges: &Vec<(&Amount, &u64)>| {
                let scores = edges
                    .iter()
                    .map(|(a, truth)| Some(winkler(ends(a)?, **truth)));
                mean(scores.collect::<Option<Vec<f64>>>()?.into_iter())
            };
            let bands: Option<Vec<f64>> = enough().map(|(_, edges)| of_band(edges)).collect();
            mean(bands?.into_iter())
        };
        let mut widths: Vec<u64> = amounts.iter().map(|a| a.high - a.low).collect();
        widths.sort_unstable();
        let violated = |is_violated: fn(&Amount, u64) -> bool| {
            let guaranteed = amounts.iter().all(|a| a.at_least.is_some());
            guaranteed.then(|| all().filter(|(a, truth)| is_violated(a, **truth)).count())
        };
        Self {
            coverage90: mean(all().map(|edge| share(held(&edge)))),
            coverage_bands: bands
                .iter()
                .map(|(name, edges)| {
                    let covered = mean(edges.iter().map(|edge| share(held(edge))));
                    (*name, covered.filter(|_| edges.len() >= ENOUGH))
                })
                .collect(),
            interval_score: scored(|a| Some((a.low, a.high))),
            guarantee_score: scored(|a| Some((a.at_least?, a.at_most?))),
            median_width: widths.get(widths.len() / 2).map(|width| *width as f64),
            below_at_least: violated(|a, truth| a.at_least.is_some_and(|least| truth < least)),
            above_at_most: violated(|a, truth| a.at_most.is_some_and(|most| truth > most)),
        }
    }
}

fn winkler((low, high): (u64, u64), truth: u64) -> f64 {
    let [low, high, truth] = [low, high, truth].map(|count| (count as f64).ln_1p());
    let missed = (low - truth).max(truth - high).max(0.0);
    high - low + COST_OF_A_MISS * missed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(at_least: u64, low: u64, high: u64, at_most: u64) -> Amount {
        Amount::within((Some(at_least), Some(at_most)), [low, low, high])
    }

    #[test]
    fn bands_have_equal_weight_for_any_number_of_edges() {
        // 900 edges of 1 packet, all within their intervals, and 100 edges of 50 packets,
        // half of them outside.
        let mut amounts = vec![amount(0, 1, 1, 4); 900];
        amounts.extend(vec![amount(0, 50, 50, 60); 50]);
        amounts.extend(vec![amount(0, 20, 49, 60); 50]);
        let truth = [vec![1; 900], vec![50; 100]].concat();
        let found = Intervals::of(&amounts, &truth);
        assert_eq!(found.coverage90, Some(0.95));
        assert_eq!(found.coverage_bands["1"], Some(1.0));
        assert_eq!(found.coverage_bands["10-99"], Some(0.5));
        assert_eq!(found.coverage_bands["2-9"], None, "there are none");
        let (l20, l49, l50) = (21f64.ln(), 50f64.ln(), 51f64.ln());
        let missed = l49 - l20 + 20.0 * (l50 - l49);
        let score = (0.0 + missed / 2.0) / 2.0;
        assert!((found.interval_score.unwrap() - score).abs() < 1e-9);
        assert_eq!(
            (found.below_at_least, found.above_at_most),
            (Some(0), Some(0))
        );
    }

    #[test]
    fn numbers_outside_of_the_guaranteed_bounds_are_counted() {
        let amounts = [amount(5, 5, 9, 9); 3];
        let found = Intervals::of(&amounts, &[4, 7, 10]);
        assert_eq!(
            (found.below_at_least, found.above_at_most),
            (Some(1), Some(1))
        );
        let nothing = [Amount::within((None, None), [1, 2, 3])];
        let found = Intervals::of(&nothing, &[9]);
        assert_eq!((found.below_at_least, found.above_at_most), (None, None));
    }
}
