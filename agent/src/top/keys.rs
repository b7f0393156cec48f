//! What keys and the mouse do.

use ratatui::crossterm::event::{
    KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::state::State;

/// All keys, as the help shows them.
pub const HELP: [(&str, &str); 16] = [
    ("1–9, 0, Tab", "another list"),
    ("↑ ↓ j k", "another row; PgUp, PgDn, Home, End scroll"),
    ("← → h l", "source or destination of a pair"),
    (
        "Enter",
        "peers of the address, pairs of the service, lists of the interface",
    ),
    ("Esc", "back; clear the filter"),
    (
        "/",
        "filter; if no row matches, ask the agent (also A B 443)",
    ),
    ("s, S", "sort by the next column, the one before"),
    ("r", "reverse the order"),
    ("w", "the last complete window, or the current one"),
    ("i, I", "the next interface, the one before"),
    ("a", "all interfaces in one view, or one of them"),
    ("space, p", "pause, continue"),
    ("m", "the mouse scrolls and selects here, or selects text"),
    ("Ctrl-L", "draw again"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
];

/// What to do with the terminal after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Draw,
    /// Clear the terminal and draw everything again.
    Redraw,
    Quit,
}

/// Handles a key.
pub fn press(state: &mut State, key: KeyEvent) -> Then {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Then::Quit,
            KeyCode::Char('l') => Then::Redraw,
            _ => Then::Draw,
        };
    }
    if state.typing {
        write(state, key.code);
        return Then::Draw;
    }
    if state.help {
        state.help = false;
        // `q` quits here as well; any other key closes the help.
        return match key.code {
            KeyCode::Char('q') => Then::Quit,
            _ => Then::Draw,
        };
    }
    let page = isize::try_from(state.room.max(1)).unwrap_or(1);
    match key.code {
        KeyCode::Char('q') => return Then::Quit,
        KeyCode::Char('?') => state.help = true,
        KeyCode::Char('/') => state.typing = true,
        KeyCode::Char(' ' | 'p') => state.paused = !state.paused,
        KeyCode::Char('m') => state.mouse = !state.mouse,
        KeyCode::Char('s') => state.sort_by_next(false),
        KeyCode::Char('S') => state.sort_by_next(true),
        KeyCode::Char('r') => state.reverse(),
        KeyCode::Char('w') => state.next_window(),
        KeyCode::Char('a') => state.toggle_all(),
        KeyCode::Char('i') => state.next_interface(false),
        KeyCode::Char('I') => state.next_interface(true),
        KeyCode::Char(digit @ '0'..='9') => {
            // The key of the tenth tab is 0.
            let at = (digit as usize + 9 - '0' as usize) % 10;
            let tab = state.tabs().get(at).copied();
            tab.into_iter().for_each(|tab| state.show(tab));
        }
        KeyCode::Tab => state.show_next(false),
        KeyCode::BackTab => state.show_next(true),
        KeyCode::Down | KeyCode::Char('j') => state.step(1),
        KeyCode::Up | KeyCode::Char('k') => state.step(-1),
        KeyCode::PageDown => state.step(page),
        KeyCode::PageUp => state.step(-page),
        KeyCode::Home => state.reset_cursor(),
        KeyCode::End => state.go_to_end(),
        KeyCode::Left | KeyCode::Char('h') => state.end = 0,
        KeyCode::Right | KeyCode::Char('l') => state.end = 1,
        KeyCode::Enter => state.open(),
        KeyCode::Esc | KeyCode::Backspace => state.back(),
        _ => {}
    }
    Then::Draw
}

/// Rows that one step of the wheel scrolls by.
const WHEEL: isize = 3;

/// Handles an event of the mouse.
pub fn point(state: &mut State, mouse: MouseEvent) {
    match mouse.kind {
        MouseEventKind::ScrollDown => state.step(WHEEL),
        MouseEventKind::ScrollUp => state.step(-WHEEL),
        MouseEventKind::Down(MouseButton::Left) => state.click(mouse.row),
        _ => {}
    }
}

/// Handles a key while the filter is written.
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
