//! `crane-agent replay`: capture files through the same pipeline.

use std::collections::HashSet;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::configure;
use crate::capture::file::CaptureFile;
use crate::capture::file::folder;
use crate::capture::file::input::STDIN;
use crate::capture::pace::{Extent, Pace};
use crate::cli::{Replay, ReplayWindow, ReportFormat, Speed};
use crate::http::{self, Source};
use crate::packet::Packet;
use crate::report::{CaptureReport, Report};
use crate::sketch::pipeline::{Key, Pipeline, Purpose};
use crate::sketch::ring::Tap;
use crate::stop::{self, Hangup};

/// Packets between two looks at the progress bar.
const BAR_EVERY: u64 = 1 << 16;
/// Pause between the last packet of a file and its first when it is looped.
const LOOP_GAP: u64 = 1_000_000;

/// Replays the files one after the other and reports on each.
pub fn run(args: &Replay, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let mut config = configure(args.config.as_ref(), &args.sketch)?;
    config.export.listen = args.listen.unwrap_or(config.export.listen);
    let top = args.top.map_or(config.export.top, NonZero::get);
    let paths = folder::find(&args.files)?;
    if args.repeat {
        refuse_pipes(&paths)?;
    }
    anyhow::ensure!(
        !args.verify || config.capture.sample == 1,
        "--verify needs every packet: set capture.sample = 1"
    );
    let stop = stop::on_signal(Hangup::Ends)?;
    let listeners = args.serve.then(|| http::bind(&config.export)).transpose()?;

    let purpose = Purpose::Replay {
        window: match args.window {
            ReplayWindow::Whole => None,
            ReplayWindow::Length(length) => Some(length),
        },
        history: !args.repeat,
        exactly: args.verify,
        serve: args.serve,
        sketch: !args.no_sketch,
    };
    let start = Instant::now();
    let mut pipeline = Pipeline::start(&config, purpose, top, &Key::of_seed(args.sketch.seed()))?;
    if let Some(listeners) = listeners {
        let address = listeners.address()?;
        let source = Source {
            exporter: pipeline.export()?,
            snapshot: Arc::clone(&pipeline.snapshot),
            desk: pipeline.desk.clone(),
        };
        http::serve(listeners, source)?;
        tracing::info!("metrics are at http://{address}/metrics");
    }

    let mut player = Player {
        pipeline,
        speed: args.speed,
        stop,
        names: HashSet::new(),
    };
    let mut files: Vec<File> = paths.into_iter().map(File::new).collect();
    let mut captures = Vec::new();
    loop {
        for file in &mut files {
            player.play(file);
            if !args.repeat {
                captures.extend(player.end(file)?);
            }
        }
        let useless = files.iter().all(|file| file.error.is_some());
        if !args.repeat || useless || stop.load(Relaxed) || player.pipeline.has_ended() {
            break;
        }
    }
    if args.repeat {
        for file in &mut files {
            captures.extend(player.end(file)?);
        }
    }
    let report = Report::new(captures, start.elapsed());
    match args.format {
        ReportFormat::Json => report.write_json(out)?,
        ReportFormat::Table => report.write_table(out)?,
    }
    out.flush()?;
    for file in &files {
        if let Some(error) = &file.error {
            crate::log::fatal(&anyhow::anyhow!("{}: {error}", file.path.display()));
        }
    }
    if args.serve && !args.repeat {
        tracing::info!("all packets replayed; serving until stopped");
        while !stop::wait(stop, Duration::from_secs(3600)) {}
    }
    player.pipeline.finish(None)?;
    let failed = files.iter().any(|file| file.error.is_some());
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// What is read once cannot be looped.
fn refuse_pipes(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        let is_pipe = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        anyhow::ensure!(
            !is_pipe && path != Path::new(STDIN),
            "{}: --loop needs files, which can be read again",
            path.display()
        );
    }
    Ok(())
}

/// A file on its way, with a lane for each of its interfaces that has packets:
/// captures describe dozens and use one.
struct File {
    path: PathBuf,
    /// By their position in the file.
    interfaces: Vec<Option<Interface>>,
    /// What went wrong, for people.
    error: Option<String>,
    /// Added to packet times, so that a loop does not turn time back.
    shift: u64,
}

struct Interface {
    lane: String,
    name: Option<String>,
    tap: Option<Tap>,
}

