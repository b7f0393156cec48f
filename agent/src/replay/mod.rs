//! Replays capture files: packets are processed like those of a live capture. [`pace`] keeps
//! the intervals between packets, [`merge`] reads several files as one capture, and
//! [`synthetic`] writes sample captures.

pub mod merge;
pub mod pace;
pub mod synthetic;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressStyle};
use merge::{Merge, MergeStopped};
use pace::{Pace, Speed, TimeSpan};

use crate::capture::sink::PacketSink;
use crate::config;
use crate::file::CaptureFile;
use crate::filter::FileFilter;
use crate::process::stop;
use crate::ring::edge_ring::WorkerGone;
use crate::ring::pipeline::Pipeline;
use crate::traffic::packet::Packet;
use crate::window::Bounds;
use crate::window::windows::Ended;

/// Packets between two updates of the progress bar.
const BAR_EVERY: u64 = 1 << 16;
/// Time between the last packet of a file and its first one if it is replayed in a loop, in
/// nanoseconds.
const LOOP_GAP: u64 = 1_000_000;

/// A file being replayed. Only interfaces with packets are added, because captures may describe
/// dozens of interfaces and have packets of one.
pub struct ReplayFile {
    path: PathBuf,
    /// Interfaces by their position in the file.
    interfaces: Vec<Option<FileInterface>>,
    /// Error message, if the file could not be read completely.
    error: Option<String>,
    /// Added to packet times, so that time continues when a file is looped.
    shift: u64,
}

struct FileInterface {
    /// Unique name in the pipeline.
    label: String,
    /// Name in the file.
    name: Option<String>,
    sink: Option<PacketSink>,
    span: TimeSpan,
}

impl FileInterface {
    /// Returns an error if the worker or the file has ended.
    #[inline]
    fn deliver(&mut self, packet: &Packet<'_>) -> Result<(), WorkerGone> {
        self.span.add(packet.time);
        let sink = self.sink.as_mut().ok_or(WorkerGone)?;
        sink.deliver(packet)
    }
}

impl ReplayFile {
    /// A file that has not been read yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            interfaces: Vec::new(),
            error: None,
            shift: 0,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Error message, if the file could not be read completely.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Writes pending packets to the rings. If the worker has ended, it reports the reason
    /// itself.
    fn hand_over(&mut self) {
        for interface in self.interfaces.iter_mut().flatten() {
            let _ = interface.sink.as_mut().map(PacketSink::deliver_all);
        }
    }

    /// Time from the first packet of the first replay to the last packet of this one, in
    /// nanoseconds.
    fn length(&self) -> u64 {
        let interfaces = self.interfaces.iter().flatten();
        let ends = interfaces.filter_map(|interface| interface.span.confirmed());
        let ends = ends.reduce(|one, other| Bounds {
            start: one.start.min(other.start),
            end: one.end.max(other.end),
        });
        ends.map_or(0, |ends| ends.end - ends.start)
    }

    #[inline]
    fn interface(&mut self, position: u32) -> Option<&mut FileInterface> {
        self.interfaces.get_mut(position as usize)?.as_mut()
    }
}

/// Replays files into a pipeline.
pub struct Replay<'a> {
    pipeline: Pipeline,
    config: config::Capture,
    filter: Option<FileFilter>,
    speed: Speed,
    /// Whether a thread reads ahead.
    read_ahead: bool,
    stop: &'a AtomicBool,
    /// Names that are already used.
    names: HashSet<String>,
}

/// An interface of a file that has ended.
pub struct EndedInterface {
    /// Name in the file.
    pub interface: Option<String>,
    /// Times of the first and the last packet. `None` without packets.
    pub times: Option<Bounds>,
    pub ended: Ended,
}

