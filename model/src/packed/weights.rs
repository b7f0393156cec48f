//! Weights of the packed profile, stored as a safetensors file.

use std::collections::HashMap;

use crate::packed::decoder::{Linear, Network, QuantileDecoder};
use crate::packed::features::{FEATURES, GLOBAL};
use crate::weights::{self, File, NamedTensor};
use crate::{Error, Result};

/// The name of the profile in weight files.
pub const PROFILE: &str = "packed";
/// Version of the file format.
pub const VERSION: &str = "2";

/// The learned parts of the packed profile.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedWeights {
    /// Estimates counts from readings.
    pub decoder: QuantileDecoder,
}

impl PackedWeights {
    /// The built-in weight file, made by `crane-lab train --profile packed`; see
    /// `weights/README.md`.
    pub const FILE: &[u8] = include_bytes!("../../../weights/packed.safetensors");

    /// The built-in weights.
    pub fn built_in() -> Result<Self> {
        Self::load(Self::FILE)
    }

    /// Reads a weight file. The error says why a file cannot be used.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let file = File::open(bytes, PROFILE, VERSION)?;
        let decoder = QuantileDecoder {
            scaling: pair(&file, "decoder.scaling")?,
            range: pair(&file, "decoder.range")?,
            estimate: network(&file, "estimate")?,
            ends: network(&file, "ends")?,
        };
        Ok(Self { decoder })
    }

    /// Writes a weight file with these metadata.
    pub fn save(&self, remarks: &[(&str, String)]) -> Result<Vec<u8>> {
        let net = &self.decoder;
        let mut tensors = vec![
            named("decoder.scaling", &net.scaling),
            named("decoder.range", &net.range),
        ];
        tensors.extend(layers("estimate", &net.estimate));
        tensors.extend(layers("ends", &net.ends));
        let mut metadata: HashMap<String, String> = HashMap::new();
        metadata.insert("profile".into(), PROFILE.into());
        metadata.insert("version".into(), VERSION.into());
        metadata.extend(
            remarks
                .iter()
                .map(|(key, value)| ((*key).into(), value.clone())),
        );
        weights::write(&tensors, metadata)
    }
}

fn layers<const OUT: usize>(name: &str, net: &Network<OUT>) -> Vec<NamedTensor> {
    [
        both(&format!("{name}.linear1"), &net.first),
        both(&format!("{name}.linear2"), &net.second),
        both(&format!("{name}.linear3"), &net.last),
    ]
    .concat()
}

fn network<const OUT: usize>(file: &File<'_>, name: &str) -> Result<Network<OUT>> {
    Ok(Network {
        first: linear(file, &format!("{name}.linear1"))?,
        second: linear(file, &format!("{name}.linear2"))?,
        last: linear(file, &format!("{name}.linear3"))?,
    })
}

fn named<const N: usize>(name: &str, rows: &[[f32; N]]) -> NamedTensor {
    (name.into(), vec![rows.len(), N], rows.concat())
}

fn both<const IN: usize, const OUT: usize>(
    name: &str,
    linear: &Linear<IN, OUT>,
) -> [NamedTensor; 2] {
    [
        named(&format!("{name}.weight"), &linear.weight),
        (format!("{name}.bias"), vec![OUT], linear.bias.to_vec()),
    ]
}

fn pair<const N: usize>(file: &File<'_>, name: &str) -> Result<[[f32; N]; 2]> {
    rows::<2, N>(file, name)?
        .try_into()
        .map_err(|_| Error::Weights(format!("{name} is incomplete")))
}

fn rows<const ROWS: usize, const N: usize>(file: &File<'_>, name: &str) -> Result<Vec<[f32; N]>> {
    let values = file.tensor(name, &[ROWS, N])?;
    Ok(values.as_chunks::<N>().0.to_vec())
}

fn linear<const IN: usize, const OUT: usize>(
    file: &File<'_>,
    name: &str,
) -> Result<Linear<IN, OUT>> {
    let bias = file.tensor(&format!("{name}.bias"), &[OUT])?;
    Ok(Linear {
        weight: rows::<IN, OUT>(file, &format!("{name}.weight"))?,
        bias: bias
            .try_into()
            .map_err(|_| Error::Weights(format!("{name} is incomplete")))?,
    })
}

const _: () = assert!(GLOBAL < FEATURES);
