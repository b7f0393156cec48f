//! The first eight bytes of every saved format: `CRANE`, a letter for the kind, and two
//! digits for the version.

use crate::{Error, Result};

/// Bytes before the version.
const KIND: usize = 6;

/// Removes `magic` from the front of a saved state. `what` names the format for the error.
pub(crate) fn strip_magic<'a>(state: &'a [u8], magic: &[u8; 8], what: &str) -> Result<&'a [u8]> {
    state.strip_prefix(magic).ok_or_else(|| {
        let other = other_version(state, magic);
        Error::State(other.unwrap_or_else(|| format!("it does not start like {what}")))
    })
}

/// The reason why `bytes` are refused, if they begin like the format of `magic` but with
/// another version.
///
/// ```
/// use crane_model::format::other_version;
///
/// let why = other_version(b"CRANEk06...", b"CRANEk07");
/// assert_eq!(why.as_deref(), Some("its format is version 06; this program reads 07"));
/// assert_eq!(other_version(b"CRANEf06...", b"CRANEk07"), None);
/// ```
pub fn other_version(bytes: &[u8], magic: &[u8; 8]) -> Option<String> {
    let (kind, reads) = magic.split_at(KIND);
    let found = bytes.strip_prefix(kind)?.get(..reads.len())?;
    let is_other = found != reads && found.iter().all(u8::is_ascii_digit);
    let [found, reads] = [found, reads].map(String::from_utf8_lossy);
    is_other.then(|| format!("its format is version {found}; this program reads {reads}"))
}
