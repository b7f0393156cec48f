//! Settings of a hierarchy.

use crate::{Carry, Error, PaperWeights, Result, Writes};

/// Largest carry threshold, far below the limit of a cell.
const THETA_LIMIT: f32 = 65_536.0;

/// Settings of a hierarchy.
#[derive(Debug, Clone, PartialEq)]
pub struct HierarchySettings {
    /// Number of layers at the start.
    pub start_layers: usize,
    /// Largest number of layers, not more than the weights were trained for.
    pub max_layers: usize,
    /// Carry threshold θ, at least 2.
    pub theta: f32,
    /// A layer is added when the mean cell of the top layer exceeds this value.
    pub tau: f32,
    /// How batches are carried.
    pub carry: Carry,
    /// Which layers an arrival is written to.
    pub writes: Writes,
}

impl HierarchySettings {
    /// The settings that the weights were trained with, starting with one layer.
    pub fn of(weights: &PaperWeights) -> Self {
        Self {
            start_layers: 1,
            max_layers: weights.layers.len(),
            theta: weights.theta,
            tau: weights.tau,
            carry: Carry::default(),
            writes: weights.writes,
        }
    }

    /// Returns an error if a setting is outside its range. The weights have `trained`
    /// layers.
    pub fn check(&self, trained: usize) -> Result<()> {
        let fault = if self.max_layers == 0 || self.max_layers > trained {
            Some((
                "max_layers",
                self.max_layers.to_string(),
                format!("1 to {trained}"),
            ))
        } else if self.start_layers == 0 || self.start_layers > self.max_layers {
            Some((
                "start_layers",
                self.start_layers.to_string(),
                format!("1 to {}", self.max_layers),
            ))
        } else if !(self.theta >= 2.0 && self.theta <= THETA_LIMIT && self.theta.fract() == 0.0) {
            Some((
                "theta",
                self.theta.to_string(),
                format!("a whole number from 2 to {THETA_LIMIT}"),
            ))
        } else if self.tau.is_nan() || self.tau <= 0.0 {
            Some(("tau", self.tau.to_string(), "a number above 0".into()))
        } else {
            None
        };
        match fault {
            Some((name, value, allowed)) => Err(Error::Setting {
                name,
                value,
                allowed,
            }),
            None => Ok(()),
        }
    }
}
