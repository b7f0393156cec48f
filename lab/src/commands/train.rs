//! `crane-lab train`: trains weights, reproducibly from a seed.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use crane_agent::config::Profile;
use crane_agent::process::stop;
use crane_agent::sketches::weights;
use indicatif::{ProgressBar, ProgressStyle};

use crate::ablation::Ablation;
use crate::cli::Train;
use crate::train::packed::{self, Progress};
use crate::train::paper::usage::Usage;
use crate::train::{Options, Trainer};

/// Trains the selected profile.
pub fn run(args: &Train, out: &mut impl Write) -> anyhow::Result<()> {
    match args.profile {
        Profile::Paper => run_paper(args, out),
        Profile::Packed => run_packed(args, out),
    }
}

/// Stores the training streams, then fits the decoder to the readings.
fn run_packed(args: &Train, out: &mut impl Write) -> anyhow::Result<()> {
    let usual = packed::Options::default();
    let options = packed::Options {
        seed: args.seed,
        streams: args.streams,
        steps: args.steps.unwrap_or(usual.steps),
        ablation: Ablation::of(&args.without),
        ..usual
    };
    let bar = bar(options.streams + options.streams / 10);
    let weights = packed::train(&options, |progress| match progress {
        Progress::Stored(streams) => bar.set_position(streams as u64),
        Progress::Step(step, loss) => bar.set_message(format!("step {step}, loss {loss:.4}")),
    })?;
    bar.finish_and_clear();
    write(&args.output, &weights)?;
    Ok(writeln!(out, "{}", args.output.display())?)
}

/// Trains until done or interrupted. A checkpoint allows to continue later.
fn run_paper(args: &Train, out: &mut impl Write) -> anyhow::Result<()> {
    let steps = args.steps.unwrap_or(Options::default().steps);
    let options = Options {
        seed: args.seed,
        steps,
        layers: args.layers.into(),
        theta: args.theta,
        tau: args.tau,
        ids: args.ids,
        writes: args.writes,
        largest: args.largest,
        ..Options::default()
    };
    let stop = stop::on_signal()?;
    let mut trainer = Trainer::new(options)?;
    if let Some(path) = &args.encoders {
        let bytes = weights::read(path)?;
        trainer
            .start_from(&bytes)
            .with_context(|| path.display().to_string())?;
    }
    if let Some(path) = args.checkpoint.as_deref().filter(|path| path.exists()) {
        let bytes = weights::read(path)?;
        trainer
            .resume(&bytes)
            .with_context(|| format!("{} is no checkpoint of this training", path.display()))?;
        tracing::info!(
            step = trainer.steps_done(),
            "continuing from {}",
            path.display()
        );
    }
    let bar = bar(steps);
    let mut best = f64::INFINITY;
    while !trainer.is_done() && !stop.load(Relaxed) {
        let progress = trainer.step()?;
        bar.set_position(progress.step as u64);
        if let Some(validation) = progress.validation {
            best = best.min(validation);
            tracing::debug!(step = progress.step, validation, "validated");
            if let Some(path) = &args.checkpoint {
                write(path, &trainer.checkpoint()?)?;
            }
        }
        bar.set_message(format!("loss {:.3}, validation {best:.4}", progress.loss));
    }
    bar.finish_and_clear();
    if stop.load(Relaxed) {
        match &args.checkpoint {
            Some(path) => {
                write(path, &trainer.checkpoint()?)?;
                anyhow::bail!(
                    "stopped; the same command continues from {}",
                    path.display()
                );
            }
            None => anyhow::bail!("stopped; without --checkpoint nothing was kept"),
        }
    }
    tracing::info!("fitting the decoder");
    write(&args.output, &trainer.finish()?)?;
    write!(
        out,
        "{}: {} steps",
        args.output.display(),
        trainer.steps_done()
    )?;
    match best.is_finite() {
        true => writeln!(out, ", validation loss {best:.4}")?,
        false => writeln!(out)?,
    }
    let weights = trainer.weights()?;
    let encoders = weights
        .layers
        .iter()
        .flat_map(|ends| [&ends.src, &ends.dst]);
    let usages: Vec<Usage> = encoders
        .map(|encoder| Usage::of(encoder, USAGE_IDS))
        .collect();
    let range = |value: fn(&Usage) -> f64| {
        let values = usages.iter().map(value);
        (
            values.clone().fold(f64::INFINITY, f64::min),
            values.fold(0.0, f64::max),
        )
    };
    let (active, sharing) = (range(|usage| usage.active), range(|usage| usage.sharing));
    writeln!(
        out,
        "active outputs of a code, by encoder: {:.2} to {:.2} of 64",
        active.0, active.1
    )?;
    writeln!(
        out,
        "ids that share an output: {:.2} to {:.2} times an even hash",
        sharing.0, sharing.1
    )?;
    Ok(())
}

/// Ids on which the use of outputs is measured.
const USAGE_IDS: u32 = 20_000;

/// Writes the whole file or nothing.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, bytes)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn bar(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} {msg} {eta}") {
        bar.set_style(style);
    }
    bar
}
