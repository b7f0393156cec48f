//! The decoder of the packed profile: quantile regression in log space.

pub mod readings;

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use self::readings::{Row, observe};
use crate::packed::decoder::{HIDDEN, Linear, OUTPUTS, QuantileDecoder};
use crate::packed::features::{FEATURES, GLOBAL, LOCAL, QUANTILES};
use crate::packed::load_model::ln_1p;
use crate::packed::{Ablation, PackedWeights};
use crate::train::optimiser::AdamW;
use crate::{Error, Result};

/// What is trained and how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Seed of everything random.
    pub seed: u64,
    /// Streams that are learnt from; a tenth as many more validate.
    pub streams: usize,
    /// Steps of the network.
    pub steps: usize,
    /// Learning rate at the start; falls to a hundredth along a cosine.
    pub rate: f64,
    /// Edges of the largest stream.
    pub largest: usize,
    /// Parts of the sketch that are left out.
    pub ablation: Ablation,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            streams: 500,
            steps: 12_000,
            rate: 3e-3,
            largest: 1_500_000,
            ablation: Ablation::NONE,
        }
    }
}

/// How it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// So many streams are stored.
    Stored(usize),
    /// So many steps are done; the loss of the last one.
    Step(usize, f32),
}

const BATCH: usize = 2048;
/// An error counts by count^−this: between the mean relative and the mean
/// absolute error.
const LEVELLING: f32 = 0.6;
/// How much a pair that never occurred counts. Half of the questions are such;
/// counted in full, every edge seen once would be taken for one of them.
const ABSENT: f32 = 0.3;

/// Trains a decoder; the same options give the same weights.
pub fn train(options: &Options, mut report: impl FnMut(Progress)) -> Result<Vec<u8>> {
    let blank = Arc::new(blank());
    let mut rows = Vec::new();
    let mut rest = Vec::new();
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
    let range = range(&rows);
    // What is certain is never asked of the network.
    rows.retain(|row| !row.features.is_certain());
    rest.retain(|row| !row.features.is_certain());
    if rows.is_empty() || rest.is_empty() {
        return Err(Error::Setting {
            name: "streams",
            value: options.streams.to_string(),
            allowed: "10 or more".into(),
        });
    }
    let scaling = scaling(&rows);
    let network = Network::new(options.seed, scaling)?;
    network.fit(&rows, options, &mut report)?;
    let validation = network.loss(&rest, &(0..rest.len()).collect::<Vec<_>>())?;
    let weights = PackedWeights {
        decoder: network.decoder(range)?,
        encoders: None,
    };
    weights.save(&[
        ("seed", options.seed.to_string()),
        ("streams", options.streams.to_string()),
        ("steps", options.steps.to_string()),
        ("rows", rows.len().to_string()),
        ("validation", validation.to_scalar::<f32>()?.to_string()),
    ])
}

