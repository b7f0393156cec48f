//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time of the wall clock in nanoseconds since 1970. It may jump.
pub fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}
