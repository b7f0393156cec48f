//! The learned parts of a sketch, all layers together.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::decoder::Decoder;
use crate::encoder::Encoder;

/// Encoders of both ends of an edge, for one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Ends {
    /// Encodes sources.
    pub src: Encoder,
    /// Encodes destinations.
    pub dst: Encoder,
}

/// Everything a hierarchy needs that is not memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// Encoders by layer, bottom first.
    pub layers: Vec<Ends>,
    /// Makes one estimate of the ratios of all layers.
    pub decoder: Decoder,
    /// Added to every active cell of a pattern.
    pub epsilon: f32,
    /// Carry threshold these weights were made for.
    pub theta: f32,
    /// Load of the top layer at which a layer is added.
    pub tau: f32,
}

impl Weights {
    /// Untrained encoders and the positional decoder, reproducible from a seed.
    pub fn random(seed: u64, max_layers: usize) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let theta = 4.0;
        let layers = (0..max_layers)
            .map(|_| Ends {
                src: Encoder::random(&mut rng),
                dst: Encoder::random(&mut rng),
            })
            .collect();
        Self {
            layers,
            decoder: Decoder::positional(theta, max_layers),
            epsilon: 1e-4,
            theta,
            tau: 8.0,
        }
    }
}
