//! AdamW with a state that can be saved.

use candle_core::backprop::GradStore;
use candle_core::{Device, Var};
use crane_model::Result;

/// First and second moments of the gradient, by variable.
#[derive(Default)]
pub struct AdamW {
    /// In the order of the variables.
    pub moments: Vec<(Var, Var)>,
}

impl AdamW {
    /// An optimiser for these variables. Later calls must use the same order.
    pub fn new<'a>(variables: impl Iterator<Item = &'a Var>) -> Result<Self> {
        let zeros = |var: &Var| -> Result<(Var, Var)> {
            Ok((
                Var::zeros(var.shape(), var.dtype(), &Device::Cpu)?,
                Var::zeros(var.shape(), var.dtype(), &Device::Cpu)?,
            ))
        };
        Ok(Self {
            moments: variables.map(zeros).collect::<Result<_>>()?,
        })
    }

    const DECAY: f64 = 1e-4;
    const BETAS: (f64, f64) = (0.9, 0.999);

    /// Makes one step. The first step has the number 1.
    pub fn update(
        &self,
        variables: &[Var],
        gradients: &GradStore,
        rate: f64,
        step: usize,
    ) -> Result<()> {
        let (b1, b2) = Self::BETAS;
        let (c1, c2) = (1.0 - b1.powi(step as i32), 1.0 - b2.powi(step as i32));
        for (var, (first, second)) in variables.iter().zip(&self.moments) {
            let Some(gradient) = gradients.get(var) else {
                continue;
            };
            first.set(&((first.as_tensor() * b1)? + (gradient * (1.0 - b1))?)?)?;
            second.set(&((second.as_tensor() * b2)? + (gradient.sqr()? * (1.0 - b2))?)?)?;
            let change =
                ((first.as_tensor() / c1)? / ((second.as_tensor() / c2)?.sqrt()? + 1e-8)?)?;
            let decayed = (var.as_tensor() * (1.0 - rate * Self::DECAY))?;
            var.set(&(decayed - (change * rate)?)?)?;
        }
        Ok(())
    }
}
