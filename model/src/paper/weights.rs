//! The learned parts of the paper's sketch, for all layers.
//!
//! θ, τ and ε are in the metadata of the weight file ([`crate::weights`]); the tensors
//! are named `layer1.src.linear1.weight` and so on, see [`names`]. The file contains
//! batch norms as they were trained; loading folds them into the linear layers.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::decoder::{DepthWeights, LinearDecoder};
use super::encoder::{Encoder, EncoderLayer, SHAPES, VARIANCE_FLOOR};
use crate::weights::File;
use crate::{Error, Ids, Result, Writes};

/// The encoders of both ends of an edge, for one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeEncoders {
    /// Encodes sources.
    pub src: Encoder,
    /// Encodes destinations.
    pub dst: Encoder,
}

/// The learned parts of a hierarchy and the settings they were trained with.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperWeights {
    /// Encoders by layer, bottom first.
    pub layers: Vec<EdgeEncoders>,
    /// Makes one estimate from the ratios of all layers.
    pub decoder: LinearDecoder,
    /// Which ids the encoders are given for an edge.
    pub ids: Ids,
    /// Which layers an arrival is written to.
    pub writes: Writes,
    /// Added to every active cell of a pattern.
    pub epsilon: f32,
    /// Carry threshold that these weights were trained with.
    pub theta: f32,
    /// Mean load of the top layer at which a layer is added.
    pub tau: f32,
}

/// Name of the profile in weight files.
pub const PROFILE: &str = "paper";
/// Version of the file format.
pub const VERSION: &str = "1";

/// Names of the tensors in a weight file.
pub mod names {
    /// Weight of a linear layer, inputs × outputs.
    pub const WEIGHT: &str = "weight";
    /// Bias of a linear layer.
    pub const BIAS: &str = "bias";
    /// Scale of a batch norm.
    pub const GAMMA: &str = "norm.gamma";
    /// Shift of a batch norm.
    pub const BETA: &str = "norm.beta";
    /// Running mean of a batch norm.
    pub const MEAN: &str = "norm.mean";
    /// Running variance of a batch norm.
    pub const VARIANCE: &str = "norm.variance";

    /// Prefix of an encoder; layers are counted from 0.
    pub fn encoder(layer: usize, end: &str) -> String {
        format!("layer{}.{end}", layer + 1)
    }

    /// A tensor of the linear layer `at` of an encoder.
    pub fn tensor(prefix: &str, at: usize, kind: &str) -> String {
        format!("{prefix}.linear{}.{kind}", at + 1)
    }

    /// Weights of the decoder for `depth` layers, followed by its bias.
    pub fn decoder(depth: usize) -> String {
        format!("decoder.depth{depth}")
    }
}

impl PaperWeights {
    /// Untrained encoders and the plain decoder, reproducible from a seed.
    pub fn random(seed: u64, max_layers: usize, writes: Writes) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let theta = 4.0;
        let layers = (0..max_layers)
            .map(|_| EdgeEncoders {
                src: Encoder::random(&mut rng),
                dst: Encoder::random(&mut rng),
            })
            .collect();
        let decoder = LinearDecoder::plain(writes, theta, max_layers);
        Self {
            layers,
            decoder,
            ids: Ids::default(),
            writes,
            epsilon: 1e-4,
            theta,
            tau: 8.0,
        }
    }

    /// Reads a weight file. The error says why a file cannot be used.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let fault = |what: String| Error::Weights(what);
        let file = File::open(bytes, PROFILE, VERSION)?;
        let metadata = |key: &str| file.metadata(key);
        let number = |key: &str| -> Result<f32> {
            let value = metadata(key)
                .parse::<f32>()
                .ok()
                .filter(|value| value.is_finite() && *value > 0.0);
            value.ok_or_else(|| {
                fault(format!(
                    "{key} = {:?} is not a number above 0",
                    metadata(key)
                ))
            })
        };
        let depth = number("layers")? as usize;
        if depth == 0 || depth > 16 {
            return Err(fault(format!("{depth} layers are not possible")));
        }
        let layers = (0..depth).map(|layer| {
            Ok(EdgeEncoders {
                src: load_encoder(&file, &names::encoder(layer, "src"))?,
                dst: load_encoder(&file, &names::encoder(layer, "dst"))?,
            })
        });
        let by_depth = (1..=depth).map(|depth| {
            let mut weight = file.tensor(&names::decoder(depth), &[depth + 1])?;
            let bias = weight.pop().unwrap_or_default();
            Ok(DepthWeights { weight, bias })
        });
        Ok(Self {
            layers: layers.collect::<Result<_>>()?,
            decoder: LinearDecoder {
                by_depth: by_depth.collect::<Result<_>>()?,
            },
            ids: metadata("ids")
                .parse()
                .map_err(|error: Error| fault(error.to_string()))?,
            writes: metadata("writes")
                .parse()
                .map_err(|error: Error| fault(error.to_string()))?,
            epsilon: number("epsilon")?,
            theta: number("theta")?,
            tau: number("tau")?,
        })
    }
}

/// Reads an encoder and folds its batch norm: `γ·(x·W + b − μ)/σ + β` is the
/// linear layer `x·(W·γ/σ) + ((b − μ)·γ/σ + β)`.
fn load_encoder(file: &File<'_>, prefix: &str) -> Result<Encoder> {
    let mut linear = Vec::with_capacity(SHAPES.len());
    for (at, (inputs, outputs)) in SHAPES.into_iter().enumerate() {
        let tensor =
            |kind: &str, shape: &[usize]| file.tensor(&names::tensor(prefix, at, kind), shape);
        let mut weight = tensor(names::WEIGHT, &[inputs, outputs])?;
        let mut bias = tensor(names::BIAS, &[outputs])?;
        if at < SHAPES.len() - 1 {
            let gamma = tensor(names::GAMMA, &[outputs])?;
            let beta = tensor(names::BETA, &[outputs])?;
            let mean = tensor(names::MEAN, &[outputs])?;
            let variance = tensor(names::VARIANCE, &[outputs])?;
            for output in 0..outputs {
                let floor = VARIANCE_FLOOR as f32;
                let scale = gamma[output] / (variance[output].max(0.0) + floor).sqrt();
                weight
                    .iter_mut()
                    .skip(output)
                    .step_by(outputs)
                    .for_each(|w| *w *= scale);
                bias[output] = (bias[output] - mean[output]) * scale + beta[output];
            }
        }
        linear.push(EncoderLayer { weight, bias });
    }
    let [a, b, c] = <[_; 3]>::try_from(linear).map_err(|_| Error::Weights(prefix.into()))?;
    Ok(Encoder { linear: [a, b, c] })
}
