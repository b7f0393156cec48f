//! Weight files: safetensors with named tensors of f32.
//!
//! The metadata of a file contain its profile, the version of its format and how it was
//! trained. Names and shapes of the tensors depend on the profile.

use std::collections::HashMap;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{Error, Result};

/// A tensor: name, shape, values.
pub type NamedTensor = (String, Vec<usize>, Vec<f32>);

/// Writes named tensors and metadata as a safetensors file.
pub fn write(tensors: &[NamedTensor], metadata: HashMap<String, String>) -> Result<Vec<u8>> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect();
    let fault = |error: safetensors::SafeTensorError| Error::Weights(error.to_string());
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        Ok((
            name,
            TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(fault)?,
        ))
    });
    safetensors::serialize(views.collect::<Result<Vec<_>>>()?, Some(metadata)).map_err(fault)
}

/// The profile that a weight file declares in its metadata.
pub fn profile(bytes: &[u8]) -> Option<String> {
    let (_, header) = SafeTensors::read_metadata(bytes).ok()?;
    header.metadata().as_ref()?.get("profile").cloned()
}

/// A parsed weight file.
pub(crate) struct File<'a> {
    tensors: SafeTensors<'a>,
    metadata: HashMap<String, String>,
}

impl<'a> File<'a> {
    /// Parses a file. Returns an error if it has another profile or version.
    pub fn open(bytes: &'a [u8], profile: &str, version: &str) -> Result<Self> {
        let broken = |error: safetensors::SafeTensorError| {
            Error::Weights(format!("not a complete safetensors file ({error})"))
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let file = Self {
            tensors: SafeTensors::deserialize(bytes).map_err(broken)?,
            metadata: header.metadata().clone().unwrap_or_default(),
        };
        let found = file.metadata("profile");
        if found != profile {
            return Err(Error::Weights(format!(
                "they are for the profile {found:?}, not {profile:?}"
            )));
        }
        let found = file.metadata("version");
        if found != version {
            return Err(Error::Weights(format!(
                "format version {found:?}, this program reads {version:?}"
            )));
        }
        Ok(file)
    }

    /// A value of the metadata, or "none".
    pub fn metadata(&self, key: &str) -> &str {
        self.metadata.get(key).map_or("none", String::as_str)
    }

    /// The values of a tensor. Returns an error if it has another shape or a value that
    /// is not finite.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let fault = |what: String| Error::Weights(format!("{name} {what}"));
        let tensor = self.tensors.tensor(name);
        let tensor = tensor.map_err(|_| fault("is missing".into()))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            let (kind, found) = (tensor.dtype(), tensor.shape());
            return Err(fault(format!(
                "has the shape {found:?} of {kind:?}, expected is {shape:?} of F32"
            )));
        }
        let words = tensor.data().as_chunks::<4>().0.iter();
        let values: Vec<f32> = words.map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if !values.iter().all(|value| value.is_finite()) {
            return Err(fault("has a number that is not finite".into()));
        }
        Ok(values)
    }
}