/// Weights that are never asked.
fn blank() -> PackedWeights {
    let zeros = |inputs| vec![[0.0; HIDDEN]; inputs];
    PackedWeights {
        decoder: QuantileDecoder {
            scaling: [[0.0; FEATURES]; 2],
            range: [[0.0; GLOBAL]; 2],
            first: Linear {
                weight: zeros(FEATURES),
                bias: [0.0; HIDDEN],
            },
            second: Linear {
                weight: zeros(HIDDEN),
                bias: [0.0; HIDDEN],
            },
            last: Linear {
                weight: vec![[0.0; OUTPUTS]; HIDDEN],
                bias: [0.0; OUTPUTS],
            },
        },
        encoders: None,
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

/// Mean and 1/spread of each feature.
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

struct Network {
    scaling: [[f32; FEATURES]; 2],
    /// Weight and bias of the three layers.
    variables: Vec<Var>,
}

const SHAPES: [(usize, usize); 3] = [(FEATURES, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, OUTPUTS)];

impl Network {
    fn new(seed: u64, scaling: [[f32; FEATURES]; 2]) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut variables = Vec::with_capacity(6);
        for (inputs, outputs) in SHAPES {
            let limit = (3.0 / inputs as f32).sqrt();
            let weight: Vec<f32> = (0..inputs * outputs)
                .map(|_| rng.random_range(-limit..limit))
                .collect();
            let weight = Tensor::from_vec(weight, (inputs, outputs), &Device::Cpu)?;
            variables.push(Var::from_tensor(&weight)?);
            variables.push(Var::zeros(outputs, candle_core::DType::F32, &Device::Cpu)?);
        }
        Ok(Self { scaling, variables })
    }

    fn fit(
        &self,
        rows: &[Row],
        options: &Options,
        report: &mut impl FnMut(Progress),
    ) -> Result<()> {
        let optimiser = AdamW::new(self.variables.iter())?;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed ^ 0xf17);
        for step in 0..options.steps {
            let batch: Vec<usize> = (0..BATCH)
                .map(|_| rng.random_range(0..rows.len()))
                .collect();
            let loss = self.loss(rows, &batch)?;
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

    /// Mean pinball loss of the three quantiles, in ln(1 + count).
    fn loss(&self, rows: &[Row], batch: &[usize]) -> Result<Tensor> {
        let batch: Vec<&Row> = batch.iter().map(|at| &rows[*at]).collect();
        let column = |value: &dyn Fn(&Row) -> f32| {
            let values: Vec<f32> = batch.iter().map(|row| value(row)).collect();
            Tensor::from_vec(values, batch.len(), &Device::Cpu)
        };
        let out = self.forward(&batch)?;
        let truth = column(&|row| ln_1p(row.count))?;
        let bound = column(&|row| row.features.bound)?;
        let mut loss = Tensor::zeros((), candle_core::DType::F32, &Device::Cpu)?;
        for (q, quantile) in QUANTILES.into_iter().enumerate() {
            let base = column(&|row| row.features.base[q])?;
            let weight = column(&|row| weight(row.count, quantile))?;
            let trust = candle_core::Tensor::ones_like(&truth)?
                / (out.narrow(1, 2 * q, 1)?.squeeze(1)?.neg()?.exp()? + 1.0)?;
            let trust = trust?;
            let usual = (base + out.narrow(1, 2 * q + 1, 1)?.squeeze(1)?)?;
            let estimate = ((&trust * &bound)? + ((1.0 - &trust)? * usual)?)?;
            let error = (&truth - estimate)?;
            let pinball =
                ((error.relu()? * quantile)? + (error.neg()?.relu()? * (1.0 - quantile))?)?;
            loss = (loss + (pinball * weight)?.mean_all()?)?;
        }
        Ok(loss)
    }

    fn forward(&self, rows: &[&Row]) -> Result<Tensor> {
        let [mean, scale] = &self.scaling;
        let mut inputs = Vec::with_capacity(rows.len() * FEATURES);
        for row in rows {
            let scaled = features(row).zip(mean).zip(scale);
            inputs.extend(scaled.map(|((x, mean), scale)| (x - mean) * scale));
        }
        let mut x = Tensor::from_vec(inputs, (rows.len(), FEATURES), &Device::Cpu)?;
        for (at, layer) in self.variables.chunks_exact(2).enumerate() {
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
            first: self.linear(0)?,
            second: self.linear(1)?,
            last: self.linear(2)?,
        })
    }

    fn linear<const IN: usize, const OUT: usize>(&self, at: usize) -> Result<Linear<IN, OUT>> {
        let weight = self.variables[2 * at].flatten_all()?.to_vec1::<f32>()?;
        let bias = self.variables[2 * at + 1].to_vec1::<f32>()?;
        Ok(Linear {
            weight: weight.as_chunks::<OUT>().0.to_vec(),
            bias: bias
                .try_into()
                .map_err(|_| Error::Weights("a layer of another shape".into()))?,
        })
    }
}

fn weight(count: u64, quantile: f64) -> f32 {
    match (count, quantile == 0.5) {
        (0, true) => ABSENT,
        // An interval is that of an edge which has occurred.
        (0, false) => 0.0,
        (_, true) => (count as f32).powf(-LEVELLING),
        (_, false) => 1.0,
    }
}

const _: () = assert!(LOCAL + GLOBAL == FEATURES);
