//! Files of a training: weights and checkpoints.

use std::collections::HashMap;

use candle_core::{Device, Tensor, Var};
use crane_model::paper::weights::{self, names};
use crane_model::weights::NamedTensor;
use crane_model::{Error, PaperWeights, Result};

use super::fit::{Best, EPSILON, Trainer};
use super::network::{TrainableEncoder, restore, values};

/// Prefix of the best variables in a checkpoint, which distinguishes them from the
/// present ones.
const BEST: &str = "best.";

impl Trainer {
    /// The present weights as a file.
    pub(super) fn file(&self) -> Result<Vec<u8>> {
        let mut tensors = values(self.named())?;
        tensors.extend(self.decoder.by_depth.iter().enumerate().map(|(n, linear)| {
            let values: Vec<f32> = linear.weight.iter().copied().chain([linear.bias]).collect();
            (names::decoder(n + 1), vec![values.len()], values)
        }));
        self.write(&tensors, &[])
    }

    pub(super) fn named(&self) -> Vec<(String, &Var)> {
        self.encoders
            .iter()
            .flatten()
            .flat_map(TrainableEncoder::named)
            .collect()
    }

    fn named_moments(&self) -> Vec<(String, &Var)> {
        let moments = self.optimiser.moments.iter().enumerate();
        moments
            .flat_map(|(n, (m, v))| {
                [
                    (format!("adamw{n}.first"), m),
                    (format!("adamw{n}.second"), v),
                ]
            })
            .collect()
    }

    /// Everything that is needed to continue the training later.
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        let mut tensors = values(self.named())?;
        tensors.extend(values(self.named_moments())?);
        let mut extra = vec![("stale", self.stale.to_string())];
        if let Some(best) = &self.best {
            extra.push(("best_error", best.error.to_string()));
            let prefixed = |(name, shape, values): &NamedTensor| {
                (format!("{BEST}{name}"), shape.clone(), values.clone())
            };
            tensors.extend(best.variables.iter().map(prefixed));
        }
        self.write(&tensors, &extra)
    }

    /// Loads the encoders of a weight file of the same profile.
    pub fn start_from(&mut self, file: &[u8]) -> Result<()> {
        PaperWeights::load(file)?;
        restore(
            self.named(),
            &candle_core::safetensors::load_buffer(file, &Device::Cpu)?,
        )
    }

    /// Continues from a checkpoint of a trainer with the same options.
    pub fn resume(&mut self, checkpoint: &[u8]) -> Result<()> {
        let tensors: HashMap<String, Tensor> =
            candle_core::safetensors::load_buffer(checkpoint, &Device::Cpu)?;
        let all = self.named().into_iter().chain(self.named_moments());
        restore(all, &tensors)?;
        let header = safetensors::SafeTensors::read_metadata(checkpoint).ok();
        let metadata = header
            .and_then(|(_, header)| header.metadata().clone())
            .unwrap_or_default();
        let number = |key: &str| {
            metadata
                .get(key)
                .and_then(|value| value.parse::<f64>().ok())
        };
        let missing = || Error::Weights("the checkpoint does not tell its step".into());
        self.step = number("steps").ok_or_else(missing)? as usize;
        self.stale = number("stale").unwrap_or(0.0) as usize;
        self.best = match number("best_error") {
            None => None,
            Some(error) => {
                let best = tensors
                    .iter()
                    .filter_map(|(name, tensor)| Some((name.strip_prefix(BEST)?, tensor)));
                let best = best.map(|(name, tensor)| {
                    Ok((
                        name.to_owned(),
                        tensor.dims().to_vec(),
                        tensor.flatten_all()?.to_vec1()?,
                    ))
                });
                Some(Best {
                    error,
                    variables: best.collect::<Result<_>>()?,
                })
            }
        };
        Ok(())
    }

    fn write(&self, tensors: &[NamedTensor], extra: &[(&str, String)]) -> Result<Vec<u8>> {
        let options = &self.options;
        let metadata = [
            ("profile", weights::PROFILE.to_owned()),
            ("version", weights::VERSION.to_owned()),
            ("layers", options.layers.to_string()),
            ("ids", options.ids.to_string()),
            ("writes", options.writes.to_string()),
            ("theta", options.theta.to_string()),
            ("tau", options.tau.to_string()),
            ("epsilon", EPSILON.to_string()),
            ("seed", options.seed.to_string()),
            ("steps", self.step.to_string()),
        ];
        let metadata = metadata
            .into_iter()
            .chain(extra.iter().cloned())
            .map(|(key, value)| (key.to_owned(), value));
        crane_model::weights::write(tensors, metadata.collect())
    }
}
