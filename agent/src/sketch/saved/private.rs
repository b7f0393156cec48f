//! That nobody else can read the key, or write where it is kept.
//!
//! Whoever knows the key can make packets collide, and whoever writes to the folder can
//! give the agent a key or a window of their own. Neither is mended in silence: someone may
//! have read the key already.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// Bits of a mode by which a group and all others may write.
const OTHERS_WRITE: u32 = 0o022;
/// Bits of a mode that are not the owner's.
const OTHERS: u32 = 0o077;
const ROOT: u32 = 0;

/// Refuses a folder to which others can write; says which command mends it.
pub fn check_folder(path: &Path, folder: &Metadata) -> Result<(), String> {
    let of = State::of(folder);
    let path = path.display();
    if let Some(owner) = of.stranger() {
        return Err(format!(
            "it belongs to another user (uid {owner}), who can write to it: `chown -R {} '{path}'`",
            of.own
        ));
    }
    match of.mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(format!(
            "others can write to it (mode {:04o}): `chmod go-w '{path}'`",
            of.mode
        )),
    }
}

/// Refuses a key that others can read; says which command mends it.
pub fn check_key(path: &Path, key: &Metadata) -> Result<(), String> {
    let of = State::of(key);
    let path = path.display();
    let again = format!("if someone may have read it, `rm '{path}'` has another one drawn");
    if let Some(owner) = of.stranger() {
        return Err(format!(
            "the key belongs to another user (uid {owner}), who can read it: \
             `chown {} '{path}'`; {again}",
            of.own
        ));
    }
    match of.mode & OTHERS {
        0 => Ok(()),
        _ => Err(format!(
            "others can read the key (mode {:04o}): `chmod 600 '{path}'`; {again}",
            of.mode
        )),
    }
}

/// Whose a file is, and who may do what with it.
struct State {
    owner: u32,
    mode: u32,
    /// Who we are.
    own: u32,
}

impl State {
    fn of(meta: &Metadata) -> Self {
        Self {
            owner: meta.uid(),
            mode: meta.mode() & 0o7777,
            own: geteuid().as_raw(),
        }
    }

    /// The owner, if that is neither we nor root, who can read everything anyway.
    fn stranger(&self) -> Option<u32> {
        (self.owner != self.own && self.owner != ROOT).then_some(self.owner)
    }
}
