//! Stopping: SIGINT, SIGTERM and SIGHUP ask for a clean end, a second one
//! ends at once.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anyhow::Context;

/// Exit code after a second signal.
const AT_ONCE: i32 = 130;

/// A process stops as a whole.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Becomes true when the program shall end.
pub fn on_signal() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| {
        if ASKED.swap(true, SeqCst) {
            std::process::exit(AT_ONCE);
        }
    })
    .context("signals cannot be handled")?;
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
