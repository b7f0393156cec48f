//! Stopping: SIGINT, SIGTERM and SIGHUP ask for a clean end, a second one
//! ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anyhow::Context;

/// Exit code after a second signal.
const AT_ONCE: i32 = 130;

/// Becomes true when the program shall end.
pub fn on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if asked.swap(true, SeqCst) {
            std::process::exit(AT_ONCE);
        }
    })
    .context("signals cannot be handled")?;
    Ok(stop)
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
