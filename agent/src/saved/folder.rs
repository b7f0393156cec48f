//! The files of windows and of the key.
//!
//! A file is replaced by renaming a complete new one, so that after a crash either the old or the
//! new file exists. No other user may read the files, see [`private`](super::private).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use crane_model::format::other_version;

use super::private;
use super::settings::Settings;
use super::window::{Head, MOST_HEAD, SavedWindow, Unusable, checksum};
use crate::config::ConfigError;
use crate::config::size::Size;
use crate::config::small_file;
use crate::process::clock::wall_clock;
use crate::sketches::key::Key;

const WINDOW: &str = ".window";
const UNFINISHED: &str = ".tmp";
const KEY: &str = "key";
const KEY_BEGINS: &[u8; 8] = b"CRANEy01";
const KEY_FILE: usize = 8 + 16 + 32;
/// A key file of another version may be longer.
const MOST_KEY_FILE: u64 = 1 << 10;

/// The state directory, locked by this agent.
pub struct Folder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
    /// The key file, if it could not be written yet.
    unwritten_key: Option<Vec<u8>>,
    settings: Settings,
    /// Windows that can be resumed, by interface.
    waiting: BTreeMap<String, Head>,
    /// Windows that have ended, but whose files have not been removed.
    ended: Vec<Head>,
}

/// Writes the files.
pub struct StateFiles {
    path: PathBuf,
    unwritten_key: Option<Vec<u8>>,
}

impl Folder {
    /// Opens the directory, which is created if necessary.
    pub fn open(path: &Path) -> Result<Self, ConfigError> {
        let fault = |why: &dyn std::fmt::Display| {
            let place = format!("state.directory = {:?}", path.display().to_string());
            ConfigError::new(place, why)
        };
        let unusable = |error: io::Error| fault(&format_args!("cannot be used: {error}"));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        let made = made.and_then(|()| fs::metadata(path)).map_err(unusable)?;
        // Checked before opening: a directory of another user is not opened.
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
            ended: Vec::new(),
        })
    }

    /// Returns the key of the previous runs, or creates one. The seed for sampling is always new,
    /// because no window depends on it. A damaged key file is set aside. A key that
    /// other users may know, or that cannot be read, is an error.
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
        let secret = Key::random_secret()?;
        let file = key_file(&secret);
        if let Err(error) = replace(&path, &[&file]) {
            tracing::warn!("{}: the key cannot be saved: {error}", path.display());
            self.unwritten_key = Some(file);
        }
        Key::with(secret)
    }

    /// Checks all files: damaged files and those of other agents are set aside. Windows that have
    /// ended stay until [`Self::end`].
    pub fn scan(&mut self, settings: Settings) -> anyhow::Result<()> {
        self.settings = settings;
        let read = fs::read_dir(&self.path);
        for entry in read.with_context(|| self.path.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if name.ends_with(UNFINISHED) {
                let _ = fs::remove_file(&path);
            } else if let Some(interface) = name.strip_suffix(WINDOW) {
                match self.check(&path, interface) {
                    Ok(head) if head.window.age(wall_clock()).is_err() => self.ended.push(head),
                    Ok(head) => drop(self.waiting.insert(interface.into(), head)),
                    Err(reason) => dispose(&path, &reason),
                }
            }
        }
        Ok(())
    }

    /// Reads the head of a file and checks that its window can be resumed.
    fn check(&self, path: &Path, interface: &str) -> Result<Head, Unusable> {
        let open = small_file::open(path);
        let mut start = Vec::new();
        let read = open.and_then(|file| file.take(2 * MOST_HEAD as u64).read_to_end(&mut start));
        read.map_err(|_| Unusable::Bad("it cannot be read"))?;
        let head = Head::read(&start)?;
        if let Err(refusal @ Unusable::Foreign(_)) = head.window.age(wall_clock()) {
            return Err(refusal);
        }
        if head.window.interface != interface {
            let whose = format!("it is a window of {}", head.window.interface);
            return Err(Unusable::Foreign(whose));
        }
        match self.settings.difference(&head.settings) {
            Some(key) => Err(Unusable::Foreign(format!("it was made with another {key}"))),
            None => Ok(head),
        }
    }

    /// Resumes the saved window of an interface, if there is one that has not ended.
    pub fn resume(
        &mut self,
        interface: &str,
        begin: impl FnOnce(&SavedWindow, &[u8]) -> anyhow::Result<()>,
    ) {
        self.end_if(interface, |_| false);
        let Some(head) = self.waiting.remove(interface) else {
            return;
        };
        let path = file_of(&self.path, interface);
        if let Err(reason) = read_window(&path, &head, begin) {
            dispose(&path, &reason);
        }
    }

    /// Marks the window of an interface as ended if its time is over or `is_over` says so.
    pub fn end_if(&mut self, interface: &str, is_over: impl FnOnce(&SavedWindow) -> bool) {
        let Some(head) = self.waiting.get(interface) else {
            return;
        };
        let has_ended = head.window.age(wall_clock()) == Err(Unusable::Ended);
        if has_ended || is_over(&head.window) {
            self.ended.extend(self.waiting.remove(interface));
        }
    }

    /// Calls `report` for each window that has ended, and removes the files of these windows.
    pub fn end(&mut self, report: &dyn Fn(&SavedWindow, &[u8]) -> anyhow::Result<()>) {
        for head in std::mem::take(&mut self.ended) {
            let path = file_of(&self.path, &head.window.interface);
            let reported = read_window(&path, &head, report);
            dispose(&path, &reported.err().unwrap_or(Unusable::Ended));
        }
    }

    /// Adopts other settings. Windows saved under the previous ones are not resumed.
    pub fn adopt(&mut self, settings: &Settings) {
        if *settings != self.settings {
            self.waiting.clear();
            self.settings = settings.clone();
        }
    }

    /// The part that writes windows.
    pub fn files(&mut self) -> StateFiles {
        StateFiles {
            path: self.path.clone(),
            unwritten_key: self.unwritten_key.take(),
        }
    }
}

