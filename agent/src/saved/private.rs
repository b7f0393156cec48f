//! Checks that no other user can read the key or write to the directory.
//!
//! With the key, an attacker can choose packets that collide; with write access to the directory,
//! an attacker can replace the key or a window. The agent does not correct permissions silently,
//! because the key may have been read already.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// Permission bits for writing by group and others.
const OTHERS_WRITE: u32 = 0o022;
/// Permission bits of group and others.
const OTHERS: u32 = 0o077;
const ROOT: u32 = 0;

/// Returns an error if others can write to the directory, with the command that corrects it.
pub fn check_folder(path: &Path, folder: &Metadata) -> Result<(), String> {
    let of = State::of(folder);
    let path = path.display();
    if let Some(owner) = of.foreign_owner() {
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

/// Returns an error if others can read the key, with the command that corrects it.
pub fn check_key(path: &Path, key: &Metadata) -> Result<(), String> {
    let of = State::of(key);
    let path = path.display();
    let again =
        format!("if someone may have read it, `rm '{path}'` makes the agent create a new one");
    if let Some(owner) = of.foreign_owner() {
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

/// Owner and permissions of a file.
struct State {
    owner: u32,
    mode: u32,
    /// User id of the agent.
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

    /// The owner, unless it is the agent's user or root, who can read everything anyway.
    fn foreign_owner(&self) -> Option<u32> {
        (self.owner != self.own && self.owner != ROOT).then_some(self.owner)
    }
}
