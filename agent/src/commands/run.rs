//! `crane-agent run`: live capture until a signal.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::configure::configure_run;
use super::reload::Agent;
use crate::capture::interfaces::Interfaces;
use crate::cli::Run;
use crate::export;
use crate::http::{self, ApiState, History, Shown};
use crate::sketch::key::Key;
use crate::sketch::pipeline::{Mode, Pipeline};
use crate::sketch::saved::folder::Folder;
use crate::sketch::summary::Summary;
use crate::stop::{self, Hangups};
use crate::{panics, privileges, systemd};

/// How long packets that wait in the rings are still stored after a stop.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a stop may go unnoticed.
const TICK: Duration = Duration::from_millis(50);

/// Captures until SIGINT or SIGTERM, and reads its configuration again on SIGHUP.
pub fn run(args: &Run) -> anyhow::Result<()> {
    let config = configure_run(args)?;
    panics::count();
    let listeners = http::bind(&config.export)?;
    // A port below 1024 is taken by now, and there are no other threads yet.
    if !args.keep_privileges {
        privileges::keep_capture_only()?;
    }
    let hangups = Hangups::wait_for()?;
    let stop = stop::on_signal()?;
    let mut interfaces = Interfaces::new(&config, stop);
    let names = interfaces.there()?;
    let mode = Mode::Live(names.len(), config.window.length);
    let mut folder = match config.state.folder() {
        Some(path) => Some(Folder::open(&path)?),
        None => None,
    };
    let key = match (args.sketch.seed, &mut folder) {
        (None, None) => Key::draw()?,
        (None, Some(folder)) => folder.key()?,
        (Some(seed), _) => {
            tracing::warn!(
                "--seed {seed}: the key is known, so packets can be made to collide; for tests only"
            );
            Key::of_seed(seed)
        }
    };
    let mut pipeline = Pipeline::start(&config, mode, config.export.top, &key)?;
    if let Some(folder) = folder {
        pipeline.keep_windows(folder, &key)?;
    }
    let exporter = pipeline.export()?;
    export::agent::config_was_read(true);
    interfaces.start(&mut pipeline)?;
    let shown = Shown::new(pipeline.snapshot(), config.export.anonymise)?;
    let shown = Arc::new(shown);
    let state = ApiState {
        exporter,
        snapshot: Arc::clone(&shown),
        worker: pipeline.handle(),
        waiting: interfaces.waiting(),
        history: History::default(),
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
    };
    while !stop::asked() {
        log_totals(&agent.interfaces.wait(&mut agent.pipeline, TICK));
        if agent.pipeline.has_ended() || agent.interfaces.has_ended() {
            stop.store(true, Relaxed);
        }
        if hangups.came() {
            agent.reload(args);
        }
        let views = &snapshot.load().interfaces;
        status.tell(views.iter().map(|view| &*view.tally));
    }
    systemd::stopping();
    let captured = agent.interfaces.join();
    log_totals(&agent.pipeline.finish(Some(DRAIN))?);
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
