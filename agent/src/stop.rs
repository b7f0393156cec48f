//! Stopping: SIGINT and SIGTERM ask for a clean end, a second one ends at
//! once.
//!
//! SIGHUP says that the terminal is gone. That ends what somebody waits for
//! there; an agent that runs on by itself ignores it. Handlers cannot tell
//! signals apart, so that agent blocks it, in all its threads.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{SigSet, Signal};

/// Exit code after a second signal.
const AT_ONCE: i32 = 130;

/// A process stops as a whole.
static ASKED: AtomicBool = AtomicBool::new(false);

/// What becomes of the program when its terminal goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// It ends.
    Ends,
    /// Nothing.
    Ignored,
}

/// Becomes true when the program shall end. To be called before there are other
/// threads, which inherit what is blocked.
pub fn on_signal(hangup: Hangup) -> anyhow::Result<&'static AtomicBool> {
    const FAILED: &str = "signals cannot be handled";
    if hangup == Hangup::Ignored {
        SigSet::from(Signal::SIGHUP)
            .thread_block()
            .context(FAILED)?;
    }
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
