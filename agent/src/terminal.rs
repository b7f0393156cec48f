//! What a terminal is asked to do: colours, and views that move.

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// Whether a stream may have colours: a terminal that knows them, and a user who
/// has not said no (<https://no-color.org>).
pub fn has_colours(is_terminal: bool) -> bool {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal && !unwanted && !is_dumb()
}

/// Whether there is someone at a terminal that can be drawn on.
pub fn is_live() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb()
}

/// A terminal that can only print line after line.
fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|kind| kind == OsStr::new("dumb") || kind.is_empty())
}
