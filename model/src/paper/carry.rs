//! The carry: what moves from a layer to the next.
//!
//! After a batch was added to layer i, an edge whose ratio q has reached θ carries `T =
//! floor(q/θ)` units to the next layer, and θ·T units are subtracted from layer i.
//! [`Carry`] selects how T is found when several edges of a batch share cells.

use std::fmt;
use std::str::FromStr;

use crate::paper::executor::Executor;
use crate::{Error, Result, choice};

/// How a batch is carried. No variant makes a cell negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carry {
    /// One edge after the other, in order of arrival: the reference of the paper.
    Sequential,
    /// The whole batch on the same state. Each edge requests `T = floor(q/θ)`; edges that
    /// request the same cells share what these hold: with S the sum of θ·T·A over the
    /// batch and s the smallest M/S over an edge's cells, at most 1, the edge carries
    /// `floor(s·T)`.
    #[default]
    BatchSynchronous,
    /// The mini-batch of the paper: one T for all edges, from the sum of the patterns of
    /// the batch. With large batches it carries light and heavy edges alike.
    MiniBatch,
}

impl Carry {
    const NAMES: [(&'static str, Self); 3] = [
        ("sequential", Self::Sequential),
        ("batch_synchronous", Self::BatchSynchronous),
        ("mini_batch", Self::MiniBatch),
    ];

    /// Subtracts what is carried from layer `m`, to which the batch with these weights
    /// was added before. Returns the units carried by each edge.
    pub(super) fn take<X: Executor>(
        self,
        x: &X,
        m: &mut X::Plane,
        codes: &X::Patterns,
        weight: &X::Column,
        theta: f32,
    ) -> Result<X::Column> {
        let times = |q: &X::Column| x.floor(&x.scale(q, 1.0 / theta)?, weight);
        let carried = match self {
            Self::Sequential => times(&x.least_ratio(m, codes)?)?,
            Self::BatchSynchronous => {
                let wanted = times(&x.least_ratio(m, codes)?)?;
                if !x.any(&wanted) {
                    return Ok(wanted);
                }
                let mut demand = x.plane()?;
                x.add(&mut demand, codes, &x.scale(&wanted, theta)?)?;
                let shared = x.product(&x.least_share(m, &demand, codes)?, &wanted)?;
                x.floor(&shared, weight)?
            }
            Self::MiniBatch => {
                let mut pattern = x.plane()?;
                x.add(&mut pattern, codes, weight)?;
                x.product(weight, &times(&x.least_quotient(m, &pattern, codes)?)?)?
            }
        };
        x.subtract(m, codes, &x.scale(&carried, theta)?)?;
        Ok(carried)
    }
}

impl fmt::Display for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(choice::name(&Self::NAMES, self))
    }
}

impl FromStr for Carry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        choice::parse("carry", &Self::NAMES, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::executor::fused::Fused;
    use crate::{Edge, PaperWeights, Writes};
    use std::sync::Arc;

    /// The executors never let a cell become negative, which would hide a carry that
    /// takes more than a cell holds. Therefore this test computes the sum without that
    /// limit.
    #[test]
    fn no_batch_takes_more_than_a_cell_holds() {
        let weights = Arc::new(PaperWeights::random(3, 1, Writes::Bottom));
        let x = Fused::new(Arc::clone(&weights));
        for carry in [Carry::BatchSynchronous, Carry::MiniBatch] {
            let edges: Vec<Edge> = (0..60).map(|n| Edge::new(n % 9, n * 7919)).collect();
            let weight: Vec<f32> = (0..60).map(|n| (n % 13 + 1) as f32).collect();
            let codes = x.encode(0, &edges).unwrap();
            let mut before = x.plane().unwrap();
            x.add(&mut before, &codes, &weight).unwrap();
            let carried = carry
                .take(&x, &mut before.clone(), &codes, &weight, 2.0)
                .unwrap();
            if carry == Carry::BatchSynchronous {
                assert!(
                    carried.iter().any(|units| *units > 0.0),
                    "nothing was carried"
                );
            }
            for (cell, held) in before.iter().enumerate() {
                let mut taken = 0.0;
                for (cells, units) in codes.iter().zip(&carried) {
                    let own = cells.iter().filter(|own| usize::from(own.index) == cell);
                    taken += own.map(|own| 2.0 * units * own.share).sum::<f32>();
                }
                assert!(taken <= held * 1.001 + 1e-3, "{carry}: {taken} of {held}");
            }
        }
    }
}
