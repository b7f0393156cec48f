//! Files that are read whole: configurations, weights, states.
//!
//! Only regular ones, and only up to a limit: a device would fill the memory,
//! and a pipe nobody writes to would keep the agent from starting.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::config::size::Size;

/// Opens a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe waits for its other end, otherwise.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(refusal("not a regular file".into()));
    }
    Ok(file)
}

fn refusal(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// All of a file that has no more than `limit` bytes.
pub fn read(path: &Path, limit: Size) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    // One more, to tell; the size the file claims may not be true for long.
    file.take(limit.0.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit.0 {
        return Err(refusal(format!("larger than {limit}")));
    }
    Ok(bytes)
}
