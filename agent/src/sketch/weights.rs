//! The weights: those in the program, or a file.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use crane_model::{Weights, packed};

use crate::config::size::Size;
use crate::config::small_file;

/// What `crane-agent train` made; see `weights/README.md`.
const BUILT_IN: &[u8] = include_bytes!("../../../weights/paper.safetensors");

/// Loads and checks the weights of `file`, or those in the program, for the
/// packed profile.
pub fn load_packed(file: Option<&Path>) -> anyhow::Result<Arc<packed::Weights>> {
    let weights = match file {
        None => packed::Weights::built_in().context(INSIDE)?,
        Some(path) => {
            packed::Weights::load(&read(path)?).with_context(|| path.display().to_string())?
        }
    };
    Ok(Arc::new(weights))
}

/// Loads and checks the weights of `file`, or those in the program, for the
/// paper profile.
pub fn load(file: Option<&Path>) -> anyhow::Result<Weights> {
    let Some(path) = file else {
        return Weights::load(BUILT_IN).context(INSIDE);
    };
    Weights::load(&read(path)?).with_context(|| path.display().to_string())
}

/// The largest weight file; ours have less than one MiB.
const MOST: Size = Size(64 << 20);
const INSIDE: &str = "the weights in this program";

/// The bytes of a weight file, whatever is in it.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    small_file::read(path, MOST).with_context(|| format!("weights {}", path.display()))
}
