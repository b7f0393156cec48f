//! A file that lines are appended to. Before it would become too large it is renamed to
//! `FILE.1`, that one to `FILE.2` and so on; the oldest is removed.
//!
//! A file that somebody else has moved away is created again. What a failed write has left
//! of its lines is removed, so that a file never has half a line within it.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Readable by the group, unless the umask says otherwise.
const MODE: u32 = 0o640;
/// No file before it has a larger number.
const MOST_FILES: usize = 1000;

/// How large files become, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of each.
    pub bytes: u64,
    /// Files, with the one that is written to.
    pub files: usize,
}

/// See the head of this module.
pub struct LinesFile {
    path: PathBuf,
    file: File,
    limits: Limits,
}

impl LinesFile {
    /// Opens a file, which is created if there is none.
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

    /// Goes by other limits from now on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
        self.remove_old();
    }

    /// Appends whole lines: to one file if they fit into one. How many were written.
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

    /// Whether the file has another name now, or none.
    fn was_moved(&self) -> bool {
        let place = |meta: fs::Metadata| (meta.dev(), meta.ino());
        let open = self.file.metadata().map(place).ok();
        let named = fs::symlink_metadata(&self.path).map(place).ok();
        open.is_none() || open != named
    }

    /// Begins a new file.
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

    /// The nth file before this one.
    fn before(&self, n: usize) -> PathBuf {
        numbered(&self.path, n)
    }
}

/// The name of the nth file before this one.
pub fn numbered(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    name.into()
}

/// How many lines these are.
pub fn count(lines: &str) -> u64 {
    lines.bytes().filter(|byte| *byte == b'\n').count() as u64
}

/// Cuts lines into parts of whole lines, each as long as allowed.
fn parts(lines: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let end = match rest.len() <= most {
            true => rest.len(),
            // A line that is longer than a file is written nevertheless.
            false => match rest.as_bytes()[..most].iter().rposition(|b| *b == b'\n') {
                Some(end) => end + 1,
                None => rest.find('\n').map_or(rest.len(), |end| end + 1),
            },
        };
        let (part, behind) = rest.split_at(end);
        rest = behind;
        (!part.is_empty()).then_some(part)
    })
}

/// Opens a file to append lines: a regular file that no other agent writes to.
fn open(path: &Path) -> io::Result<File> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    // A link would be renamed in the place of its file, and a pipe would wait for a reader.
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

/// Removes what a power failure has left of a line at the end.
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
        // Longer than a file: cut between lines.
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
    fn what_is_there_is_continued_without_half_a_line() {
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
    fn a_file_that_was_moved_away_is_made_again() {
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
    fn only_a_regular_file_of_its_own_is_written_to() {
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
