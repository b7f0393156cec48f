//! Many files as one capture, in the order of time.
//!
//! Whose next packet is the earliest comes next; a file whose own packets are out
//! of order stays in its own order. Rotated captures hardly overlap, so a file is
//! opened when its turn comes and closed at its end: there may be many more of
//! them than can be open at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::file::CaptureFile;
use super::file::damage::Damage;
use crate::packet::{Link, Packet};
use crate::stop;

/// Files to be merged. See the head of this module.
pub struct Merge {
    files: Vec<MergedFile>,
    /// When the next packet of each file was captured, and which file it is.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

/// One of the files.
struct MergedFile {
    path: PathBuf,
    reader: Option<CaptureFile>,
    /// A packet that was read before its turn.
    held: Option<Held>,
    /// What went wrong, for people.
    error: Option<String>,
}

/// A packet of its own.
struct Held {
    data: Vec<u8>,
    wire_len: u32,
    time: u64,
    link: Link,
}

/// Whoever takes the packets wants no more.
pub struct Enough;

impl Held {
    fn new(packet: &Packet<'_>) -> Self {
        Self {
            data: packet.data.to_vec(),
            wire_len: packet.wire_len,
            time: packet.time,
            link: packet.link,
        }
    }

    fn packet(&self) -> Packet<'_> {
        Packet {
            data: &self.data,
            wire_len: self.wire_len,
            time: self.time,
            link: self.link,
            interface: 0,
        }
    }
}

impl Merge {
    /// These files, none of which was read yet.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let file = |path| MergedFile {
            path,
            reader: None,
            held: None,
            error: None,
        };
        Self {
            files: paths.into_iter().map(file).collect(),
            heads: BinaryHeap::new(),
        }
    }

    /// What they are called together.
    pub fn title(&self) -> String {
        let name = |file: &MergedFile| file.path.display().to_string();
        match &self.files[..] {
            [] => String::new(),
            [only] => name(only),
            [first, .., last] => {
                let count = self.files.len();
                format!("{} … {} ({count} files)", name(first), name(last))
            }
        }
    }

    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Files that could not be read, or not to the end, and why.
    pub fn errors(&self) -> impl Iterator<Item = (&Path, &str)> {
        let files = self.files.iter();
        files.filter_map(|file| Some((file.path.as_path(), file.error.as_deref()?)))
    }

    /// Hands out all packets. An error comes from whoever takes them.
    pub fn deliver(
        &mut self,
        mut take: impl FnMut(&Packet<'_>) -> Result<(), Enough>,
    ) -> Result<(), Enough> {
        for (at, file) in self.files.iter_mut().enumerate() {
            let first = file.first();
            self.heads.extend(first.map(|time| Reverse((time, at))));
        }
        while let Some(Reverse((_, at))) = self.heads.pop() {
            let until = self.heads.peek().map(|Reverse((time, _))| *time);
            let next = self.files[at].deliver(until.unwrap_or(u64::MAX), &mut take)?;
            self.heads.extend(next.map(|time| Reverse((time, at))));
        }
        Ok(())
    }
}

impl MergedFile {
    /// When its first packet was captured; none if there is none.
    fn first(&mut self) -> Option<u64> {
        let mut reader = self.open()?;
        let held = match reader.next() {
            Ok(packet) => Held::new(&packet?),
            Err(damage) => {
                self.break_off(&reader, &damage);
                return None;
            }
        };
        let time = held.time;
        // A pipe cannot be read again.
        if reader.length().is_none() {
            (self.reader, self.held) = (Some(reader), Some(held));
        }
        Some(time)
    }

    fn open(&mut self) -> Option<CaptureFile> {
        let error = match CaptureFile::open(&self.path) {
            Ok(reader) => return Some(reader),
            Err(Damage::Io(error)) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
                "more files overlap in time than may be open at once: \
                 raise the limit (ulimit -n)"
                    .into()
            }
            Err(damage) => damage.to_string(),
        };
        self.error = Some(error);
        None
    }

    /// Hands out its next packet and those after it that are no later than
    /// `until`; when the one after them was captured, if there is one.
    fn deliver(
        &mut self,
        until: u64,
        take: &mut impl FnMut(&Packet<'_>) -> Result<(), Enough>,
    ) -> Result<Option<u64>, Enough> {
        let Some(mut reader) = self.reader.take().or_else(|| self.open()) else {
            return Ok(None);
        };
        if let Some(held) = self.held.take() {
            take(&held.packet())?;
        }
        loop {
            match reader.next() {
                Ok(Some(packet)) if packet.time <= until => take(&packet)?,
                Ok(Some(packet)) => {
                    let held = Held::new(&packet);
                    let time = held.time;
                    (self.reader, self.held) = (Some(reader), Some(held));
                    return Ok(Some(time));
                }
                Ok(None) => return Ok(None),
                Err(damage) => {
                    self.break_off(&reader, &damage);
                    return Ok(None);
                }
            }
        }
    }

    fn break_off(&mut self, reader: &CaptureFile, damage: &Damage) {
        // A pipe seems to end when a signal comes.
        if !stop::asked() {
            self.error = Some(reader.broken_off(damage));
        }
    }
}
