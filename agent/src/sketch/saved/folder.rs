//! The files of windows, and of the key.
//!
//! A file is written beside the one it replaces and takes its name when it is whole: an
//! agent that is killed leaves the old one or the new one, never half. Files of an agent
//! are for nobody else's eyes: see [`private`](super::private).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::private;
use super::settings::Settings;
use super::window::{Head, MOST_HEAD, Refusal, SavedWindow, checksum};
use crate::config::ConfigError;
use crate::config::size::Size;
use crate::config::small_file;
use crate::sketch::key::Key;
use crate::sketch::window::wall_clock;

const WINDOW: &str = ".window";
const UNFINISHED: &str = ".tmp";
const KEY: &str = "key";
const KEY_BEGINS: &[u8; 8] = b"CRANEy01";
const KEY_FILE: usize = 8 + 16 + 32;

/// A folder that is this agent's alone.
pub struct Folder {
    path: PathBuf,
    /// Other agents keep out while it is open.
    _lock: File,
    /// The file of the key, if it could not be written yet.
    unwritten_key: Option<Vec<u8>>,
    settings: Settings,
    /// Windows that may be taken up, by interface.
    waiting: BTreeMap<String, Head>,
}

/// Where files are written.
pub struct Place {
    path: PathBuf,
    unwritten_key: Option<Vec<u8>>,
}

impl Folder {
    /// Opens a folder, which is made if there is none.
    pub fn open(path: &Path) -> Result<Self, ConfigError> {
        let fault = |why: &dyn std::fmt::Display| {
            let place = format!("state.directory = {:?}", path.display().to_string());
            ConfigError::new(place, why)
        };
        let unusable = |error: io::Error| fault(&format_args!("cannot be used: {error}"));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        let made = made.and_then(|()| fs::metadata(path)).map_err(unusable)?;
        // First: one that belongs to somebody else may not even be opened.
        private::check_folder(path, &made).map_err(|why| fault(&why))?;
        let lock = File::open(path).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(fault(&"another agent uses it")),
            Err(TryLockError::Error(error)) => return Err(fault(&error)),
        }
        Ok(Self {
            path: path.into(),
            _lock: lock,
            unwritten_key: None,
            settings: Settings(String::new()),
            waiting: BTreeMap::new(),
        })
    }

    /// The key of the runs before, or one that the next runs will have. Which packets a
    /// sample has is drawn anew: no window depends on it. A damaged key is set aside; one
    /// that others may know, or that cannot be read just now, is an error.
    pub fn key(&mut self) -> anyhow::Result<Key> {
        let path = self.path.join(KEY);
        let fault = |why: &dyn std::fmt::Display| ConfigError::new(path.display(), why);
        match read_key(&path) {
            Ok(KeyFile::Good(secret)) => return Key::with(secret),
            Ok(KeyFile::None) => {}
            Ok(KeyFile::Damaged(why)) => set_aside(&path, "bad", &why),
            Ok(KeyFile::Known(why)) => return Err(fault(&why).into()),
            Err(error) => {
                let why = format_args!("the key cannot be read: {error}");
                return Err(fault(&why).into());
            }
        }
        let secret = Key::draw_secret()?;
        let begin = [&KEY_BEGINS[..], &secret].concat();
        let file = [&begin[..], &checksum(&begin)].concat();
        if let Err(error) = replace(&path, &[&file]) {
            tracing::warn!("{}: the key cannot be saved: {error}", path.display());
            self.unwritten_key = Some(file);
        }
        Key::with(secret)
    }

    /// Judges all files: those that have ended go, and those of others, or damaged ones,
    /// are set aside. For how long the windows that are left still go on, if there are any.
    pub fn look(&mut self, settings: Settings) -> anyhow::Result<Option<u64>> {
        self.settings = settings;
        let read = fs::read_dir(&self.path);
        for entry in read.with_context(|| self.path.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if name.ends_with(UNFINISHED) {
                let _ = fs::remove_file(&path);
            } else if let Some(interface) = name.strip_suffix(WINDOW) {
                match self.judge(&path, interface) {
                    Ok(head) => drop(self.waiting.insert(interface.into(), head)),
                    Err(refusal) => refuse(&path, &refusal),
                }
            }
        }
        let left = |head: &Head| Some(head.window.left - head.window.age(wall_clock()).ok()?);
        Ok(self.waiting.values().find_map(left))
    }

    /// The head of a window that can be taken up.
    fn judge(&self, path: &Path, interface: &str) -> Result<Head, Refusal> {
        let open = small_file::open(path);
        let mut start = Vec::new();
        let read = open.and_then(|file| file.take(2 * MOST_HEAD as u64).read_to_end(&mut start));
        read.map_err(|_| Refusal::Bad("it cannot be read"))?;
        let head = Head::read(&start)?;
        head.window.age(wall_clock())?;
        if head.window.interface != interface {
            let whose = format!("it is a window of {}", head.window.interface);
            return Err(Refusal::Foreign(whose));
        }
        match self.settings.difference(&head.settings) {
            Some(key) => Err(Refusal::Foreign(format!("it was made with another {key}"))),
            None => Ok(head),
        }
    }

    /// Has a window taken up, if there is one of this interface that goes on.
    pub fn take_up(
        &mut self,
        interface: &str,
        begin: impl FnOnce(&SavedWindow, &[u8]) -> anyhow::Result<()>,
    ) {
        let Some(head) = self.waiting.remove(interface) else {
            return;
        };
        let path = file_of(&self.path, interface);
        let read = || {
            head.window.age(wall_clock())?;
            let most = Size(head.length as u64 + head.body);
            let file = small_file::read(&path, most);
            let file = file.map_err(|_| Refusal::Bad("it cannot be read, or is too long"))?;
            let body = file.get(head.length..).unwrap_or_default();
            if !head.owns(body) {
                return Err(Refusal::Bad("its checksum is wrong, or it breaks off"));
            }
            let begun = begin(&head.window, body);
            begun.map_err(|error| Refusal::Foreign(format!("{error:#}")))
        };
        if let Err(refusal) = read() {
            refuse(&path, &refusal);
        }
    }

    /// Goes by other settings from now on. Windows that wait are of those before.
    pub fn adopt(&mut self, settings: &Settings) {
        if *settings != self.settings {
            self.waiting.clear();
            self.settings = settings.clone();
        }
    }

    /// Where the next windows are written.
    pub fn place(&mut self) -> Place {
        Place {
            path: self.path.clone(),
            unwritten_key: self.unwritten_key.take(),
        }
    }
}

