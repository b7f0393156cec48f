//! The training loop of the paper profile.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use crane_model::paper::decoder::LinearDecoder;
use crane_model::paper::weights::names;
use crane_model::weights::NamedTensor;
use crane_model::{Carry, HierarchySettings, Ids, PaperWeights, Result, Sketch, Writes};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::decoder_fit::{self, Observation};
use super::network::{TrainableEncoder, restore, values};
use super::task;
use crate::train::optimiser::AdamW;
use crate::train::streams;

/// Options of the training.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Random seed.
    pub seed: u64,
    /// Largest number of layers.
    pub layers: usize,
    /// Carry threshold.
    pub theta: f32,
    /// Mean load of the top layer at which a layer is added.
    pub tau: f32,
    /// Which ids the encoders are given for an edge.
    pub ids: Ids,
    /// Which layers an arrival is written to.
    pub writes: Writes,
    /// Largest number of steps.
    pub steps: usize,
    /// Learning rate at the start. It falls to a tenth along a cosine.
    pub rate: f64,
    /// Largest number of edges in a training stream of the encoders.
    pub largest: usize,
    /// Largest number of edges in a stream that the decoder is fitted to.
    pub largest_decoded: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            layers: 4,
            theta: 1024.0,
            tau: 0.75,
            ids: Ids::default(),
            writes: Writes::default(),
            steps: 6000,
            rate: 2e-3,
            largest: 20_000,
            largest_decoded: 400_000,
        }
    }
}

/// Progress of the training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: usize,
    /// Loss of the last step.
    pub loss: f32,
    /// Loss on the validation streams, if this step has measured it.
    pub validation: Option<f64>,
}

/// Added to every active cell of a pattern.
pub(super) const EPSILON: f32 = 1e-4;
const VALIDATE_EVERY: usize = 200;
/// Training ends after this many validations without improvement.
const PATIENCE: usize = 20;
const VALIDATION_STREAMS: u64 = 20;
const DECODER_STREAMS: u64 = 120;
/// Edges that are read from each stream to fit the decoder.
const DECODER_QUERIES: usize = 400;
const BATCHES: [usize; 4] = [64, 256, 1024, 4096];
/// The seeds of training, validation and decoder streams are far apart, so that they
/// never coincide.
const VALIDATION_SEEDS: u64 = 1 << 40;
const DECODER_SEEDS: u64 = 1 << 41;

/// The variables with the smallest validation loss.
pub(super) struct Best {
    pub(super) error: f64,
    pub(super) variables: Vec<NamedTensor>,
}

/// Trains one set of weights. Seed and step determine everything, also after resuming
/// from a checkpoint.
pub struct Trainer {
    pub(super) options: Options,
    pub(super) encoders: Vec<[TrainableEncoder; 2]>,
    pub(super) decoder: LinearDecoder,
    pub(super) optimiser: AdamW,
    pub(super) step: usize,
    pub(super) best: Option<Best>,
    pub(super) stale: usize,
}

