//! Weight files: safetensors with named tensors of f32.
//!
//! The metadata of a file name its profile, the version of its format and how
//! it was trained. What the tensors are is up to the profile.

use std::collections::HashMap;

use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{Error, Result};

/// A tensor with its name and shape.
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

/// The profile that a weight file says it is for.
pub fn profile(bytes: &[u8]) -> Option<String> {
    let (_, header) = SafeTensors::read_metadata(bytes).ok()?;
    header.metadata().as_ref()?.get("profile").cloned()
}

/// A weight file of one profile, taken apart.
pub(crate) struct File<'a> {
    tensors: SafeTensors<'a>,
    metadata: HashMap<String, String>,
}

impl<'a> File<'a> {
    /// Opens a file of this profile and version, and no other.
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

    /// What the file says about itself.
    pub fn metadata(&self, key: &str) -> &str {
        self.metadata.get(key).map_or("none", String::as_str)
    }

    /// A tensor of exactly this shape.
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
