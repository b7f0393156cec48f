//! `crane-agent run`: live capture until a signal.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::configure::{check, configure};
use crate::capture::interfaces::Interfaces;
use crate::cli::Run;
use crate::http::{self, ApiState, History, Shown};
use crate::sketch::key::Key;
use crate::sketch::pipeline::{Mode, Pipeline};
use crate::sketch::summary::Summary;
use crate::stop::{self, Hangup};
use crate::{panics, privileges, systemd};

/// How long packets that wait in the rings are still stored after a stop.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a stop may go unnoticed.
const TICK: Duration = Duration::from_millis(50);

/// Captures until SIGINT or SIGTERM.
pub fn run(args: &Run) -> anyhow::Result<()> {
    let mut config = configure(args.config.as_ref(), &args.sketch)?.config;
    if !args.listen.is_empty() {
        config.export.listen.clone_from(&args.listen);
    }
    config.window.length = args.window.unwrap_or(config.window.length);
    if !args.interfaces.is_empty() {
        config.capture.interfaces.clone_from(&args.interfaces);
    }
    if !args.exclude.is_empty() {
        config.capture.exclude.clone_from(&args.exclude);
    }
    check(&config)?;

    panics::count();
    let listeners = http::bind(&config.export)?;
    // A port below 1024 is taken by now, and there are no other threads yet.
    if !args.keep_privileges {
        privileges::keep_capture_only()?;
    }
    let stop = stop::on_signal(Hangup::Ignored)?;
    let mut interfaces = Interfaces::new(&config, stop);
    let names = interfaces.there()?;
    let mode = Mode::Live(names.len(), config.window.length);
    let key = match args.sketch.seed {
        None => Key::draw()?,
        Some(seed) => {
            tracing::warn!(
                "--seed {seed}: the key is known, so packets can be made to collide; for tests only"
            );
            Key::of_seed(seed)
        }
    };
    let mut pipeline = Pipeline::start(&config, mode, config.export.top, &key)?;
    let exporter = pipeline.export()?;
    interfaces.start(&mut pipeline)?;
    let state = ApiState {
        exporter,
        snapshot: Shown::new(pipeline.snapshot(), config.export.anonymise)?,
        worker: pipeline.handle(),
        waiting: interfaces.waiting(),
        history: History::default(),
    };
    let served = http::serve(listeners, state)?;
    let (device, window) = (pipeline.device(), config.window.length);
    tracing::info!(interfaces = names.join(","), device, %window, "capturing");
    for address in served {
        tracing::info!("the page is at {address}/, metrics are at {address}/metrics");
    }
    systemd::ready();
    let mut status = systemd::Status::new();
    let snapshot = pipeline.snapshot();

    while !stop::asked() {
        log_totals(&interfaces.wait(&mut pipeline, TICK));
        if pipeline.has_ended() || interfaces.has_ended() {
            stop.store(true, Relaxed);
        }
        let views = &snapshot.load().interfaces;
        status.tell(views.iter().map(|view| &*view.tally));
    }
    systemd::stopping();
    let captured = interfaces.join();
    log_totals(&pipeline.finish(Some(DRAIN))?);
    captured
}

fn log_totals(summaries: &[Summary]) {
    for summary in summaries {
        let tally = &summary.tally;
        let [ring_full, kernel, interface] = tally.dropped().map(|(_, count)| count);
        tracing::info!(
            interface = summary.name,
            packets = tally.packets.load(Relaxed),
            bytes = tally.bytes.load(Relaxed),
            edges = tally.edges.load(Relaxed),
            ignored = tally.ignored_total(),
            ring_full,
            kernel,
            interface_dropped = interface,
            outstanding = tally.outstanding() as i64,
            "stopped"
        );
    }
}
