//! Counts and logs panics. Debug builds can provoke them for tests.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// Names of threads whose panics are counted. The last entry counts all others.
const THREADS: [&str; 5] = ["capture", "sketch", "http", "open", "other"];

static COUNTS: [AtomicU64; THREADS.len()] = [const { AtomicU64::new(0) }; THREADS.len()];

/// Installs a hook that counts and logs every panic.
pub fn install_hook() {
    panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let name = thread.name().unwrap_or("other");
        let at = THREADS.iter().position(|known| *known == name);
        COUNTS[at.unwrap_or(THREADS.len() - 1)].fetch_add(1, Relaxed);
        tracing::error!(thread = name, "a fault in the agent: {panic}");
    }));
}

/// Returns the number of panics of each kind of thread.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = COUNTS.iter().map(|count| count.load(Relaxed));
    THREADS.into_iter().zip(counts)
}

/// Runs `work`. Returns `None` if it panicked, in which case the data it changed may be
/// inconsistent.
pub fn catch<T>(work: impl FnOnce() -> T) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Panics once if the file named by the variable `TEST_PANIC` contains `thread interface`.
/// Exists only in debug builds, for tests.
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

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
pub fn provoke(_: &str, _: &str) {}
