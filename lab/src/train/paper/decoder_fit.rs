//! The decoder that fits frozen encoders best: least absolute deviations.
//!
//! It is found by iteratively reweighted least squares, which needs no learning rate and
//! is deterministic. Weights are kept non-negative, because a higher ratio never means a
//! smaller count. The bias stays 0: most edges of an overloaded sketch have one packet,
//! so the best decoder with a bias would be a constant and would not distinguish heavy
//! edges from light ones.

use crane_model::paper::decoder::DepthWeights;

/// The ratios and the true count of one edge.
pub struct Observation {
    /// Ratios, bottom layer first.
    pub ratios: Vec<f32>,
    /// The true count.
    pub truth: f64,
    /// Weight of its error.
    pub weight: f64,
}

const ROUNDS: usize = 60;
/// Smaller errors are treated as this one, which bounds the weights.
const SMALLEST_ERROR: f64 = 1e-2;

/// The best decoder for observations of one depth. Returns `None` if there are no
/// observations.
pub fn fit(observations: &[Observation]) -> Option<DepthWeights> {
    let depth = observations.first()?.ratios.len();
    let mut used: Vec<usize> = (0..depth).collect();
    loop {
        let solution = deviations(observations, &used)?;
        match used.iter().position(|layer| solution[*layer] < 0.0) {
            Some(at) => drop(used.remove(at)),
            None => {
                let weight = solution.into_iter().map(|w| w as f32).collect();
                return Some(DepthWeights { weight, bias: 0.0 });
            }
        }
    }
}

/// Weights by layer; 0 for layers that are not used.
fn deviations(observations: &[Observation], used: &[usize]) -> Option<Vec<f64>> {
    let size = used.len();
    let mut solution = vec![0.0; size];
    let mut row = vec![0.0; size];
    for round in 0..ROUNDS {
        let mut normal = vec![vec![0.0; size + 1]; size];
        for seen in observations {
            for (value, layer) in row.iter_mut().zip(used) {
                *value = f64::from(seen.ratios[*layer]);
            }
            let guess: f64 = row.iter().zip(&solution).map(|(x, w)| x * w).sum();
            let error = if round == 0 {
                seen.truth
            } else {
                (seen.truth - guess).abs()
            };
            let weight = seen.weight / error.max(SMALLEST_ERROR);
            for i in 0..size {
                for j in 0..size {
                    normal[i][j] += weight * row[i] * row[j];
                }
                normal[i][size] += weight * row[i] * seen.truth;
            }
        }
        solution = solve(normal)?;
    }
    let mut all = vec![0.0; observations.first()?.ratios.len()];
    for (value, layer) in solution.iter().zip(used) {
        all[*layer] = *value;
    }
    Some(all)
}

/// Gaussian elimination with pivoting on an augmented matrix, with a small ridge on the
/// diagonal.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let size = rows.len();
    for (i, row) in rows.iter_mut().enumerate() {
        row[i] = row[i] * (1.0 + 1e-9) + 1e-12;
    }
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let lead = rows[column].clone();
        for row in rows.iter_mut().skip(column + 1) {
            let factor = row[column] / lead[column];
            row.iter_mut()
                .zip(&lead)
                .for_each(|(x, y)| *x -= factor * y);
        }
    }
    let mut solution = vec![0.0; size];
    for i in (0..size).rev() {
        let known: f64 = (i + 1..size).map(|j| rows[i][j] * solution[j]).sum();
        solution[i] = (rows[i][size] - known) / rows[i][i];
    }
    solution
        .iter()
        .all(|value: &f64| value.is_finite())
        .then_some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_do_not_change_the_fit() {
        let mut observations: Vec<Observation> = (0..200)
            .map(|n| {
                let ratios = vec![n as f32, (n * 7 % 13) as f32];
                let truth = 2.0 * f64::from(ratios[0]) + 3.0 * f64::from(ratios[1]);
                Observation {
                    ratios,
                    truth,
                    weight: 1.0,
                }
            })
            .collect();
        for seen in observations.iter_mut().step_by(10) {
            seen.truth += 1e4;
        }
        let DepthWeights { weight, bias } = fit(&observations).unwrap();
        assert!(
            (weight[0] - 2.0).abs() < 0.01 && (weight[1] - 3.0).abs() < 0.05,
            "{weight:?}"
        );
        assert_eq!(bias, 0.0);
    }

    #[test]
    fn weights_are_never_negative() {
        let observations = (0..50).map(|n| {
            let (a, b) = (n as f32, (n * 7 % 50) as f32);
            Observation {
                ratios: vec![a, b],
                truth: f64::from(2.0 * b - 0.5 * a),
                weight: 1.0,
            }
        });
        let DepthWeights { weight, .. } = fit(&observations.collect::<Vec<_>>()).unwrap();
        assert!(weight[0] == 0.0 && weight[1] > 1.0, "{weight:?}");
        assert!(fit(&[]).is_none());
    }
}
