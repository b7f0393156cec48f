//! The weights: those in the program, or a file.

use std::path::Path;

use anyhow::Context;
use crane_model::Weights;

/// What `crane-agent train` made; see `weights/README.md`.
const BUILT_IN: &[u8] = include_bytes!("../../weights/paper.safetensors");

/// Loads and checks the weights of `file`, or those in the program.
pub fn load(file: Option<&Path>) -> anyhow::Result<Weights> {
    let Some(path) = file else {
        return Weights::load(BUILT_IN).context("the weights in this program");
    };
    let bytes = std::fs::read(path).with_context(|| format!("weights {}", path.display()))?;
    Weights::load(&bytes).with_context(|| path.display().to_string())
}
