//! A file that lines are appended to. Before it exceeds its maximum size it is renamed to
//! `FILE.1`, `FILE.1` to `FILE.2` and so on; the oldest file is removed.
//!
//! If another program has renamed or removed the file, it is created again. The bytes of a
//! failed write are removed, so that there is never an incomplete line between others.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Readable by the group, unless the umask says otherwise.
const MODE: u32 = 0o640;
/// Largest number of files. Old files with larger numbers do not exist.
const MOST_FILES: usize = 1000;

/// Maximum size and number of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a file in bytes.
    pub bytes: u64,
    /// Number of files, including the one that is written to.
    pub files: usize,
}

/// The file that lines are appended to, and its older files.
pub struct LinesFile {
    path: PathBuf,
    file: File,
    limits: Limits,
}

impl LinesFile {
    /// Opens a file, which is created if it does not exist.
    pub fn open(path: &Path, limits: Limits) -> io::Result<Self> {
        let file = open(path)?;
        let opened = Self {
            path: path.into(),
            file,
            limits,
        };
        opened.remove_old();
        Ok(opened)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets other limits.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.remove_old();
    }

    /// Appends complete lines, to a single file if they fit. Returns the number of lines written.
    pub fn append(&mut self, lines: &str) -> (u64, io::Result<()>) {
        let mut written = 0;
        for part in parts(lines, self.limits.bytes as usize) {
            if let Err(error) = self.append_part(part) {
                return (written, Err(error));
            }
            written += count(part);
        }
        (written, Ok(()))
    }

    fn append_part(&mut self, lines: &str) -> io::Result<()> {
        if self.was_moved() {
            self.file = open(&self.path)?;
        }
        let mut length = self.file.metadata()?.len();
        if length > 0 && length.saturating_add(lines.len() as u64) > self.limits.bytes {
            self.rotate()?;
            length = 0;
        }
        let written = self.file.write_all(lines.as_bytes());
        written.inspect_err(|_| drop(self.file.set_len(length)))
    }

    /// Whether the file was renamed or removed.
    fn was_moved(&self) -> bool {
        let place = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let open = self.file.metadata().map(place).ok();
        let named = fs::symlink_metadata(&self.path).map(place).ok();
        open.is_none() || open != named
    }

    /// Renames the files and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        if self.limits.files == 1 {
            return self.file.set_len(0);
        }
        for n in (1..self.limits.files - 1).rev() {
            match fs::rename(self.before(n), self.before(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.before(1))?;
        self.file = open(&self.path)?;
        Ok(())
    }

    /// Removes files beyond the limit, which may have been higher before.
    fn remove_old(&self) {
        for n in self.limits.files..=MOST_FILES {
            if fs::remove_file(self.before(n)).is_err() {
                return;
            }
        }
    }

    /// The name of the nth older file.
    fn before(&self, n: usize) -> PathBuf {
        numbered(&self.path, n)
    }
}

/// The name of the nth older file.
pub fn numbered(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

/// The number of lines.
pub fn count(lines: &str) -> u64 {
    lines.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// Splits text between lines into parts of `most` bytes at most.
fn parts(lines: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let end = match rest.len() <= most {
            true => rest.len(),
            // A line that is longer than a file is a part of its own.
            false => match rest.as_bytes()[..most].iter().rposition(|b| *b == b'\n') {
                Some(end) => end + 1,
                None => rest.find('\n').map_or(rest.len(), |end| end + 1),
            },
        };
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

/// Opens a file to append lines. It must be a regular file that no other agent writes to.
fn open(path: &Path) -> io::Result<File> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // Rotation would rename a link instead of its file, and opening a pipe would wait for a
    // reader.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut file = File::options()
        .read(true)
        .append(true)
        .create(true)
        .mode(MODE)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
                io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link")
            }
            _ => error,
        })?;
    if !file.metadata()?.is_file() {
        return refuse("not a regular file");
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return refuse("another agent writes to it"),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    end_line(&mut file)?;
    Ok(file)
}

/// Removes an incomplete last line, which a power failure may have left.
fn end_line(file: &mut File) -> io::Result<()> {
    const STEP: u64 = 1 << 16;
    let length = file.metadata()?.len();
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(STEP);
        let mut tail = vec![0; (end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut tail)?;
        if let Some(last) = tail.iter().rposition(|byte| *byte == b'\n') {
            end = start + last as u64 + 1;
            break;
        }
        end = start;
    }
    match end == length {
        true => Ok(()),
        false => file.set_len(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(bytes: u64, files: usize) -> Limits {
        Limits { bytes, files }
    }

    fn read(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        });
        let mut found: Vec<_> = entries.collect();
        found.sort();
        found
    }

    fn name(n: &str, text: &str) -> (String, String) {
        (n.into(), text.into())
    }

    #[test]
    fn files_never_exceed_their_size_and_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let mut file = LinesFile::open(&path, limits(10, 3)).unwrap();
        for n in 1..=5 {
            let (written, result) = file.append(&format!("{n}aaa\n{n}bb\n"));
            result.unwrap();
            assert_eq!(written, 2);
        }
        let kept = ["5aaa\n5bb\n", "4aaa\n4bb\n", "3aaa\n3bb\n"];
        let names = ["f", "f.1", "f.2"];
        let expected: Vec<_> = names
            .iter()
            .zip(kept)
            .map(|(n, text)| name(n, text))
            .collect();
        assert_eq!(read(folder.path()), expected);
        // Lines that do not fit into one file are split between two.
        file.append("1234\n5678\n90\n").1.unwrap();
        assert_eq!(
            read(folder.path())[..2],
            [name("f", "90\n"), name("f.1", "1234\n5678\n")]
        );
        file.limit(limits(10, 1));
        assert_eq!(read(folder.path()), [name("f", "90\n")]);
        file.append("123456\n").1.unwrap();
        file.append("abcdef\n").1.unwrap();
        assert_eq!(read(folder.path()), [name("f", "abcdef\n")]);
    }

    #[test]
    fn an_existing_file_is_continued_after_its_last_complete_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for (before, after) in [
            ("a\nb", "a\nc\n"),
            ("a\n", "a\nc\n"),
            ("half", "c\n"),
            ("", "c\n"),
        ] {
            fs::write(&path, before).unwrap();
            let mut file = LinesFile::open(&path, limits(100, 2)).unwrap();
            file.append("c\n").1.unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
        let long = format!("a\n{}", "b".repeat(200_000));
        fs::write(&path, long).unwrap();
        drop(LinesFile::open(&path, limits(1 << 20, 2)).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\n");
    }

    #[test]
    fn a_file_that_was_renamed_or_removed_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let mut file = LinesFile::open(&path, limits(100, 2)).unwrap();
        file.append("a\n").1.unwrap();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        file.append("b\n").1.unwrap();
        assert_eq!(
            read(folder.path()),
            [name("f", "b\n"), name("moved", "a\n")]
        );
        fs::remove_file(&path).unwrap();
        file.append("c\n").1.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "c\n");
    }

    #[test]
    fn only_a_regular_file_without_another_writer_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let open = |path: &Path| LinesFile::open(path, limits(100, 2)).map(drop);
        let refused = |path: &Path| open(path).unwrap_err().to_string();
        let first = LinesFile::open(&path, limits(100, 2)).unwrap();
        assert!(refused(&path).contains("another agent"));
        drop(first);
        open(&path).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refused(&link).contains("symbolic link"));
        open(folder.path()).unwrap_err();
        assert!(refused(Path::new("/dev/null")).contains("not a regular file"));
    }
}
