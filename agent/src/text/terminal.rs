//! Capabilities of the terminal: colours and live views.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// Whether a stream may have colours: the terminal supports them, and the user has not
/// disabled them (<https://no-color.org>).
pub fn has_colours(is_terminal: bool) -> bool {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal && !unwanted && !is_dumb()
}

/// Whether standard output is a terminal that supports a live view.
pub fn is_live() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb()
}

/// Whether the terminal can only print lines.
fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|kind| kind == OsStr::new("dumb") || kind.is_empty())
}
