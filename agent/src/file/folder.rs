//! Finds capture files in directories.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::CaptureFile;
use super::input::STDIN;

/// Replaces every directory by the captures in it, at any depth and sorted by name. The
/// content of a file decides whether it is a capture; hidden files are skipped. Paths of
/// files are returned unchanged.
pub fn find(paths: &[PathBuf]) -> anyhow::Result<FoundFiles> {
    let mut found = FoundFiles::default();
    for path in paths {
        if path == Path::new(STDIN) || !path.is_dir() {
            found.captures.push(path.clone());
            continue;
        }
        let (before, others) = (found.captures.len(), found.skipped.len());
        let mut walk = Walk {
            seen: HashSet::from([identity(&fs::metadata(path)?)]),
            found: &mut found,
        };
        walk.directory(path)
            .with_context(|| format!("{}: the directory cannot be read", path.display()))?;
        if found.captures.len() == before {
            let folder = path.display();
            match &found.skipped[others..] {
                [] => bail!("{folder}: no capture in this directory"),
                [(other, why), ..] => bail!(
                    "{folder}: no capture in this directory; {}: {why}",
                    other.display()
                ),
            }
        }
    }
    Ok(found)
}

/// Result of a search.
#[derive(Debug, Default)]
pub struct FoundFiles {
    /// Captures, and all paths of files that were given.
    pub captures: Vec<PathBuf>,
    /// Files that are not captures or cannot be read, with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

struct Walk<'a> {
    /// Directories that were visited: symbolic links may form a cycle.
    seen: HashSet<(u64, u64)>,
    found: &'a mut FoundFiles,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path) -> std::io::Result<()> {
        let entries: Result<Vec<_>, _> = fs::read_dir(directory)?.collect();
        let mut names: Vec<_> = entries?.iter().map(fs::DirEntry::file_name).collect();
        names.sort();
        for name in names {
            if !name.as_encoded_bytes().starts_with(b".") {
                self.entry(directory.join(name));
            }
        }
        Ok(())
    }

    /// Adds a file or directory. One that cannot be read is skipped, because the others may
    /// be readable.
    fn entry(&mut self, path: PathBuf) {
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) => return self.skip(path, &error),
        };
        if !self.seen.insert(identity(&meta)) {
            return;
        }
        if meta.is_dir() {
            if let Err(error) = self.directory(&path) {
                self.skip(path, &error);
            }
        } else if meta.is_file() {
            match CaptureFile::open(&path) {
                Ok(_) => self.found.captures.push(path),
                Err(damage) => self.skip(path, &damage),
            }
        }
    }

    fn skip(&mut self, path: PathBuf, why: &dyn std::fmt::Display) {
        self.found.skipped.push((path, why.to_string()));
    }
}

/// Device and inode, which all names of the same file share.
fn identity(meta: &fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
mod tests {
    use super::super::order::Order;
    use super::super::testing;
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn captures_are_found_by_content_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let capture = || testing::pcap(Order::Little, 0xa1b2_c3d4, 0, &[]);
        for (name, content) in [
            ("b.txt", capture()),
            ("a", zstd::encode_all(&capture()[..], 1).unwrap()),
            ("c/inner.pcap", capture()),
            ("c/.hidden.pcap", capture()),
            (".hidden/d.pcap", capture()),
            ("notes.pcap", b"not a capture at all".to_vec()),
            ("empty.pcap", Vec::new()),
            ("only/notes", b"text".to_vec()),
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        symlink(root, root.join("c/loop")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink(root.join("b.txt"), root.join("latest")).unwrap();
        let fifo = root.join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());

        let expected = ["a", "b.txt", "c/inner.pcap"].map(|name| root.join(name));
        let found = find(&[root.to_owned()]).unwrap();
        assert_eq!(found.captures, expected);
        let skipped = found.skipped.iter().map(|(path, _)| path.as_path());
        let others = ["dangling", "empty.pcap", "notes.pcap", "only/notes"];
        assert!(skipped.eq(others.map(|name| root.join(name))));

        let named = [
            root.join("notes.pcap"),
            PathBuf::from("-"),
            root.join("missing"),
        ];
        assert_eq!(
            find(&named).unwrap().captures,
            named,
            "what is named is kept"
        );

        let error = find(&[root.join("only")]).unwrap_err().to_string();
        assert!(error.contains("only: no capture"), "{error}");
    }
}
