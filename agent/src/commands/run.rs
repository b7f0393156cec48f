//! `crane-agent run`: live capture until a signal.

use std::num::NonZero;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use super::configure::{check, configure};
use crate::capture::devices;
use crate::capture::live::{self, LiveInterface};
use crate::capture::sink::PacketSink;
use crate::cli::Run;
use crate::http::{self, ApiState, Shown};
use crate::sketch::key::Key;
use crate::sketch::pipeline::{Mode, Pipeline};
use crate::sketch::summary::Summary;
use crate::stop::{self, Hangup};
use crate::systemd;

/// How long packets that wait in the rings are still stored after a stop.
const DRAIN: Duration = Duration::from_secs(1);

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
    let names = devices::choose(&config.capture.interfaces, &config.capture.exclude)?;

    let stop = stop::on_signal(Hangup::Ignored)?;
    let listeners = http::bind(&config.export)?;
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
    let mut interfaces = Vec::with_capacity(names.len());
    for name in &names {
        let sink = PacketSink::new(pipeline.add(name)?, &config.capture);
        interfaces.push(LiveInterface::new(name, sink, &config.capture, names.len()));
    }
    live::open(&mut interfaces)?;
    let state = ApiState {
        exporter,
        snapshot: Shown::new(pipeline.snapshot(), config.export.anonymise)?,
        worker: pipeline.handle(),
    };
    let served = listeners.addresses()?;
    http::serve(listeners, state)?;

    let captures: Vec<_> = share_out(interfaces)
        .into_iter()
        .map(|share| {
            thread::Builder::new()
                .name("capture".into())
                .spawn(move || live::run(share, stop))
        })
        .collect::<Result<_, _>>()?;
    let (device, window) = (pipeline.device(), config.window.length);
    tracing::info!(interfaces = names.join(","), device, %window, "capturing");
    for address in served {
        tracing::info!("metrics are at {address}/metrics");
    }
    systemd::ready();
    let mut status = systemd::Status::new();
    let snapshot = pipeline.snapshot();

    while !stop::wait(stop, Duration::from_secs(1)) {
        if pipeline.has_ended() || captures.iter().any(|capture| capture.is_finished()) {
            stop.store(true, Relaxed);
        }
        let views = &snapshot.load().interfaces;
        status.tell(views.iter().map(|view| &*view.tally));
    }
    systemd::stopping();
    let ended: Vec<_> = captures.into_iter().map(|capture| capture.join()).collect();
    log_totals(&pipeline.finish(Some(DRAIN))?);
    for capture in ended {
        capture.map_err(|_| anyhow::anyhow!("a capture thread panicked"))??;
    }
    Ok(())
}

/// Spreads the interfaces over one thread for each core.
fn share_out(interfaces: Vec<LiveInterface>) -> Vec<Vec<LiveInterface>> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut shares: Vec<Vec<LiveInterface>> = Vec::new();
    shares.resize_with(cores.min(interfaces.len()), Vec::new);
    let count = shares.len();
    for (at, interface) in interfaces.into_iter().enumerate() {
        shares[at % count].push(interface);
    }
    shares
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
