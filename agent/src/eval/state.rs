//! State files: a line that names method and variant, then all that the
//! method's answers come from.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use crane_model::rivals::Rival;

use crate::config::size::Size;
use crate::config::small_file;

/// The largest state: that of an exact map may be larger than any budget.
const MOST_STATE: Size = Size(16 << 30);

/// Writes the state of a variant of the method `name`.
pub fn write(path: &Path, name: &str, variant: usize, method: &dyn Rival) -> anyhow::Result<()> {
    let mut file = format!("crane-agent eval state: {name} {variant}\n").into_bytes();
    file.extend(method.save()?);
    fs::write(path, file).with_context(|| format!("cannot write {}", path.display()))
}

/// The variant of the method `name` that a file is the state of, and the state.
pub fn read(path: &Path, name: &str) -> anyhow::Result<(usize, Vec<u8>)> {
    let file = small_file::read(path, MOST_STATE);
    let file = file.with_context(|| format!("cannot read {}", path.display()))?;
    let head = file.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let variant = std::str::from_utf8(head).ok().and_then(|head| {
        head.strip_prefix(&format!("crane-agent eval state: {name} "))?
            .parse()
            .ok()
    });
    let Some(variant) = variant else {
        bail!("{}: not a state of {name}", path.display());
    };
    Ok((variant, file[head.len() + 1..].to_vec()))
}
