//! Reads files that fit in memory: configurations, weights, saved states.
//!
//! Only regular files up to a limit are read: a device would fill the memory, and a pipe
//! without a writer would block the start.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::config::size::Size;

/// Opens a file. Returns an error if it is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // Without `NONBLOCK`, opening a pipe would wait for its other end.
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

/// Reads a file. Returns an error if it has more than `limit` bytes.
pub fn read(path: &Path, limit: Size) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    // One byte more shows that the file is too large; its size may change while it is read.
    file.take(limit.0.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit.0 {
        return Err(refusal(format!("larger than {limit}")));
    }
    Ok(bytes)
}