impl File {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            interfaces: Vec::new(),
            error: None,
            shift: 0,
        }
    }

    /// Passes on what the taps still hold. A worker that is gone says itself
    /// why.
    fn hand_over(&mut self) {
        for interface in self.interfaces.iter_mut().flatten() {
            let _ = interface.tap.as_mut().map(Tap::deliver_all);
        }
    }

    #[inline]
    fn tap(&mut self, interface: u32) -> Option<&mut Tap> {
        let interface = self.interfaces.get_mut(interface as usize)?;
        interface.as_mut()?.tap.as_mut()
    }
}

struct Player<'a> {
    pipeline: Pipeline,
    speed: Speed,
    stop: &'a AtomicBool,
    names: HashSet<String>,
}

impl Player<'_> {
    /// Delivers all packets of a file.
    fn play(&mut self, file: &mut File) {
        let mut extent = Extent::default();
        file.error = self.deliver(file, &mut extent).err();
        file.hand_over();
        let length = extent.length();
        file.shift = file.shift.saturating_add(length).saturating_add(LOOP_GAP);
    }

    fn deliver(&mut self, file: &mut File, extent: &mut Extent) -> Result<(), String> {
        let mut capture = CaptureFile::open(&file.path).map_err(|damage| damage.to_string())?;
        let bar = bar(capture.length());
        let mut pace = Pace::new(self.speed);
        while !self.stop.load(Relaxed) {
            let packet = match capture.next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                // A pipe seems to end when a signal comes.
                Err(_) if self.stop.load(Relaxed) => break,
                Err(damage) => {
                    let (packet, byte) = (capture.packets() + 1, capture.offset());
                    return Err(format!(
                        "{damage} (at byte {byte}, in packet {packet}); everything before is counted"
                    ));
                }
            };
            extent.add(packet.time);
            if let Some(early) = pace.early(packet.time) {
                file.hand_over();
                stop::wait(self.stop, early);
            }
            let time = packet.time.saturating_add(file.shift);
            let packet = Packet { time, ..packet };
            let delivered = match file.tap(packet.interface) {
                Some(tap) => tap.deliver(&packet),
                None => {
                    // The first packet of an interface. It has to let go of
                    // the file, which knows the name of the interface.
                    let data = packet.data.to_vec();
                    let Packet {
                        wire_len,
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
                    self.open_lane(file, interface, name)?.deliver(&packet)
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
            self.open_lane(file, 0, name)?;
        }
        Ok(())
    }

    /// Makes a lane for the interface that is at this position of the file.
    fn open_lane<'a>(
        &mut self,
        file: &'a mut File,
        position: u32,
        name: Option<String>,
    ) -> Result<&'a mut Tap, String> {
        let path = file.path.display();
        let lane = match &name {
            Some(name) => format!("{path}:{name}"),
            None => path.to_string(),
        };
        let lane = self.unique(lane);
        let tap = self.pipeline.add(&lane);
        let tap = tap.map_err(|error| format!("{error:#}"))?;
        tap.tally().up.store(true, Relaxed);
        let position = position as usize;
        if file.interfaces.len() <= position {
            file.interfaces.resize_with(position + 1, || None);
        }
        let interface = file.interfaces[position].insert(Interface {
            lane,
            name,
            tap: None,
        });
        Ok(interface.tap.insert(tap))
    }

    /// Labels have to differ, also where a file is given twice.
    fn unique(&mut self, name: String) -> String {
        let numbered = (2..).map(|n: u32| format!("{name}#{n}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let free = names.find(|name| self.names.insert(name.clone()));
        free.unwrap_or(name)
    }

    /// Waits until the sketch has all packets of a file, and reports on it.
    fn end(&mut self, file: &mut File) -> anyhow::Result<Vec<CaptureReport>> {
        let path = file.path.display().to_string();
        if let ([], Some(error)) = (&file.interfaces[..], &file.error) {
            return Ok(vec![CaptureReport::unreadable(path, error.clone())]);
        }
        for interface in file.interfaces.iter_mut().flatten() {
            if let Some(tap) = interface.tap.take() {
                tap.tally().up.store(false, Relaxed);
            }
        }
        let mut ended = Vec::new();
        for _ in file.interfaces.iter().flatten() {
            ended.push(self.pipeline.wait_for_end()?);
        }
        let report = |interface: &Interface| {
            let summary = ended
                .iter()
                .find(|summary| summary.name == interface.lane)?;
            let name = interface.name.clone();
            Some(CaptureReport::new(
                path.clone(),
                name,
                summary,
                file.error.clone(),
            ))
        };
        let interfaces = file.interfaces.iter().flatten();
        Ok(interfaces.filter_map(report).collect())
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
