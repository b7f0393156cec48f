//! The encoders as trainable variables.
//!
//! Batch norm uses running statistics in training as well, so that the codes of a step
//! are the same with and without gradient. The statistics follow the encoders by an
//! exponential mean.

use candle_core::{Device, Tensor, Var};
use crane_model::paper::encoder::{self, BITS, CODE, SHAPES, VARIANCE_FLOOR};
use crane_model::paper::executor::tensor;
use crane_model::paper::weights::names;
use crane_model::weights::NamedTensor;
use crane_model::{Error, Result};
use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

/// Weight of the statistics of a step in the running statistics.
const MOMENTUM: f64 = 0.01;
/// Share of ids for which an output of a new encoder is active.
const ACTIVE: f64 = 0.03;

/// An encoder in training.
pub struct TrainableEncoder {
    prefix: String,
    weight: [Var; 3],
    bias: [Var; 3],
    gamma: [Var; 2],
    beta: [Var; 2],
    mean: [Var; 2],
    variance: [Var; 2],
}

/// Ids as binary digits, one row each.
pub fn bits(ids: &[u32]) -> Result<Tensor> {
    let bits: Vec<f32> = ids.iter().flat_map(|id| encoder::bits(*id)).collect();
    Ok(Tensor::from_vec(bits, (ids.len(), BITS), &Device::Cpu)?)
}

impl TrainableEncoder {
    /// A new encoder. Its statistics and its last biases are set so that few outputs are
    /// active for random ids: dense codes collide and learn slowly.
    pub fn new(prefix: String, rng: &mut impl Rng) -> Result<Self> {
        let mut random = |rows: usize, columns: usize| -> Result<Var> {
            let scale = (2.0 / rows as f32).sqrt();
            let normal =
                |_| scale * <StandardNormal as Distribution<f32>>::sample(&StandardNormal, rng);
            let values: Vec<f32> = (0..rows * columns).map(normal).collect();
            Ok(Var::from_vec(values, (rows, columns), &Device::Cpu)?)
        };
        let [a, b, c] = SHAPES;
        let weight = [random(a.0, a.1)?, random(b.0, b.1)?, random(c.0, c.1)?];
        let filled = |value: f32, n: usize| Var::from_vec(vec![value; n], n, &Device::Cpu);
        let hidden =
            |value: f32| -> Result<[Var; 2]> { Ok([filled(value, a.1)?, filled(value, b.1)?]) };
        let encoder = Self {
            prefix,
            weight,
            bias: [filled(0.0, a.1)?, filled(0.0, b.1)?, filled(0.0, c.1)?],
            gamma: hidden(1.0)?,
            beta: hidden(0.0)?,
            mean: hidden(0.0)?,
            variance: hidden(1.0)?,
        };
        let ids: Vec<u32> = (0..4096).map(|_| rng.random()).collect();
        encoder.follow(&ids, 1.0)?;
        encoder.make_sparse(&ids)?;
        Ok(encoder)
    }

    fn linear(&self, at: usize, x: &Tensor) -> Result<Tensor> {
        Ok(x.matmul(&self.weight[at])?.broadcast_add(&self.bias[at])?)
    }

    fn normalise(&self, at: usize, x: &Tensor) -> Result<Tensor> {
        let deviation = (self.variance[at].detach() + VARIANCE_FLOOR)?.sqrt()?;
        let x = x
            .broadcast_sub(&self.mean[at].detach())?
            .broadcast_div(&deviation)?;
        Ok(x.broadcast_mul(&self.gamma[at])?
            .broadcast_add(&self.beta[at])?)
    }

    fn hidden(&self, bits: &Tensor) -> Result<Tensor> {
        let first = self.normalise(0, &self.linear(0, bits)?)?.relu()?;
        Ok(self.normalise(1, &self.linear(1, &first)?)?.relu()?)
    }

    /// The codes of these ids, with gradient; see [`encoder::Encoder::encode`].
    pub fn encode(&self, bits: &Tensor) -> Result<Tensor> {
        tensor::scale(&self.linear(2, &self.hidden(bits)?)?)
    }

    /// Moves the running statistics towards those of `ids`.
    pub fn follow(&self, ids: &[u32], share: f64) -> Result<()> {
        let mut x = bits(ids)?;
        for at in 0..2 {
            let y = self.linear(at, &x)?.detach();
            let mean = y.mean(0)?;
            let variance = y.broadcast_sub(&mean)?.sqr()?.mean(0)?;
            for (running, now) in [(&self.mean[at], mean), (&self.variance[at], variance)] {
                running.set(&((running.as_tensor() * (1.0 - share))? + (now * share)?)?)?;
            }
            x = self.normalise(at, &y)?.relu()?.detach();
        }
        Ok(())
    }

    /// Like [`follow`](Self::follow), with the usual weight.
    pub fn follow_slowly(&self, ids: &[u32]) -> Result<()> {
        self.follow(ids, MOMENTUM)
    }

    fn make_sparse(&self, ids: &[u32]) -> Result<()> {
        let outputs = self
            .linear(2, &self.hidden(&bits(ids)?)?)?
            .t()?
            .contiguous()?;
        let mut bias = Vec::with_capacity(CODE);
        for mut values in outputs.to_vec2::<f32>()? {
            let at = ((1.0 - ACTIVE) * values.len() as f64) as usize;
            bias.push(-*values.select_nth_unstable_by(at, f32::total_cmp).1);
        }
        Ok(self.bias[2].set(&Tensor::from_vec(bias, CODE, &Device::Cpu)?)?)
    }

    /// The variables that AdamW changes.
    pub fn variables(&self) -> impl Iterator<Item = &Var> {
        let learned = [&self.weight[..], &self.bias, &self.gamma, &self.beta];
        learned.into_iter().flatten()
    }

    /// All variables with their names, statistics included.
    pub fn named(&self) -> Vec<(String, &Var)> {
        let groups: [(&str, &[Var]); 6] = [
            (names::WEIGHT, &self.weight),
            (names::BIAS, &self.bias),
            (names::GAMMA, &self.gamma),
            (names::BETA, &self.beta),
            (names::MEAN, &self.mean),
            (names::VARIANCE, &self.variance),
        ];
        let named = groups
            .into_iter()
            .flat_map(|(kind, vars)| vars.iter().enumerate().map(move |v| (kind, v)));
        named
            .map(|(kind, (at, var))| (names::tensor(&self.prefix, at, kind), var))
            .collect()
    }
}

/// Sets every variable from a tensor of the same name.
pub fn restore<'a>(
    variables: impl IntoIterator<Item = (String, &'a Var)>,
    tensors: &std::collections::HashMap<String, Tensor>,
) -> Result<()> {
    for (name, var) in variables {
        let missing = || Error::Weights(format!("{name} is missing"));
        var.set(tensors.get(&name).ok_or_else(missing)?)?;
    }
    Ok(())
}

/// The present values of variables.
pub fn values(named: Vec<(String, &Var)>) -> Result<Vec<NamedTensor>> {
    let value = |(name, var): (String, &Var)| {
        Ok((
            name,
            var.dims().to_vec(),
            var.flatten_all()?.to_vec1::<f32>()?,
        ))
    };
    named.into_iter().map(value).collect()
}
