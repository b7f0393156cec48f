//! What a key does.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::state::State;
use super::tabs::Tab;

/// All keys, as the help shows them.
pub const HELP: [(&str, &str); 14] = [
    ("1–7, Tab", "another list"),
    ("↑ ↓ j k", "another row; PgUp, PgDn, Home, End"),
    ("← → h l", "source or destination of a pair"),
    ("Enter", "peers of the address; of an interface its lists"),
    ("Esc", "back; without the filter"),
    ("/", "filter by address, name or service"),
    ("s, S", "sort by the next column, the one before"),
    ("r", "turn the order round"),
    ("w", "the last complete window, or the current one"),
    ("i, I", "the next interface, the one before"),
    ("space, p", "pause, go on"),
    ("Ctrl-L", "draw again"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// What is left to do for whoever has the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Draw.
    Go,
    /// Draw all of it.
    Redraw,
    /// End.
    Quit,
}

/// Does what a key says.
pub fn press(state: &mut State, key: KeyEvent) -> Then {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Then::Quit,
            KeyCode::Char('l') => Then::Redraw,
            _ => Then::Go,
        };
    }
    if state.typing {
        write(state, key.code);
        return Then::Go;
    }
    if state.help {
        state.help = false;
        // Who quits means it; any other key closes the help.
        return match key.code {
            KeyCode::Char('q') => Then::Quit,
            _ => Then::Go,
        };
    }
    let page = isize::try_from(state.room.max(1)).unwrap_or(1);
    match key.code {
        KeyCode::Char('q') => return Then::Quit,
        KeyCode::Char('?') => state.help = true,
        KeyCode::Char('/') => state.typing = true,
        KeyCode::Char(' ' | 'p') => state.paused = !state.paused,
        KeyCode::Char('s') => state.sort_by_next(false),
        KeyCode::Char('S') => state.sort_by_next(true),
        KeyCode::Char('r') => state.reverse(),
        KeyCode::Char('w') => state.next_window(),
        KeyCode::Char('i') => state.next_interface(false),
        KeyCode::Char('I') => state.next_interface(true),
        KeyCode::Char(digit @ '1'..='7') => {
            let at = digit as usize - '1' as usize;
            Tab::ALL
                .get(at)
                .into_iter()
                .for_each(|tab| state.show(*tab));
        }
        KeyCode::Tab => state.show_next(false),
        KeyCode::BackTab => state.show_next(true),
        KeyCode::Down | KeyCode::Char('j') => state.step(1),
        KeyCode::Up | KeyCode::Char('k') => state.step(-1),
        KeyCode::PageDown => state.step(page),
        KeyCode::PageUp => state.step(-page),
        KeyCode::Home => state.reset_cursor(),
        KeyCode::End => state.step(isize::MAX),
        KeyCode::Left | KeyCode::Char('h') => state.end = 0,
        KeyCode::Right | KeyCode::Char('l') => state.end = 1,
        KeyCode::Enter => state.open(),
        KeyCode::Esc | KeyCode::Backspace => state.back(),
        _ => {}
    }
    Then::Go
}

/// A key of the filter.
fn write(state: &mut State, key: KeyCode) {
    match key {
        KeyCode::Enter => state.typing = false,
        KeyCode::Esc => {
            state.typing = false;
            state.filter.clear();
        }
        KeyCode::Backspace => {
            state.filter.pop();
        }
        KeyCode::Char(c) if !c.is_control() => state.filter.push(c),
        _ => {}
    }
    state.reset_cursor();
}
