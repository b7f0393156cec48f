//! Signals: SIGINT and SIGTERM ask for a clean end, a second one ends at once.
//!
//! SIGHUP says that the terminal is gone. That ends what somebody waits for there. An
//! agent that runs on by itself takes it as usual for a wish to read its configuration
//! again. The handler of the others cannot tell signals apart, so that agent blocks
//! this one, in all its threads, and reads it from a descriptor.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Exit code after a second signal.
const AT_ONCE: i32 = 130;

/// A process stops as a whole.
static ASKED: AtomicBool = AtomicBool::new(false);

const FAILED: &str = "signals cannot be handled";

/// SIGHUP, which ends the program no more.
pub struct Hangups(SignalFd);

impl Hangups {
    /// Waits for them from now on. To be called before there are other threads, which
    /// inherit what is blocked.
    pub fn wait_for() -> anyhow::Result<Self> {
        let hangup = SigSet::from(Signal::SIGHUP);
        hangup.thread_block().context(FAILED)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&hangup, flags);
        Ok(Self(signals.context(FAILED)?))
    }

    /// Whether any came since this was last asked.
    pub fn came(&self) -> bool {
        matches!(self.0.read_signal(), Ok(Some(_)))
    }
}

/// Becomes true when the program shall end.
pub fn on_signal() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, SeqCst) {
            std::process::exit(AT_ONCE);
        }
    })
    .context(FAILED)?;
    Ok(&ASKED)
}

/// Whether the program shall end.
pub fn asked() -> bool {
    ASKED.load(SeqCst)
}

/// Waits until `stop` or for `time`, whichever comes first; true for `stop`.
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
