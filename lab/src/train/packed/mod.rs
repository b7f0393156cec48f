//! The decoder of the packed profile: quantile regression in log space.

pub mod readings;

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use crane_model::packed::PackedWeights;
use crane_model::packed::decoder::{EACH, HIDDEN, Linear, Network, QuantileDecoder};
use crane_model::packed::features::{FEATURES, GLOBAL, LOCAL};
use crane_model::packed::load_model::ln_1p;
use crane_model::{Error, Result};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use self::readings::{Row, Rows, observe};
use crate::ablation::Ablation;
use crate::train::optimiser::AdamW;

/// Options of the training.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Random seed.
    pub seed: u64,
    /// Number of training streams. A tenth as many more are used for validation.
    pub streams: usize,
    /// Number of steps.
    pub steps: usize,
    /// Learning rate at the start. It falls to a hundredth along a cosine.
    pub rate: f64,
    /// Number of edges of the largest stream.
    pub largest: usize,
    /// Parts of the sketch that are left out.
    pub ablation: Ablation,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            streams: 1000,
            steps: 20_000,
            rate: 3e-3,
            largest: 1_500_000,
            ablation: Ablation::NONE,
        }
    }
}

/// Progress of the training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// Number of streams stored so far.
    Stored(usize),
    /// Number of steps done, and the loss of the last one.
    Step(usize, f32),
}

/// The quantiles that are trained. The ends are a little farther out than necessary, as a
/// margin for streams unlike those of the training.
const AIMED_AT: [f64; 3] = [0.04, 0.5, 0.96];
const BATCH: usize = 2048;
/// An error is weighted by count^−EXPONENT, between relative and absolute error.
const EXPONENT: f32 = 0.6;
/// Weight of a pair that never occurred. Half of the queries are such pairs; with the
/// full weight the decoder would take every edge with one packet for an absent pair.
const ABSENT: f32 = 0.3;

/// Trains a decoder. The same options give the same weights.
pub fn train(options: &Options, mut report: impl FnMut(Progress)) -> Result<Vec<u8>> {
    let blank = Arc::new(blank());
    let (mut rows, mut rest) = (Rows::default(), Rows::default());
    let all = options.streams + options.streams / 10;
    for stream in 0..all {
        let seed = options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + stream as u64;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rows = if stream < options.streams {
            &mut rows
        } else {
            &mut rest
        };
        observe(&blank, (options.ablation, options.largest), &mut rng, rows)?;
        report(Progress::Stored(stream + 1));
    }
    let range = range(&rows.uniform);
    // Readings whose bound is certain are never given to the network.
    for rows in [&mut rows, &mut rest] {
        let open = |row: &Row| !row.features.is_certain() && !row.features.is_settled();
        rows.uniform.retain(open);
        rows.banded.retain(|row| !row.features.is_certain());
    }
    let none = |rows: &Rows| rows.uniform.is_empty() || rows.banded.is_empty();
    if none(&rows) || none(&rest) {
        return Err(Error::Setting {
            name: "streams",
            value: options.streams.to_string(),
            allowed: "more, or the streams larger: the bound alone decides all of these".into(),
        });
    }
    let scaling = scaling(&rows.uniform);
    let fit = Fit::new(options.seed, scaling)?;
    fit.run(&rows, options, &mut report)?;
    let validation = fit.loss(
        &rest.uniform.iter().collect::<Vec<_>>(),
        &rest.banded.iter().collect::<Vec<_>>(),
    )?;
    let weights = PackedWeights {
        decoder: fit.decoder(range)?,
    };
    weights.save(&[
        ("seed", options.seed.to_string()),
        ("streams", options.streams.to_string()),
        ("steps", options.steps.to_string()),
        ("rows", (rows.uniform.len() + rows.banded.len()).to_string()),
        ("validation", validation.to_scalar::<f32>()?.to_string()),
    ])
}

/// Weights that are never used, for sketches that only provide features.
fn blank() -> PackedWeights {
    PackedWeights {
        decoder: QuantileDecoder {
            scaling: [[0.0; FEATURES]; 2],
            range: [[0.0; GLOBAL]; 2],
            estimate: nothing(),
            ends: nothing(),
        },
    }
}

