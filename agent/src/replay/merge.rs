//! Reads several files as one capture in the order of time.
//!
//! The next packet is the earliest of the next packets of all files. Packets of one file keep
//! their order, even if their timestamps are not in order, and one timestamp far in the future
//! does not delay the packets after it. Rotated captures hardly overlap, so a file is
//! opened when its first packet is due and closed at its end: there may be more files than
//! can be open at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::pace::is_leap;
use crate::file::CaptureFile;
use crate::file::damage::Damage;
use crate::process::stop;
use crate::traffic::packet::{Link, Packet};

/// Files to be merged.
pub struct Merge {
    files: Vec<MergedFile>,
    /// Time of the next packet of each file, and the index of the file.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

struct MergedFile {
    path: PathBuf,
    reader: Option<CaptureFile>,
    /// Packets that were read ahead.
    read_ahead: VecDeque<OwnedPacket>,
    /// Time of its last packet with a plausible timestamp.
    before: Option<u64>,
    /// Error message, if the file could not be read completely.
    error: Option<String>,
}

/// A copy of a packet.
struct OwnedPacket {
    data: Vec<u8>,
    wire_len: u32,
    time: u64,
    link: Link,
}

/// Returned by the receiver of packets to end the merge.
pub struct MergeStopped;

impl OwnedPacket {
    fn new(packet: &Packet<'_>) -> Self {
        Self {
            data: packet.data.to_vec(),
            wire_len: packet.wire_len,
            time: packet.time,
            link: packet.link,
        }
    }

    /// Whether this packet is much later than the next one of its file.
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
    /// Prepares to merge these files. No file is read yet.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let file = |path| MergedFile {
            path,
            reader: None,
            read_ahead: VecDeque::new(),
            before: None,
            error: None,
        };
        Self {
            files: paths.into_iter().map(file).collect(),
            heads: BinaryHeap::new(),
        }
    }

    /// A title for all files.
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

    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Files that could not be read completely, with the reason.
    pub fn errors(&self) -> impl Iterator<Item = (&Path, &str)> {
        let files = self.files.iter();
        files.filter_map(|file| Some((file.path.as_path(), file.error.as_deref()?)))
    }

    /// Passes all packets to `take`. Returns the error of that function, if any.
    pub fn deliver(
        &mut self,
        mut take: impl FnMut(&Packet<'_>) -> Result<(), MergeStopped>,
    ) -> Result<(), MergeStopped> {
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
    /// Reads the time of the first packet. `None` if there is no packet.
    fn first(&mut self) -> Option<u64> {
        let mut reader = self.open()?;
        let read_ahead = match reader.next_packet() {
            Ok(packet) => OwnedPacket::new(&packet?),
            Err(damage) => {
                self.break_off(&reader, &damage);
                return None;
            }
        };
        let second = match reader.next_packet() {
            Ok(second) => second.map(|packet| OwnedPacket::new(&packet)),
            // The error occurs again, and is reported, when the file is read.
            Err(_) => None,
        };
        let stray = second
            .as_ref()
            .filter(|second| read_ahead.is_ahead_of(second));
        let time = stray.unwrap_or(&read_ahead).time;
        // A pipe cannot be opened again.
        if reader.length().is_none() {
            self.reader = Some(reader);
            self.read_ahead
                .extend([read_ahead].into_iter().chain(second));
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

    /// Passes on the next packet and all after it that are not later than `until`. Returns
    /// the time of the packet after them, if there is one.
    fn deliver(
        &mut self,
        until: u64,
        take: &mut impl FnMut(&Packet<'_>) -> Result<(), MergeStopped>,
    ) -> Result<Option<u64>, MergeStopped> {
        let Some(mut reader) = self.reader.take().or_else(|| self.open()) else {
            return Ok(None);
        };
        loop {
            // In the common case the packet is passed on without a copy.
            let next = match self.read_ahead.pop_front() {
                Some(read_ahead) => read_ahead,
                None => match reader.next_packet() {
                    Ok(Some(packet)) if packet.time <= until => {
                        self.before = Some(packet.time);
                        take(&packet)?;
                        continue;
                    }
                    Ok(Some(packet)) => OwnedPacket::new(&packet),
                    Ok(None) => return Ok(None),
                    Err(damage) => {
                        self.break_off(&reader, &damage);
                        return Ok(None);
                    }
                },
            };
            if next.time > until && !self.is_stray(&next, &mut reader) {
                let time = next.time;
                self.read_ahead.push_front(next);
                self.reader = Some(reader);
                return Ok(Some(time));
            }
            if next.time <= until {
                self.before = Some(next.time);
            }
            take(&next.packet())?;
        }
    }

    /// Whether the timestamp of a packet is wrong: it is far from the packet before, and much later
    /// than the packet after. Such a packet must not delay all packets after it.
    fn is_stray(&mut self, packet: &OwnedPacket, reader: &mut CaptureFile) -> bool {
        if self
            .before
            .is_some_and(|before| !is_leap(before, packet.time))
        {
            return false;
        }
        if self.read_ahead.is_empty()
            && let Ok(Some(after)) = reader.next_packet()
        {
            self.read_ahead.push_back(OwnedPacket::new(&after));
        }
        let after = self.read_ahead.front();
        after.is_some_and(|after| packet.is_ahead_of(after))
    }

    fn break_off(&mut self, reader: &CaptureFile, damage: &Damage) {
        // A signal makes a pipe appear to end.
        if !stop::is_requested() {
            self.error = Some(reader.broken_off(damage));
        }
    }
}
