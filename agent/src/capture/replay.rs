//! Replaying capture files: each packet goes where a live one would go.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressStyle};

use super::file::CaptureFile;
use super::filter::FileFilter;
use super::merge::{Enough, Merge};
use super::pace::{Extent, Pace, Speed};
use super::sink::PacketSink;
use crate::config;
use crate::packet::Packet;
use crate::sketch::pipeline::Pipeline;
use crate::sketch::ring::WorkerGone;
use crate::sketch::summary::Summary;
use crate::sketch::window::Bounds;
use crate::stop;

/// Packets between two looks at the progress bar.
const BAR_EVERY: u64 = 1 << 16;
/// Pause between the last packet of a file and its first when it is looped.
const LOOP_GAP: u64 = 1_000_000;

/// A file on its way. Only those of its interfaces that have packets are added:
/// captures describe dozens and use one.
pub struct ReplayFile {
    path: PathBuf,
    /// By their position in the file.
    interfaces: Vec<Option<FileInterface>>,
    /// What went wrong, for people.
    error: Option<String>,
    /// Added to packet times, so that a loop does not turn time back.
    shift: u64,
}

struct FileInterface {
    /// What the sketch knows it by.
    label: String,
    /// What the file calls it.
    name: Option<String>,
    sink: Option<PacketSink>,
    extent: Extent,
}

impl FileInterface {
    /// Fails if the worker is gone, or the file has ended.
    #[inline]
    fn deliver(&mut self, packet: &Packet<'_>) -> Result<(), WorkerGone> {
        self.extent.add(packet.time);
        let sink = self.sink.as_mut().ok_or(WorkerGone)?;
        sink.deliver(packet)
    }
}

impl ReplayFile {
    /// A file that was not read yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            interfaces: Vec::new(),
            error: None,
            shift: 0,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What went wrong, for people.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Passes on what the sinks still hold. A worker that is gone says itself
    /// why.
    fn hand_over(&mut self) {
        for interface in self.interfaces.iter_mut().flatten() {
            let _ = interface.sink.as_mut().map(PacketSink::deliver_all);
        }
    }

    /// From the first packet of the first time it was played to the last of this
    /// time, in nanoseconds.
    fn length(&self) -> u64 {
        let interfaces = self.interfaces.iter().flatten();
        let ends = interfaces.filter_map(|interface| interface.extent.confirmed());
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

/// Files on their way into a pipeline.
pub struct Replay<'a> {
    pipeline: Pipeline,
    config: config::Capture,
    filter: Option<FileFilter>,
    speed: Speed,
    stop: &'a AtomicBool,
    /// Names that are taken.
    names: HashSet<String>,
}

/// An interface of a file that has ended.
pub struct Ended {
    /// What the file calls it.
    pub interface: Option<String>,
    /// When its first packet was captured, and its last; none without packets.
    pub ends: Option<Bounds>,
    /// What is known of it.
    pub summary: Summary,
}

impl<'a> Replay<'a> {
    /// Replays at this speed until `stop`.
    pub fn new(
        pipeline: Pipeline,
        config: config::Capture,
        speed: Speed,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            pipeline,
            filter: config.filter.clone().map(FileFilter::new),
            config,
            speed,
            stop,
            names: HashSet::new(),
        }
    }

    /// Where the packets go.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Waits for the end of everything.
    pub fn finish(self) -> anyhow::Result<()> {
        self.pipeline.finish(None).map(drop)
    }

    /// Delivers all packets of a file.
    pub fn play(&mut self, file: &mut ReplayFile) {
        // It may have been played before.
        let interfaces = file.interfaces.iter_mut().flatten();
        interfaces.for_each(|interface| interface.extent.part());
        file.error = self.deliver(file).err();
        file.hand_over();
        file.shift = file.length().saturating_add(LOOP_GAP);
    }

    fn deliver(&mut self, file: &mut ReplayFile) -> Result<(), String> {
        let mut capture = CaptureFile::open(&file.path).map_err(|damage| damage.to_string())?;
        let bar = bar(capture.length());
        let mut pace = Pace::new(self.speed);
        while !self.stop.load(Relaxed) {
            let mut packet = match capture.next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                // A pipe seems to end when a signal comes.
                Err(_) if self.stop.load(Relaxed) => break,
                Err(damage) => return Err(capture.broken_off(&damage)),
            };
            if let Some(filter) = &mut self.filter
                && !filter.keeps(&packet)?
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
                    // The first packet of an interface. It has to let go of
                    // the file, which knows the name of the interface.
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
                break; // the worker has ended and says why
            }
            if capture.packets() % BAR_EVERY == 0 {
                bar.set_position(capture.position());
            }
        }
        bar.finish_and_clear();
        if file.interfaces.is_empty() {
            // A file without packets is still one that was read.
            let name = match capture.interfaces() {
                [only] => only.name.clone(),
                _ => None,
            };
            self.open_interface(file, 0, name)?;
        }
        Ok(())
    }

    /// Delivers the packets of many files as those of one capture.
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
        // Whoever ends it early knows why: a signal, or a worker that has ended.
        let mut refused = None;
        let _ = files.deliver(|packet| {
            if let Some(filter) = &mut self.filter {
                match filter.keeps(packet) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(reason) => {
                        refused = Some(reason);
                        return Err(Enough);
                    }
                }
            }
            if let Some(early) = pace.early(packet.time) {
                capture.hand_over();
                stop::wait(self.stop, early);
            }
            if self.stop.load(Relaxed) {
                return Err(Enough);
            }
            let interface = capture.interface(0).ok_or(Enough)?;
            interface.deliver(packet).map_err(|_| Enough)?;
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

    /// Adds the interface that is at this position of the file.
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
            extent: Extent::default(),
        }))
    }

    /// Labels have to differ, also where a file is given twice.
    fn unique(&mut self, name: String) -> String {
        let numbered = (2..).map(|n: u32| format!("{name}#{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| self.names.insert(name.clone()));
        free.unwrap_or(name)
    }

    /// Waits until the sketch has all packets of a file; what is known of each
    /// of its interfaces.
    pub fn end(&mut self, file: &mut ReplayFile) -> anyhow::Result<Vec<Ended>> {
        for interface in file.interfaces.iter_mut().flatten() {
            if let Some(sink) = interface.sink.take() {
                sink.tally().up.store(false, Relaxed);
            }
        }
        let mut summaries = HashMap::new();
        for _ in file.interfaces.iter().flatten() {
            let summary = self.pipeline.wait_for_end()?;
            summaries.insert(summary.name.clone(), summary);
        }
        let ended = |interface: &FileInterface| {
            Some(Ended {
                interface: interface.name.clone(),
                ends: interface.extent.ends(),
                summary: summaries.remove(&interface.label)?,
            })
        };
        Ok(file.interfaces.iter().flatten().filter_map(ended).collect())
    }
}

/// A progress bar, or a spinner where the length is unknown; hidden unless
/// standard error is a terminal.
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