fn nothing<const OUT: usize>() -> Network<OUT> {
    let zeros = |inputs| vec![[0.0; HIDDEN]; inputs];
    Network {
        first: Linear {
            weight: zeros(FEATURES),
            bias: [0.0; HIDDEN],
        },
        second: Linear {
            weight: zeros(HIDDEN),
            bias: [0.0; HIDDEN],
        },
        last: Linear {
            weight: vec![[0.0; OUT]; HIDDEN],
            bias: [0.0; OUT],
        },
    }
}

fn features(row: &Row) -> impl Iterator<Item = f32> + use<> {
    row.features.inputs().into_iter().chain(row.load.inputs())
}

fn range(rows: &[Row]) -> [[f32; GLOBAL]; 2] {
    let mut range = [[f32::INFINITY; GLOBAL], [f32::NEG_INFINITY; GLOBAL]];
    for row in rows {
        for (at, x) in row.load.inputs().into_iter().enumerate() {
            range[0][at] = range[0][at].min(x);
            range[1][at] = range[1][at].max(x);
        }
    }
    range
}

/// Mean and 1/standard deviation of each feature.
fn scaling(rows: &[Row]) -> [[f32; FEATURES]; 2] {
    let (mut sum, mut squares) = ([0.0f64; FEATURES], [0.0f64; FEATURES]);
    for row in rows {
        for (at, x) in features(row).enumerate() {
            sum[at] += f64::from(x);
            squares[at] += f64::from(x).powi(2);
        }
    }
    let number = rows.len() as f64;
    let mean = sum.map(|sum| sum / number);
    let spread =
        std::array::from_fn::<f64, FEATURES, _>(|at| squares[at] / number - mean[at].powi(2));
    [
        mean.map(|mean| mean as f32),
        spread.map(|variance| 1.0 / variance.max(1e-4).sqrt() as f32),
    ]
}

/// Networks during training.
struct Fit {
    scaling: [[f32; FEATURES]; 2],
    /// Weights and biases of the network for the estimate, then of the network for the
    /// ends of intervals.
    variables: Vec<Var>,
}

/// Variables of a network: weight and bias of three layers.
const OF_NETWORK: usize = 6;