impl<'a> Replay<'a> {
    /// Replays at this speed with so many threads until `stop` is set.
    pub fn new(
        pipeline: Pipeline,
        config: config::Capture,
        speed: Speed,
        jobs: usize,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            pipeline,
            filter: config.filter.clone().map(FileFilter::new),
            config,
            speed,
            read_ahead: jobs > 1,
            stop,
            names: HashSet::new(),
        }
    }

    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Waits until the pipeline has ended.
    pub fn finish(self) -> anyhow::Result<()> {
        self.pipeline.finish(None).map(drop)
    }

    /// Replays all packets of a file.
    pub fn play(&mut self, file: &mut ReplayFile) {
        // The file may have been replayed before.
        let interfaces = file.interfaces.iter_mut().flatten();
        interfaces.for_each(|interface| interface.span.separate());
        file.error = self.deliver(file).err();
        file.hand_over();
        file.shift = file.length().saturating_add(LOOP_GAP);
    }

    fn deliver(&mut self, file: &mut ReplayFile) -> Result<(), String> {
        let opened = match self.read_ahead {
            true => CaptureFile::open_ahead(&file.path),
            false => CaptureFile::open(&file.path),
        };
        let mut capture = opened.map_err(|damage| damage.to_string())?;
        let bar = bar(capture.length());
        let mut pace = Pace::new(self.speed);
        while !self.stop.load(Relaxed) {
            let mut packet = match capture.next_packet() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                // A signal makes a pipe appear to end.
                Err(_) if self.stop.load(Relaxed) => break,
                Err(damage) => return Err(capture.broken_off(&damage)),
            };
            if let Some(filter) = &mut self.filter
                && !filter.accepts(&packet)?
            {
                continue;
            }
            if let Some(early) = pace.early(packet.time) {
                file.hand_over();
                stop::wait(self.stop, early);
            }
            packet.time = packet.time.saturating_add(file.shift);
            let delivered = match file.interface(packet.interface) {
                Some(interface) => interface.deliver(&packet),
                None => {
                    // First packet of an interface. It is copied to release the borrow of
                    // the file, which has the name of the interface.
                    let data = packet.data.to_vec();
                    let Packet {
                        wire_len,
                        time,
                        link,
                        interface,
                        ..
                    } = packet;
                    let name = capture.interfaces().get(interface as usize);
                    let name = name.and_then(|interface| interface.name.clone());
                    let packet = Packet {
                        data: &data,
                        wire_len,
                        time,
                        link,
                        interface,
                    };
                    self.open_interface(file, interface, name)?.deliver(&packet)
                }
            };
            if delivered.is_err() {
                break; // the worker has ended and reports the reason itself
            }
            if capture.packets() % BAR_EVERY == 0 {
                bar.set_position(capture.position());
            }
        }
        bar.finish_and_clear();
        if file.interfaces.is_empty() {
            // A file without packets is reported, too.
            let name = match capture.interfaces() {
                [only] => only.name.clone(),
                _ => None,
            };
            self.open_interface(file, 0, name)?;
        }
        Ok(())
    }

    /// Replays several files as one capture.
    pub fn play_merged(&mut self, capture: &mut ReplayFile, files: &mut Merge) {
        capture.error = self.deliver_merged(capture, files).err();
        capture.hand_over();
    }

    fn deliver_merged(
        &mut self,
        capture: &mut ReplayFile,
        files: &mut Merge,
    ) -> Result<(), String> {
        self.open_interface(capture, 0, None)?;
        let bar = bar(None);
        let mut pace = Pace::new(self.speed);
        let (mut packets, mut bytes) = (0u64, 0);
        // An early end has a cause that is reported elsewhere: a signal, or a worker that
        // has ended.
        let mut refused = None;
        let _ = files.deliver(|packet| {
            if let Some(filter) = &mut self.filter {
                match filter.accepts(packet) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(reason) => {
                        refused = Some(reason);
                        return Err(MergeStopped);
                    }
                }
            }
            if let Some(early) = pace.early(packet.time) {
                capture.hand_over();
                stop::wait(self.stop, early);
            }
            if self.stop.load(Relaxed) {
                return Err(MergeStopped);
            }
            let interface = capture.interface(0).ok_or(MergeStopped)?;
            interface.deliver(packet).map_err(|_| MergeStopped)?;
            packets += 1;
            bytes += packet.data.len() as u64;
            if packets % BAR_EVERY == 0 {
                bar.set_position(bytes);
            }
            Ok(())
        });
        bar.finish_and_clear();
        if let Some(reason) = refused {
            return Err(reason);
        }
        let errors = files.errors();
        let errors = errors.map(|(path, error)| format!("{}: {error}", path.display()));
        let errors: Vec<String> = errors.collect();
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors.join("; ")),
        }
    }

    /// Adds the interface at this position of the file to the pipeline.
    fn open_interface<'f>(
        &mut self,
        file: &'f mut ReplayFile,
        position: u32,
        name: Option<String>,
    ) -> Result<&'f mut FileInterface, String> {
        let path = file.path.display();
        let label = match &name {
            Some(name) => format!("{path}:{name}"),
            None => path.to_string(),
        };
        let label = self.unique(label);
        let writer = self.pipeline.add(&label);
        let writer = writer.map_err(|error| format!("{error:#}"))?;
        let sink = PacketSink::new(writer, &self.config);
        sink.tally().up.store(true, Relaxed);
        let position = position as usize;
        if file.interfaces.len() <= position {
            file.interfaces.resize_with(position + 1, || None);
        }
        Ok(file.interfaces[position].insert(FileInterface {
            label,
            name,
            sink: Some(sink),
            span: TimeSpan::default(),
        }))
    }

    /// Makes a name unique, because a file may be given twice.
    fn unique(&mut self, name: String) -> String {
        let numbered = (2..).map(|n: u32| format!("{name}#{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| self.names.insert(name.clone()));
        free.unwrap_or(name)
    }

    /// Waits until all packets of a file are stored. Returns the result of each of its
    /// interfaces.
    pub fn end(&mut self, file: &mut ReplayFile) -> anyhow::Result<Vec<EndedInterface>> {
        for interface in file.interfaces.iter_mut().flatten() {
            if let Some(sink) = interface.sink.take() {
                sink.tally().up.store(false, Relaxed);
            }
        }
        let mut known = HashMap::new();
        for _ in file.interfaces.iter().flatten() {
            let ended = self.pipeline.wait_for_end()?;
            known.insert(ended.name.clone(), ended);
        }
        let ended = |interface: &FileInterface| {
            Some(EndedInterface {
                interface: interface.name.clone(),
                times: interface.span.ends(),
                ended: known.remove(&interface.label)?,
            })
        };
        Ok(file.interfaces.iter().flatten().filter_map(ended).collect())
    }
}

/// A progress bar, or a spinner if the length is unknown. Hidden unless standard error is a
/// terminal.
fn bar(bytes: Option<u64>) -> ProgressBar {
    let (bar, template) = match bytes {
        Some(bytes) => (
            ProgressBar::new(bytes),
            "{bar:40} {bytes}/{total_bytes} {eta}",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {elapsed}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
