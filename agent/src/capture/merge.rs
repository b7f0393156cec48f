//! Many files as one capture, in the order of time.
//!
//! Whose next packet is the earliest comes next; a file whose own packets are out
//! of order stays in its own order, and so does a packet that is stamped far ahead
//! of its neighbours. Rotated captures hardly overlap, so a file is
//! opened when its turn comes and closed at its end: there may be many more of
//! them than can be open at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::file::CaptureFile;
use super::file::damage::Damage;
use super::pace::is_leap;
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
    /// Packets that were read before their turn.
    held: VecDeque<Held>,
    /// When its last packet was captured that was not stamped wrongly.
    before: Option<u64>,
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

    /// Whether this one is far later than the next one of its file.
    fn is_ahead_of(&self, next: &Self) -> bool {
        next.time < self.time && is_leap(next.time, self.time)
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
            held: VecDeque::new(),
            before: None,
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
        let second = match reader.next() {
            Ok(second) => second.map(|packet| Held::new(&packet)),
            // It comes again when it is the file's turn.
            Err(_) => None,
        };
        let stray = second.as_ref().filter(|second| held.is_ahead_of(second));
        let time = stray.unwrap_or(&held).time;
        // A pipe cannot be read again.
        if reader.length().is_none() {
            self.reader = Some(reader);
            self.held.extend([held].into_iter().chain(second));
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
        loop {
            // The usual case first, in which nothing is copied.
            let next = match self.held.pop_front() {
                Some(held) => held,
                None => match reader.next() {
                    Ok(Some(packet)) if packet.time <= until => {
                        self.before = Some(packet.time);
                        take(&packet)?;
                        continue;
                    }
                    Ok(Some(packet)) => Held::new(&packet),
                    Ok(None) => return Ok(None),
                    Err(damage) => {
                        self.break_off(&reader, &damage);
                        return Ok(None);
                    }
                },
            };
            if next.time > until && !self.is_stray(&next, &mut reader) {
                let time = next.time;
                self.held.push_front(next);
                self.reader = Some(reader);
                return Ok(Some(time));
            }
            if next.time <= until {
                self.before = Some(next.time);
            }
            take(&next.packet())?;
        }
    }

    /// Whether a packet is stamped wrongly: the one after it goes on where the
    /// one before it was. Such a one must not keep all behind it waiting.
    fn is_stray(&mut self, packet: &Held, reader: &mut CaptureFile) -> bool {
        if self
            .before
            .is_some_and(|before| !is_leap(before, packet.time))
        {
            return false;
        }
        if self.held.is_empty()
            && let Ok(Some(after)) = reader.next()
        {
            self.held.push_back(Held::new(&after));
        }
        let after = self.held.front();
        after.is_some_and(|after| packet.is_ahead_of(after))
    }

    fn break_off(&mut self, reader: &CaptureFile, damage: &Damage) {
        // A pipe seems to end when a signal comes.
        if !stop::asked() {
            self.error = Some(reader.broken_off(damage));
        }
    }
}