impl Fit {
    fn new(seed: u64, scaling: [[f32; FEATURES]; 2]) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut variables = Vec::with_capacity(2 * OF_NETWORK);
        for outputs in [EACH, 2 * EACH] {
            let shapes = [(FEATURES, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, outputs)];
            for (inputs, outputs) in shapes {
                let limit = (3.0 / inputs as f32).sqrt();
                let weight: Vec<f32> = (0..inputs * outputs)
                    .map(|_| rng.random_range(-limit..limit))
                    .collect();
                let weight = Tensor::from_vec(weight, (inputs, outputs), &Device::Cpu)?;
                variables.push(Var::from_tensor(&weight)?);
                variables.push(Var::zeros(outputs, candle_core::DType::F32, &Device::Cpu)?);
            }
        }
        Ok(Self { scaling, variables })
    }

    fn run(&self, rows: &Rows, options: &Options, report: &mut impl FnMut(Progress)) -> Result<()> {
        let optimiser = AdamW::new(self.variables.iter())?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed ^ 0xf17);
        for step in 0..options.steps {
            let uniform = random_batch(&mut rng, &rows.uniform);
            let banded = random_batch(&mut rng, &rows.banded);
            let loss = self.loss(&uniform, &banded)?;
            let gradients = loss.backward()?;
            let through = step as f64 / options.steps as f64;
            let rate = options.rate * (0.505 + 0.495 * (std::f64::consts::PI * through).cos());
            optimiser.update(&self.variables, &gradients, rate, step + 1)?;
            if (step + 1) % 100 == 0 {
                report(Progress::Step(step + 1, loss.to_scalar()?));
            }
        }
        Ok(())
    }

    /// Mean pinball loss in ln(1 + count): of the estimate over edges as they occur, of
    /// the ends of intervals over all orders of magnitude equally.
    fn loss(&self, uniform: &[&Row], banded: &[&Row]) -> Result<Tensor> {
        let (estimate, ends) = self.variables.split_at(OF_NETWORK);
        let middle = self.pinball(estimate, uniform, &[1], error_weight)?;
        let ends = self.pinball(ends, banded, &[0, 2], |_| 1.0)?;
        Ok((middle + ends)?)
    }

    fn pinball(
        &self,
        network: &[Var],
        rows: &[&Row],
        quantiles: &[usize],
        weight: fn(u64) -> f32,
    ) -> Result<Tensor> {
        let column = |value: &dyn Fn(&Row) -> f32| {
            let values: Vec<f32> = rows.iter().map(|row| value(row)).collect();
            Tensor::from_vec(values, rows.len(), &Device::Cpu)
        };
        let out = self.forward(network, rows)?;
        let truth = column(&|row| ln_1p(row.count))?;
        let bound = column(&|row| row.features.bound)?;
        let weight = column(&|row| weight(row.count))?;
        let mut loss = Tensor::zeros((), candle_core::DType::F32, &Device::Cpu)?;
        for (at, q) in quantiles.iter().enumerate() {
            let quantile = AIMED_AT[*q];
            let base = column(&|row| row.features.base[*q])?;
            let trust = candle_core::Tensor::ones_like(&truth)?
                / (out.narrow(1, EACH * at, 1)?.squeeze(1)?.neg()?.exp()? + 1.0)?;
            let trust = trust?;
            let usual = (base + out.narrow(1, EACH * at + 1, 1)?.squeeze(1)?)?;
            let estimate = ((&trust * &bound)? + ((1.0 - &trust)? * usual)?)?;
            let error = (&truth - estimate)?;
            let pinball =
                ((error.relu()? * quantile)? + (error.neg()?.relu()? * (1.0 - quantile))?)?;
            loss = (loss + (pinball * &weight)?.mean_all()?)?;
        }
        Ok(loss)
    }

    fn forward(&self, network: &[Var], rows: &[&Row]) -> Result<Tensor> {
        let [mean, scale] = &self.scaling;
        let mut inputs = Vec::with_capacity(rows.len() * FEATURES);
        for row in rows {
            let scaled = features(row).zip(mean).zip(scale);
            inputs.extend(scaled.map(|((x, mean), scale)| (x - mean) * scale));
        }
        let mut x = Tensor::from_vec(inputs, (rows.len(), FEATURES), &Device::Cpu)?;
        for (at, layer) in network.chunks_exact(2).enumerate() {
            if at > 0 {
                x = x.relu()?;
            }
            x = x.matmul(&layer[0])?.broadcast_add(&layer[1])?;
        }
        Ok(x)
    }

    fn decoder(&self, range: [[f32; GLOBAL]; 2]) -> Result<QuantileDecoder> {
        Ok(QuantileDecoder {
            scaling: self.scaling,
            range,
            estimate: network(&self.variables[..OF_NETWORK])?,
            ends: network(&self.variables[OF_NETWORK..])?,
        })
    }
}

fn network<const OUT: usize>(variables: &[Var]) -> Result<Network<OUT>> {
    Ok(Network {
        first: linear(&variables[0], &variables[1])?,
        second: linear(&variables[2], &variables[3])?,
        last: linear(&variables[4], &variables[5])?,
    })
}

fn linear<const IN: usize, const OUT: usize>(weight: &Var, bias: &Var) -> Result<Linear<IN, OUT>> {
    let weight = weight.flatten_all()?.to_vec1::<f32>()?;
    Ok(Linear {
        weight: weight.as_chunks::<OUT>().0.to_vec(),
        bias: bias
            .to_vec1::<f32>()?
            .try_into()
            .map_err(|_| Error::Weights("a layer of another shape".into()))?,
    })
}

/// A random batch of rows.
fn random_batch<'a>(rng: &mut impl Rng, rows: &'a [Row]) -> Vec<&'a Row> {
    (0..BATCH)
        .map(|_| &rows[rng.random_range(0..rows.len())])
        .collect()
}

/// Weight of an error at this count.
fn error_weight(count: u64) -> f32 {
    match count {
        0 => ABSENT,
        _ => (count as f32).powf(-EXPONENT),
    }
}

const _: () = assert!(LOCAL + GLOBAL == FEATURES);
