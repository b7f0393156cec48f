//! `crane-agent replay`: capture files through the same pipeline.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::configure;
use crate::capture::damage::Damage;
use crate::capture::file::CaptureFile;
use crate::capture::folder;
use crate::cli::{Replay, ReportFormat, Speed};
use crate::pipeline::Pipeline;
use crate::report::Report;
use crate::ring::Tap;
use crate::worker::Cut;
use crate::{http, stop};

/// Replays the files one after the other and reports on each.
pub fn run(args: &Replay, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let mut config = configure(args.config.as_deref(), &args.sketch)?;
    config.export.listen = args.listen.unwrap_or(config.export.listen);
    let stop = stop::on_signal()?;
    let listener = args
        .serve
        .then(|| http::bind(config.export.listen))
        .transpose()?;

    let files = folder::find(&args.files)?;
    let mut pipeline = Pipeline::new(&config, args.sketch.seed)?;
    let mut taps = Vec::with_capacity(files.len());
    for path in &files {
        taps.push(pipeline.add(&path.display().to_string())?);
    }
    let exporter = if args.serve {
        Some(pipeline.export()?)
    } else {
        None
    };
    let start = Instant::now();
    let running = pipeline.start(Cut::Count, args.top.max(1))?;
    if let Some((listener, exporter)) = listener.zip(exporter) {
        tracing::info!("metrics are at http://{}/metrics", listener.local_addr()?);
        http::serve(listener, exporter, Arc::clone(&running.snapshot))?;
    }

    let mut errors = vec![None; taps.len()];
    loop {
        for ((path, tap), error) in files.iter().zip(&mut taps).zip(&mut errors) {
            tap.tally().up.store(true, Relaxed);
            *error = replay(path, tap, args.speed, &stop).err();
            tap.tally().up.store(false, Relaxed);
        }
        let useless = errors.iter().all(Option::is_some);
        if !args.repeat || useless || stop.load(Relaxed) || running.has_ended() {
            break;
        }
    }
    drop(taps);
    let last = running.finish()?;
    let report = Report::new(&last, &errors, start.elapsed());
    match args.format {
        ReportFormat::Json => report.write_json(out)?,
        ReportFormat::Table => report.write_table(out)?,
    }
    out.flush()?;
    for (path, error) in files.iter().zip(&errors) {
        if let Some(error) = error {
            crate::log::fatal(&anyhow::anyhow!("{}: {error}", path.display()));
        }
    }
    if args.serve && !args.repeat {
        tracing::info!("all packets replayed; serving until stopped");
        while !stop::wait(&stop, Duration::from_secs(3600)) {}
    }
    let failed = errors.iter().any(Option::is_some);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Replays one file; the error is for people.
fn replay(path: &Path, tap: &mut Tap, speed: Speed, stop: &AtomicBool) -> Result<(), String> {
    let mut capture = CaptureFile::open(path).map_err(|damage| damage.to_string())?;
    let bar = bar(capture.length().unwrap_or(0));
    let mut pace = Pace::new(speed);
    while !stop.load(Relaxed) {
        match capture.next() {
            Ok(Some(packet)) => {
                pace.wait(packet.time, stop);
                if tap.deliver(&packet).is_err() {
                    break; // the worker has ended and says why
                }
            }
            Ok(None) => break,
            Err(damage) => return Err(broke_off(&damage, &capture)),
        }
        if capture.packets() % 65536 == 0 {
            bar.set_position(capture.position());
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn broke_off(damage: &Damage, capture: &CaptureFile) -> String {
    let (packet, byte) = (capture.packets() + 1, capture.offset());
    format!("{damage} (at byte {byte}, in packet {packet}); everything before is counted")
}

/// A progress bar; hidden unless standard error is a terminal.
fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// Keeps the distances between packets, divided by the speed.
struct Pace {
    speed: Speed,
    first: Option<(Instant, u64)>,
}

impl Pace {
    fn new(speed: Speed) -> Self {
        Self { speed, first: None }
    }

    /// Waits until the packet of `time` is due.
    fn wait(&mut self, time: u64, stop: &AtomicBool) {
        let Speed::Times(times) = self.speed else {
            return;
        };
        let (start, first) = *self.first.get_or_insert((Instant::now(), time));
        let due = Duration::from_nanos((time.saturating_sub(first) as f64 / times) as u64);
        let early = due.saturating_sub(start.elapsed());
        if early > Duration::from_millis(1) {
            stop::wait(stop, early);
        }
    }
}
