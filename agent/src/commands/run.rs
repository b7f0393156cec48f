//! `crane-agent run`: live capture until a signal.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use super::configure;
use crate::capture::live::{self, Interface};
use crate::cli::Run;
use crate::pipeline::Pipeline;
use crate::snapshot::Snapshot;
use crate::worker::Cut;
use crate::{http, stop};

/// Captures until SIGINT or SIGTERM.
pub fn run(args: &Run) -> anyhow::Result<()> {
    let mut config = configure(args.config.as_deref(), &args.sketch)?;
    config.export.listen = args.listen.unwrap_or(config.export.listen);
    let names = match (&args.interfaces[..], &config.capture.interfaces[..]) {
        ([], []) => live::default_interfaces()?,
        ([], configured) => configured.to_vec(),
        (named, _) => named.to_vec(),
    };

    let stop = stop::on_signal()?;
    let listener = http::bind(config.export.listen)?;
    let address = listener.local_addr()?;
    let mut pipeline = Pipeline::new(&config, args.sketch.seed)?;
    let mut interfaces = Vec::with_capacity(names.len());
    for name in &names {
        let tap = pipeline.add(name)?;
        interfaces.push(Interface::open(name, tap, &config.capture, names.len())?);
    }
    let exporter = pipeline.export()?;
    let device = pipeline.device();
    let running = pipeline.start(Cut::Linger(config.sketch.linger()), config.export.top)?;
    http::serve(listener, exporter, Arc::clone(&running.snapshot))?;

    let captures: Vec<_> = share_out(interfaces)
        .into_iter()
        .map(|share| {
            let stop = Arc::clone(&stop);
            thread::Builder::new()
                .name("capture".into())
                .spawn(move || live::run(share, &stop))
        })
        .collect::<Result<_, _>>()?;
    tracing::info!(interfaces = names.join(","), device, "capturing");
    tracing::info!("metrics are at http://{address}/metrics");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);

    while !stop::wait(&stop, Duration::from_secs(1)) {
        if running.has_ended() || captures.iter().any(|capture| capture.is_finished()) {
            stop.store(true, Relaxed);
        }
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let panicked = captures
        .into_iter()
        .map(|capture| capture.join())
        .filter(Result::is_err)
        .count();
    let last = running.finish()?;
    log_totals(&last);
    anyhow::ensure!(panicked == 0, "a capture thread panicked");
    Ok(())
}

/// Spreads the interfaces over one thread for each core.
fn share_out(interfaces: Vec<Interface>) -> Vec<Vec<Interface>> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let mut shares: Vec<Vec<Interface>> = Vec::new();
    shares.resize_with(cores.min(interfaces.len()), Vec::new);
    let count = shares.len();
    for (at, interface) in interfaces.into_iter().enumerate() {
        shares[at % count].push(interface);
    }
    shares
}

fn log_totals(snapshot: &Snapshot) {
    for view in &snapshot.interfaces {
        let tally = &view.tally;
        let [ring_full, kernel, interface] = tally.dropped().map(|(_, count)| count);
        tracing::info!(
            interface = view.name,
            packets = tally.packets.load(Relaxed),
            bytes = tally.bytes.load(Relaxed),
            edges = tally.edges.load(Relaxed),
            ring_full,
            kernel,
            interface_dropped = interface,
            outstanding = tally.outstanding() as i64,
            "stopped"
        );
    }
}
