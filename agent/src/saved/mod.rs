//! Windows that survive a restart: each interface has a file with its current window, which the
//! next run continues if the window has not ended.
//!
//! A file contains everything that answers depend on: all sketches, packets and bytes of the
//! window, its start and remaining time, and a check of the key. Not saved are the last complete
//! window, the counters, which Prometheus expects to begin at 0, and the state that keeps exported
//! lists stable.
//!
//! | part | does |
//! |---|---|
//! | [`window`] | the format: a head with its own checksum, and the sketches |
//! | [`settings`] | the settings that a window and an agent must share |
//! | [`folder`] | the files: atomic replacement, checks at the start |
//! | [`writer`] | a thread that writes, so that a slow disk does not delay packets |
//! | [`private`] | checks that no other user can read the key or write files |

pub mod folder;
mod private;
pub mod settings;
pub mod window;
pub mod writer;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
