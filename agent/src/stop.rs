//! Stopping: SIGINT and SIGTERM ask for a clean end, a second one ends at
//! once.
//!
//! SIGHUP says that the terminal is gone. That ends what somebody waits for
//! there; an agent that runs on by itself ignores it. `signal-hook` rather than
//! a lighter crate, because its handlers know which signal it was and need no
//! unsafe code here.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Exit code after a second signal.
const AT_ONCE: i32 = 130;

/// A process stops as a whole.
static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// What becomes of the program when its terminal goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hangup {
    /// It ends.
    Ends,
    /// Nothing.
    Ignored,
}

/// Becomes true when the program shall end.
pub fn on_signal(hangup: Hangup) -> anyhow::Result<&'static AtomicBool> {
    handle(hangup).context("signals cannot be handled")?;
    Ok(&ASKED)
}

fn handle(hangup: Hangup) -> std::io::Result<()> {
    let mut ending = vec![SIGINT, SIGTERM];
    match hangup {
        Hangup::Ends => ending.push(SIGHUP),
        // A handler that does nothing anyone looks at.
        Hangup::Ignored => drop(flag::register(SIGHUP, Arc::default())?),
    }
    for signal in ending {
        // In this order: the first signal finds the flag down.
        flag::register_conditional_shutdown(signal, AT_ONCE, Arc::clone(&ASKED))?;
        flag::register(signal, Arc::clone(&ASKED))?;
    }
    Ok(())
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
