//! The weights that are built into the program, or those of a file.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use crane_model::{PackedWeights, PaperWeights};
use sha2::{Digest, Sha256};

use crate::config::Profile;
use crate::config::size::Size;
use crate::config::small_file;

/// Weights of the paper profile, written by `crane-lab train`; see `weights/README.md`.
const BUILT_IN: &[u8] = include_bytes!("../../../weights/paper.safetensors");

/// Loads and checks the weights of the packed profile.
pub fn load_packed(file: Option<&Path>) -> anyhow::Result<Arc<PackedWeights>> {
    let weights = match file {
        None => PackedWeights::built_in().context(INSIDE)?,
        Some(path) => {
            PackedWeights::load(&read(path)?).with_context(|| path.display().to_string())?
        }
    };
    Ok(Arc::new(weights))
}

/// Loads and checks the weights of the paper profile.
pub fn load(file: Option<&Path>) -> anyhow::Result<PaperWeights> {
    let Some(path) = file else {
        return PaperWeights::load(BUILT_IN).context(INSIDE);
    };
    PaperWeights::load(&read(path)?).with_context(|| path.display().to_string())
}

/// The SHA-256 of the built-in weights, as in `weights/README.md`.
pub fn checksum(profile: Profile) -> String {
    let file = match profile {
        Profile::Packed => PackedWeights::FILE,
        Profile::Paper => BUILT_IN,
    };
    sha256(file)
}

/// The SHA-256 of the weights in `file`, or of the built-in weights.
pub fn checksum_of(profile: Profile, file: Option<&Path>) -> anyhow::Result<String> {
    Ok(match file {
        None => checksum(profile),
        Some(path) => sha256(&read(path)?),
    })
}

pub fn sha256(file: &[u8]) -> String {
    let digits = Sha256::digest(file).into_iter();
    digits.map(|byte| format!("{byte:02x}")).collect()
}

/// The largest weight file that is read. Those of this project are smaller than 1 MiB.
const MOST: Size = Size(64 << 20);
const INSIDE: &str = "the weights in this program";

/// Reads a weight file without checking it.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    small_file::read(path, MOST).with_context(|| format!("weights {}", path.display()))
}