impl Trainer {
    /// A trainer at step 0.
    pub fn new(options: Options) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(options.seed);
        let mut encoders = Vec::with_capacity(options.layers);
        for layer in 0..options.layers {
            let mut end = |end: &str| TrainableEncoder::new(names::encoder(layer, end), &mut rng);
            encoders.push([end("src")?, end("dst")?]);
        }
        let decoder = LinearDecoder::plain(options.writes, options.theta, options.layers);
        let mut trainer = Self {
            options,
            encoders,
            decoder,
            optimiser: AdamW::default(),
            step: 0,
            best: None,
            stale: 0,
        };
        trainer.settings().check(trainer.options.layers)?;
        trainer.optimiser = AdamW::new(trainer.variables())?;
        Ok(trainer)
    }

    fn variables(&self) -> impl Iterator<Item = &Var> {
        self.encoders
            .iter()
            .flatten()
            .flat_map(TrainableEncoder::variables)
    }

    /// Steps done so far.
    pub fn steps_done(&self) -> usize {
        self.step
    }

    /// Whether the training is finished.
    pub fn is_done(&self) -> bool {
        self.step >= self.options.steps || self.stale >= PATIENCE
    }

    /// The settings that the sketch will be used with.
    fn settings(&self) -> HierarchySettings {
        HierarchySettings {
            start_layers: 1,
            max_layers: self.options.layers,
            theta: self.options.theta,
            tau: self.options.tau,
            carry: Carry::BatchSynchronous,
            writes: self.options.writes,
        }
    }

    /// Trains one layer on one stream. Every layer is trained as a bottom layer, because
    /// what is carried to a higher layer is a stream like any other.
    pub fn step(&mut self) -> Result<Progress> {
        let mut rng = self.rng(self.step as u64);
        let layer = self.step % self.options.layers;
        let stream = self.random_stream(&mut rng, self.options.largest);
        let ids = |end: fn(&crane_model::Edge) -> u32| -> Vec<u32> {
            stream.edges.iter().take(1024).map(end).collect()
        };
        let [src, dst] = &self.encoders[layer];
        src.follow_slowly(&ids(|e| e.src))?;
        dst.follow_slowly(&ids(|e| e.dst))?;
        let loss = self.loss(&self.weights()?, layer, &stream, &mut rng)?;
        let gradients = loss.backward()?;
        let through = self.step as f64 / self.options.steps as f64;
        let rate = self.options.rate * (0.55 + 0.45 * (std::f64::consts::PI * through).cos());
        let updates = self.step / self.options.layers + 1;
        let variables: Vec<Var> = self.variables().cloned().collect();
        self.optimiser
            .update(&variables, &gradients, rate, updates)?;
        self.step += 1;

        let validation = (self.step.is_multiple_of(VALIDATE_EVERY))
            .then(|| self.validate())
            .transpose()?;
        Ok(Progress {
            step: self.step,
            loss: loss.to_scalar()?,
            validation,
        })
    }

    /// A random stream of up to `largest` edges.
    fn random_stream(&self, rng: &mut impl Rng, largest: usize) -> streams::Stream {
        let size = streams::random_size(rng, 100, largest);
        streams::random_stream(rng, size)
    }

    /// The loss of a single layer on a stream.
    fn loss(
        &self,
        weights: &PaperWeights,
        layer: usize,
        stream: &streams::Stream,
        rng: &mut impl Rng,
    ) -> Result<Tensor> {
        let alone = PaperWeights {
            layers: vec![weights.layers[layer].clone()],
            ..weights.clone()
        };
        let settings = HierarchySettings {
            max_layers: 1,
            ..self.settings()
        };
        let stored = task::store(&Arc::new(alone), &settings, stream, BATCHES[3])?;
        task::loss(
            &self.encoders[layer..=layer],
            (weights.ids, EPSILON),
            stream,
            &stored,
            rng,
        )
    }

    fn rng(&self, number: u64) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(
            self.options
                .seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(number),
        )
    }

    /// The loss of the layers on the validation streams. Keeps the weights if they are
    /// the best so far.
    pub fn validate(&mut self) -> Result<f64> {
        let weights = self.weights()?;
        let mut sum = 0.0;
        for seed in 0..VALIDATION_STREAMS {
            let mut rng = self.rng(VALIDATION_SEEDS + seed);
            let stream = self.random_stream(&mut rng, self.options.largest);
            let layer = seed as usize % self.options.layers;
            sum += f64::from(
                self.loss(&weights, layer, &stream, &mut rng)?
                    .to_scalar::<f32>()?,
            );
        }
        let error = sum / VALIDATION_STREAMS as f64;
        if self.best.as_ref().is_none_or(|best| error < best.error) {
            self.best = Some(Best {
                error,
                variables: values(self.named())?,
            });
            self.stale = 0;
        } else {
            self.stale += 1;
        }
        Ok(error)
    }

    /// Stores one stream for each seed and reads some of its edges, grouped by the number
    /// of layers.
    fn observe(
        &self,
        weights: &Arc<PaperWeights>,
        seeds: std::ops::Range<u64>,
        largest: usize,
    ) -> Result<Vec<Vec<Observation>>> {
        let mut by_depth: Vec<Vec<Observation>> =
            (0..self.options.layers).map(|_| Vec::new()).collect();
        for seed in seeds {
            let mut rng = self.rng(seed);
            let stream = self.random_stream(&mut rng, largest);
            let batch = BATCHES[rng.random_range(0..BATCHES.len())];
            let stored = task::store(weights, &self.settings(), &stream, batch)?;
            let count = stream.edges.len().min(DECODER_QUERIES);
            let sample = rand::seq::index::sample(&mut rng, stream.edges.len(), count).into_vec();
            let edges: Vec<crane_model::Edge> = sample.iter().map(|at| stream.edges[*at]).collect();
            let mean = stream.counts.iter().sum::<u64>() as f64 / stream.counts.len() as f64;
            for (ratios, at) in stored.sketch.ratios(&edges)?.into_iter().zip(sample) {
                let truth = stream.counts[at] as f64;
                let weight = 1.0 / (mean * count as f64);
                by_depth[ratios.len() - 1].push(Observation {
                    ratios: stored.sketch.seen(&ratios),
                    truth,
                    weight,
                });
            }
        }
        Ok(by_depth)
    }

    /// The best weights with the decoder that is fitted to them, as a file.
    pub fn finish(&mut self) -> Result<Vec<u8>> {
        if let Some(best) = &self.best {
            let tensors = best.variables.iter().map(|(name, shape, values)| {
                Ok((
                    name.clone(),
                    Tensor::from_slice(values, shape.as_slice(), &Device::Cpu)?,
                ))
            });
            restore(self.named(), &tensors.collect::<Result<_>>()?)?;
        }
        let mut weights = self.weights()?;
        let seeds = DECODER_SEEDS..DECODER_SEEDS + DECODER_STREAMS;
        let observed = self.observe(
            &Arc::new(weights.clone()),
            seeds,
            self.options.largest_decoded,
        )?;
        fit_decoder(&mut weights.decoder, &observed);
        self.decoder = weights.decoder;
        self.file()
    }

    /// The present weights.
    pub fn weights(&self) -> Result<PaperWeights> {
        PaperWeights::load(&self.file()?)
    }
}

fn fit_decoder(decoder: &mut LinearDecoder, observed: &[Vec<Observation>]) {
    for (linear, observations) in decoder.by_depth.iter_mut().zip(observed) {
        if let Some(fitted) = decoder_fit::fit(observations) {
            *linear = fitted;
        }
    }
}
