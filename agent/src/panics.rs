//! Panics: counted and logged wherever they are, and in a build for tests provoked.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// Threads whose panics are counted, by their names; the last is for all others.
const THREADS: [&str; 5] = ["capture", "sketch", "http", "open", "other"];

static COUNTS: [AtomicU64; THREADS.len()] = [const { AtomicU64::new(0) }; THREADS.len()];

/// Counts every panic from now on, and has it in the log.
pub fn count() {
    panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("other");
        let at = THREADS.iter().position(|known| *known == name);
        COUNTS[at.unwrap_or(THREADS.len() - 1)].fetch_add(1, Relaxed);
        tracing::error!(thread = name, "a fault in the agent: {panic}");
    }));
}

/// Each kind of thread with how many panics there were.
pub fn counted() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = COUNTS.iter().map(|count| count.load(Relaxed));
    THREADS.into_iter().zip(counts)
}

/// Does something; none if it panicked. What it worked on may be in disorder.
pub fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Panics once if the file that the variable `TEST_PANIC` names says `thread
/// interface`. For tests: there is nothing of it in a release.
#[cfg(debug_assertions)]
pub fn provoke(thread: &str, interface: &str) {
    use std::path::PathBuf;
    use std::sync::LazyLock;

    static FILE: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("TEST_PANIC").map(PathBuf::from));
    let Some(file) = &*FILE else { return };
    let asked = std::fs::read_to_string(file).unwrap_or_default();
    if asked == format!("{thread} {interface}") {
        let _ = std::fs::remove_file(file);
        panic!("a test asked for it");
    }
}

/// Does nothing.
#[cfg(not(debug_assertions))]
pub fn provoke(_: &str, _: &str) {}