impl Place {
    /// Saves a window in the place of the one before.
    pub fn save(
        &mut self,
        window: &SavedWindow,
        settings: &Settings,
        body: &[u8],
    ) -> io::Result<()> {
        // No window is of use to the next run without it.
        if let Some(key) = &self.unwritten_key {
            replace(&self.path.join(KEY), &[key])?;
            self.unwritten_key = None;
        }
        let head = window.head(settings, body);
        replace(&file_of(&self.path, &window.interface), &[&head, body])
    }

    /// Removes what there is of an interface that is gone.
    pub fn forget(&self, interface: &str) {
        let _ = fs::remove_file(file_of(&self.path, interface));
    }
}

/// The file of an interface, in whose name the kernel allows no slash.
fn file_of(folder: &Path, interface: &str) -> PathBuf {
    folder.join(format!("{interface}{WINDOW}"))
}

/// What there is of a key.
enum KeyFile {
    None,
    Good([u8; 16]),
    Damaged(String),
    /// Others may know it, as this says.
    Known(String),
}

/// Reads the file of the key. An error says nothing about what is in it.
fn read_key(path: &Path) -> io::Result<KeyFile> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeyFile::None),
        Err(error) => return Err(error),
    };
    if let Err(why) = private::check_key(path, &meta) {
        return Ok(KeyFile::Known(why));
    }
    match small_file::read(path, Size(KEY_FILE as u64)) {
        Ok(bytes) => Ok(match key_in(&bytes) {
            Some(secret) => KeyFile::Good(secret),
            None => KeyFile::Damaged("its checksum is wrong".into()),
        }),
        // Too long, or no file at all: no key of ours looks like that.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Ok(KeyFile::Damaged(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// The secret in the file of the key; none if it is damaged.
fn key_in(file: &[u8]) -> Option<[u8; 16]> {
    let (begin, sum) = file.split_at_checked(KEY_FILE - 32)?;
    let secret = begin.strip_prefix(KEY_BEGINS)?;
    (sum == checksum(begin)).then_some(secret)?.try_into().ok()
}

/// Replaces a file as a whole, or leaves it as it is.
fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = Path::new(&unfinished);
    let _ = fs::remove_file(unfinished);
    let write = || {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(unfinished)?;
        parts.iter().try_for_each(|part| file.write_all(part))?;
        // On the disk before it has the name: also a power failure leaves one of both.
        file.sync_data()?;
        fs::rename(unfinished, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(unfinished)))
}

/// Says why a window is not taken up.
fn refuse(path: &Path, refusal: &Refusal) {
    match refusal {
        Refusal::Ended => {
            tracing::info!("{}: the window has ended meanwhile", path.display());
            let _ = fs::remove_file(path);
        }
        Refusal::Foreign(why) => set_aside(path, "foreign", why),
        Refusal::Bad(why) => set_aside(path, "bad", why),
    }
}

/// Keeps a file for people to look at, in the place of the one that was kept before.
fn set_aside(path: &Path, extension: &str, why: &dyn std::fmt::Display) {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".");
    aside.push(extension);
    let aside = Path::new(&aside);
    let (from, to) = (path.display(), aside.display());
    match fs::rename(path, aside) {
        Ok(()) => tracing::warn!("{from} is not used: {why}; set aside as {to}"),
        Err(error) => tracing::warn!("{from} is not used: {why}; nor set aside: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Whoever looks, or is left with what is there after a kill, finds one or the other.
    #[test]
    fn at_every_moment_there_is_the_old_file_or_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let contents = [vec![1; 1 << 20], vec![2; 3 << 18]];
        replace(&path, &[&contents[0]]).unwrap();
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                for round in 1..60 {
                    let (start, end) = contents[round % 2].split_at(100);
                    replace(&path, &[start, end]).unwrap();
                }
            });
            while !writing.is_finished() {
                let found = fs::read(&path).unwrap();
                assert!(contents.contains(&found), "{} bytes", found.len());
            }
        });
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "and nothing else");
    }

    #[test]
    fn a_key_is_kept_unless_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let key = || Folder::open(folder.path()).unwrap().key().unwrap();
        let (first, second) = (key(), key());
        assert!(first.secret == second.secret);
        assert!(first.sampling != second.sampling, "drawn anew");
        let path = folder.path().join(KEY);
        let good = fs::read(&path).unwrap();
        for bit in 0..8 * good.len() {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key_in(&damaged), None, "bit {bit}");
        }
        for cut in 0..good.len() {
            assert_eq!(key_in(&good[..cut]), None, "{cut} bytes");
        }
        fs::write(&path, b"x").unwrap();
        assert!(key().secret != first.secret);
        assert_eq!(fs::read(folder.path().join("key.bad")).unwrap(), b"x");
        fs::write(&path, vec![0; 2 * good.len()]).unwrap();
        assert!(key().secret != first.secret, "one that is too long");
        fs::write(&path, &good).unwrap();
        assert!(key().secret == first.secret);
    }
}
