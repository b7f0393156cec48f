//! How evenly a trained encoder uses its outputs. Training reports this at its end.

use crane_model::paper::encoder::{CODE, Encoder};

/// How codes use their outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Mean number of active outputs of a code.
    pub active: f64,
    /// How often two ids share an output, relative to a uniform hash.
    pub sharing: f64,
}

impl Usage {
    /// How the codes of the ids below `count` use the outputs of an encoder.
    pub fn of(encoder: &Encoder, count: u32) -> Self {
        let (mut active, mut share) = (0, [0.0; CODE]);
        for id in 0..count {
            let code = encoder.encode(id);
            let sum: f32 = code.iter().sum();
            active += code.iter().filter(|value| **value > 0.0).count();
            share
                .iter_mut()
                .zip(code)
                .for_each(|(share, value)| *share += f64::from(value / sum));
        }
        let count = f64::from(count.max(1));
        let together: f64 = share.iter().map(|share| (share / count).powi(2)).sum();
        Self {
            active: active as f64 / count,
            sharing: together * CODE as f64,
        }
    }
}
