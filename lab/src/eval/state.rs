//! State files: a line with the names of method and variant, then the state of the
//! method.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use crane_agent::config::size::Size;
use crane_agent::config::small_file;

use crate::rivals::Rival;

/// Largest accepted state. That of an exact map may exceed every budget.
const MOST_STATE: Size = Size(16 << 30);

/// Writes the state of a variant of the method `name`.
pub fn write(path: &Path, name: &str, variant: usize, method: &dyn Rival) -> anyhow::Result<()> {
    let mut file = format!("crane-lab eval state: {name} {variant}\n").into_bytes();
    file.extend(method.save()?);
    fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a state of the method `name`. Returns the variant and the state.
pub fn read(path: &Path, name: &str) -> anyhow::Result<(usize, Vec<u8>)> {
    let file = small_file::read(path, MOST_STATE);
    let file = file.with_context(|| format!("cannot read {}", path.display()))?;
    let head = file.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let variant = std::str::from_utf8(head).ok().and_then(|head| {
        head.strip_prefix(&format!("crane-lab eval state: {name} "))?
            .parse()
            .ok()
    });
    let Some(variant) = variant else {
        bail!("{}: not a state of {name}", path.display());
    };
    Ok((variant, file[head.len() + 1..].to_vec()))
}
