//! Signals. SIGINT and SIGTERM ask for a clean end; a second one ends the process at once.
//!
//! SIGHUP usually means that the terminal was closed, and ends commands that run in a
//! terminal. `run` reloads its configuration instead. The handler of the other signals
//! cannot distinguish signals, so `run` blocks SIGHUP in all threads and reads it from a
//! descriptor.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Exit code after a second signal.
const AT_ONCE: i32 = 130;

/// Whether the process should end.
static REQUESTED: AtomicBool = AtomicBool::new(false);

const FAILED: &str = "signals cannot be handled";

/// Receives SIGHUP, which then no longer ends the process.
pub struct Hangups(SignalFd);

impl Hangups {
    /// Blocks SIGHUP and receives it from now on. Must be called before other threads are
    /// started, because they inherit the signal mask.
    pub fn block() -> anyhow::Result<Self> {
        let hangup = SigSet::from(Signal::SIGHUP);
        hangup.thread_block().context(FAILED)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&hangup, flags);
        Ok(Self(signals.context(FAILED)?))
    }

    /// Whether SIGHUP was received since the last call.
    pub fn received(&self) -> bool {
        matches!(self.0.read_signal(), Ok(Some(_)))
    }
}

/// Handles signals. The returned flag is set when the process should end.
pub fn on_signal() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, SeqCst) {
            std::process::exit(AT_ONCE);
        }
    })
    .context(FAILED)?;
    Ok(&REQUESTED)
}

/// Whether a signal asked the process to end.
pub fn is_requested() -> bool {
    REQUESTED.load(SeqCst)
}

/// Waits until `stop` is set or `time` has passed. Returns whether `stop` is set.
pub fn wait(stop: &AtomicBool, mut time: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    while !stop.load(SeqCst) {
        if time.is_zero() {
            return false;
        }
        let step = time.min(STEP);
        thread::sleep(step);
        time -= step;
    }
    true
}
