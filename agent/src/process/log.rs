//! Writes log lines to standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tracing::Level;

use crate::text::{plain, terminal};

/// How log lines are written.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// Readable text.
    Text,
    /// One JSON object per line.
    Json,
}

static JSON: AtomicBool = AtomicBool::new(false);

/// Starts logging, with less output if `quiet` and more for each level of `verbose`.
pub fn start(quiet: bool, verbose: u8, format: LogFormat) {
    let level = match (quiet, verbose) {
        (true, _) => Level::ERROR,
        (_, 0) => Level::INFO,
        (_, 1) => Level::DEBUG,
        _ => Level::TRACE,
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(level)
        .with_target(false)
        .with_ansi(terminal::has_colours(io::stderr().is_terminal()));
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => {
            JSON.store(true, Relaxed);
            lines.json().init();
        }
    }
}

/// Logs the error that ends the agent.
pub fn fatal(error: &anyhow::Error) {
    fatal_of("crane-agent", error);
}

/// Like [`fatal`], for another program of the workspace.
pub fn fatal_of(program: &str, error: &anyhow::Error) {
    let error = format!("{error:#}");
    if JSON.load(Relaxed) {
        return tracing::error!("{error}");
    }
    let _ = writeln!(io::stderr(), "{program}: {}", plain::text(&error));
}

/// Limits how often a repeated error is logged.
#[derive(Default)]
pub struct RateLimit(Option<Instant>);

impl RateLimit {
    const PAUSE: Duration = Duration::from_secs(10);

    /// Whether the error may be logged now.
    pub fn allows(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= Self::PAUSE);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}

/// Whether the error is a closed pipe on standard output, as with `head`.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