impl StateFiles {
    /// Saves a window, replacing the previous one of its interface.
    pub fn save(
        &mut self,
        window: &SavedWindow,
        settings: &Settings,
        body: &[u8],
    ) -> io::Result<()> {
        // Without the key the next run cannot use any window.
        if let Some(key) = &self.unwritten_key {
            replace(&self.path.join(KEY), &[key])?;
            self.unwritten_key = None;
        }
        let head = window.head(settings, body);
        replace(&file_of(&self.path, &window.interface), &[&head, body])
    }

    /// Removes the file of an interface.
    pub fn forget(&self, interface: &str) {
        let _ = fs::remove_file(file_of(&self.path, interface));
    }
}

/// The file of an interface. Names of interfaces cannot contain a slash.
fn file_of(folder: &Path, interface: &str) -> PathBuf {
    folder.join(format!("{interface}{WINDOW}"))
}

/// The state of the key file.
enum KeyFile {
    None,
    Good([u8; 16]),
    Damaged(String),
    /// Other users may have read it, for this reason.
    Known(String),
}

/// Reads the key file. Its errors say nothing about the content.
fn read_key(path: &Path) -> io::Result<KeyFile> {
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KeyFile::None),
        Err(error) => return Err(error),
    };
    if let Err(why) = private::check_key(path, &meta) {
        return Ok(KeyFile::Known(why));
    }
    match small_file::read(path, Size(MOST_KEY_FILE)) {
        Ok(bytes) => Ok(key_in(&bytes).map_or_else(KeyFile::Damaged, KeyFile::Good)),
        // Too long, or not a regular file.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Ok(KeyFile::Damaged(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// The content of a key file.
pub(super) fn key_file(secret: &[u8; 16]) -> Vec<u8> {
    let begin = [&KEY_BEGINS[..], secret].concat();
    [&begin[..], &checksum(&begin)].concat()
}

/// The secret in the content of a key file, or why the file cannot be used.
pub(super) fn key_in(file: &[u8]) -> Result<[u8; 16], String> {
    if let Some(why) = other_version(file, KEY_BEGINS) {
        return Err(why);
    }
    let secret = || {
        let (begin, sum) = file.split_at_checked(KEY_FILE - 32)?;
        let secret = begin.strip_prefix(KEY_BEGINS)?;
        (sum == checksum(begin)).then_some(secret)?.try_into().ok()
    };
    secret().ok_or_else(|| "its checksum is wrong".into())
}

/// Replaces a file atomically.
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
        // Synchronised before renaming, so that replacing is atomic also in a power failure.
        file.sync_data()?;
        fs::rename(unfinished, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(unfinished)))
}

/// Reads the sketches of a window, verifies their checksum, and passes them to `of`.
fn read_window(
    path: &Path,
    head: &Head,
    of: impl FnOnce(&SavedWindow, &[u8]) -> anyhow::Result<()>,
) -> Result<(), Unusable> {
    let most = Size(head.length as u64 + head.body);
    let file = small_file::read(path, most);
    let file = file.map_err(|_| Unusable::Bad("it cannot be read, or is too long"))?;
    let body = file.get(head.length..).unwrap_or_default();
    if !head.matches(body) {
        return Err(Unusable::Bad("its checksum is wrong, or it is truncated"));
    }
    of(&head.window, body).map_err(|error| Unusable::Foreign(format!("{error:#}")))
}

/// Removes a window that has ended; sets aside one that cannot be used.
fn dispose(path: &Path, reason: &Unusable) {
    match reason {
        Unusable::Ended => {
            tracing::info!("{}: the window has ended meanwhile", path.display());
            let _ = fs::remove_file(path);
        }
        Unusable::Foreign(why) => set_aside(path, "foreign", why),
        Unusable::Bad(why) => set_aside(path, "bad", why),
    }
}

/// Renames a file so that it can be inspected. Replaces an earlier file with that name.
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

    #[test]
    fn a_reader_always_finds_the_old_file_or_the_new_one() {
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
        assert_eq!(left, 1, "the temporary file is removed");
    }

    #[test]
    fn a_key_is_reused_unless_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let key = || Folder::open(folder.path()).unwrap().key().unwrap();
        let (first, second) = (key(), key());
        assert!(first.secret == second.secret);
        assert!(
            first.sampling != second.sampling,
            "the seed for sampling is new"
        );
        let path = folder.path().join(KEY);
        let good = fs::read(&path).unwrap();
        for bit in 0..8 * good.len() {
            let mut damaged = good.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(key_in(&damaged).is_err(), "bit {bit}");
        }
        for cut in 0..good.len() {
            assert!(key_in(&good[..cut]).is_err(), "{cut} bytes");
        }
        fs::write(&path, b"x").unwrap();
        assert!(key().secret != first.secret);
        assert_eq!(fs::read(folder.path().join("key.bad")).unwrap(), b"x");
        for length in [2 * good.len(), 2 * MOST_KEY_FILE as usize] {
            fs::write(&path, vec![0; length]).unwrap();
            assert!(key().secret != first.secret, "a key file that is too long");
        }
        fs::write(&path, &good).unwrap();
        assert!(key().secret == first.secret);
    }
}
