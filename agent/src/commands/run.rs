//! `crane-agent run`: captures until a signal.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::configure::configure_run;
use super::reload::Agent;
use crate::capture::interfaces::Interfaces;
use crate::cli::Run;
use crate::export;
use crate::export::metrics::Exporter;
use crate::http::{self, ApiState, History, Rates};
use crate::lines::sink::LinesSink;
use crate::process::stop::{self, Hangups};
use crate::process::{panics, privileges, systemd};
use crate::ring::pipeline::{Listener, Mode, Pipeline};
use crate::saved::folder::Folder;
use crate::sketches::key::Key;
use crate::window::view::{CurrentView, View};
use crate::window::windows::Ended;

/// How long packets that are in the rings are stored after a stop.
const DRAIN: Duration = Duration::from_secs(1);
/// Longest delay until a signal is noticed.
const TICK: Duration = Duration::from_millis(50);

/// Captures until SIGINT or SIGTERM; SIGHUP reloads the configuration.
pub fn run(args: &Run) -> anyhow::Result<()> {
    let config = configure_run(args)?;
    panics::install_hook();
    let listeners = http::bind(&config.export)?;
    // Privileged ports are bound already, and no other thread has been started.
    if !args.keep_privileges {
        privileges::keep_capture_only()?;
    }
    let hangups = Hangups::block()?;
    let stop = stop::on_signal()?;
    let mut interfaces = Interfaces::new(&config, stop);
    let names = interfaces.existing()?;
    let mode = Mode::Live(names.len(), config.window.length);
    let mut folder = match config.state.folder() {
        Some(path) => Some(Folder::open(&path)?),
        None => None,
    };
    let key = match (args.sketch.seed, &mut folder) {
        (None, None) => Key::random()?,
        (None, Some(folder)) => folder.key()?,
        (Some(seed), _) => {
            tracing::warn!(
                "--seed {seed}: the key is known, so packets can be made to collide; for tests only"
            );
            Key::of_seed(seed)
        }
    };
    let mut pipeline = Pipeline::start(&config, mode, &key)?;
    let exporter = Exporter::install(pipeline.device())?;
    export::agent::config_was_read(true);
    let shown = Arc::new(CurrentView::new(View::new(&config.export)?));
    let mut lines = LinesSink::new(Arc::clone(&shown));
    let prepared = lines.prepare(&config.export)?;
    lines.adopt(prepared);
    pipeline.set_listener(Listener {
        on_turn: lines.on_turn(),
        reports_saved: lines.is_on(),
        was_reported: lines.was_written(),
    });
    if let Some(folder) = folder {
        pipeline.keep_windows(folder, &key)?;
    }
    interfaces.start(&mut pipeline)?;
    let state = ApiState {
        exporter,
        reader: pipeline.reader(),
        shown: Arc::clone(&shown),
        waiting: interfaces.waiting(),
        history: History::default(),
        rates: Rates::default(),
    };
    let server = http::serve(listeners, &config.export, state)?;
    let (device, window) = (pipeline.device(), config.window.length);
    tracing::info!(interfaces = names.join(","), device, %window, "capturing");
    for address in server.addresses() {
        tracing::info!("the page is at {address}/, metrics are at {address}/metrics");
    }
    systemd::ready();
    let mut status = systemd::Status::new();
    let snapshot = pipeline.snapshot();

    let mut agent = Agent {
        config,
        interfaces,
        pipeline,
        server,
        shown,
        lines,
    };
    while !stop::is_requested() {
        log_totals(&agent.interfaces.wait(&mut agent.pipeline, TICK));
        if agent.pipeline.has_ended() || agent.interfaces.has_ended() {
            stop.store(true, Relaxed);
        }
        if hangups.received() {
            agent.reload(args);
        }
        let views = &snapshot.load().interfaces;
        status.send(views.iter().map(|view| &*view.tally));
    }
    systemd::stopping();
    let captured = agent.interfaces.join();
    let ended = agent.pipeline.finish(Some(DRAIN));
    // After the worker has ended, because it sends the last windows.
    agent.lines.finish();
    log_totals(&ended?);
    captured
}

fn log_totals(ended: &[Ended]) {
    for one in ended {
        let tally = &one.tally;
        let [ring_full, kernel, interface] = tally.dropped().map(|(_, count)| count);
        tracing::info!(
            interface = one.name,
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
