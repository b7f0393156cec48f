//! The training loop.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::decoder_fit::{self, Observation};
use super::network::{TrainableEncoder, restore, values};
use super::task;
use crate::paper::decoder::LinearDecoder;
use crate::paper::weights::names;
use crate::train::optimiser::AdamW;
use crate::train::streams;
use crate::weights::NamedTensor;
use crate::{Carry, Ids, PaperWeights, Result, Settings, Sketch, Writes};

/// What is trained and how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Seed of everything random.
    pub seed: u64,
    /// Layers at most.
    pub layers: usize,
    /// Carry threshold.
    pub theta: f32,
    /// Load at which a layer is added.
    pub tau: f32,
    /// Which ids of an edge the encoders see.
    pub ids: Ids,
    /// Which layers an arrival is written to.
    pub writes: Writes,
    /// Steps at most.
    pub steps: usize,
    /// Learning rate at the start; falls to a tenth along a cosine.
    pub rate: f64,
    /// Edges of the largest stream that encoders learn from.
    pub largest: usize,
    /// Edges of the largest stream that the decoder is fitted to.
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

/// How it goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: usize,
    /// Loss of the last step.
    pub loss: f32,
    /// Loss on the validation streams, after steps that measured it.
    pub validation: Option<f64>,
}

/// Added to every active cell of a pattern.
pub(super) const EPSILON: f32 = 1e-4;
const VALIDATE_EVERY: usize = 200;
/// Validations without a better one after which training ends.
const PATIENCE: usize = 20;
const VALIDATION_STREAMS: u64 = 20;
const DECODER_STREAMS: u64 = 120;
/// Edges asked of each stream when the decoder is fitted.
const DECODER_QUERIES: usize = 400;
const BATCHES: [usize; 4] = [64, 256, 1024, 4096];
/// Streams of training, validation and decoder come from seeds far apart.
const VALIDATION_SEEDS: u64 = 1 << 40;
const DECODER_SEEDS: u64 = 1 << 41;

/// The variables that did best on the validation streams.
pub(super) struct Best {
    pub(super) error: f64,
    pub(super) variables: Vec<NamedTensor>,
}

/// Trains one set of weights. Deterministic: seed and step decide everything,
/// also after resuming from a checkpoint.
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

    /// Whether there is nothing more to do.
    pub fn is_done(&self) -> bool {
        self.step >= self.options.steps || self.stale >= PATIENCE
    }

    /// As the sketch will be used.
    fn settings(&self) -> Settings {
        Settings {
            start_layers: 1,
            max_layers: self.options.layers,
            theta: self.options.theta,
            tau: self.options.tau,
            carry: Carry::BatchSynchronous,
            writes: self.options.writes,
        }
    }

    /// One stream, one layer, one step. Every layer learns to be a good bottom
    /// layer: what reaches the ones above is a stream like any other.
    pub fn step(&mut self) -> Result<Progress> {
        let mut rng = self.rng(self.step as u64);
        let layer = self.step % self.options.layers;
        let stream = self.draw(&mut rng, self.options.largest);
        let ids = |end: fn(&crate::Edge) -> u32| -> Vec<u32> {
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

    /// A stream of any size up to `largest` edges.
    fn draw(&self, rng: &mut impl Rng, largest: usize) -> streams::Stream {
        let size = streams::draw_size(rng, 100, largest);
        streams::draw(rng, size)
    }

    /// What `layer` alone misreads of a stream.
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
        let settings = Settings {
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

    /// What the layers misread on streams that are never trained on; keeps the
    /// best weights.
    pub fn validate(&mut self) -> Result<f64> {
        let weights = self.weights()?;
        let mut sum = 0.0;
        for seed in 0..VALIDATION_STREAMS {
            let mut rng = self.rng(VALIDATION_SEEDS + seed);
            let stream = self.draw(&mut rng, self.options.largest);
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

    /// Stores one stream for each seed and reads a sample of it back; by depth.
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
            let stream = self.draw(&mut rng, largest);
            let batch = BATCHES[rng.random_range(0..BATCHES.len())];
            let stored = task::store(weights, &self.settings(), &stream, batch)?;
            let count = stream.edges.len().min(DECODER_QUERIES);
            let sample = rand::seq::index::sample(&mut rng, stream.edges.len(), count).into_vec();
            let edges: Vec<crate::Edge> = sample.iter().map(|at| stream.edges[*at]).collect();
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

    /// The best weights with the decoder that fits them best, as a file.
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

    /// The weights as they are now.
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
