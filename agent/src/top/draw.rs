//! Draws the state in the size of the terminal.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::found;
use super::header::{heading, headline, traffic};
use super::keys::HELP;
use super::layout::{GAP, bar, fit, layout};
use super::state::State;
use crate::text::plain;
use crate::text::table::{Cell, Row, Table};

/// Whether colours may be used.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    pub colours: bool,
}

impl Look {
    pub fn colour(self, colour: Color) -> Style {
        match self.colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    pub fn warning(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// Draws the whole view.
pub fn draw(state: &mut State, look: Look, frame: &mut Frame) {
    let area = frame.area();
    let mut page = Page {
        buffer: frame.buffer_mut(),
        area,
        line: 0,
    };
    page.push(heading(state, look, area.width as usize));
    page.push(traffic(state, look));
    page.push(headline(state, look, area.width as usize));
    if state.help {
        for (key, what) in HELP {
            page.push(Line::raw(format!("  {key:<10} {what}")));
        }
    } else {
        for line in about_opened(state) {
            page.push(Line::raw(format!("  {line}")));
        }
        let table = state.table();
        // Without the line of titles and the last line.
        state.room = page.left().saturating_sub(2);
        state.line = page.line + 1;
        state.scroll(table.rows.len());
        draw_table(state, look, &table, &mut page);
    }
    page.line = area.height.saturating_sub(1);
    page.push(footer(state, look, area.width as usize));
}

/// Draws lines from top to bottom. Lines without room are not drawn.
struct Page<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    line: u16,
}

impl Page<'_> {
    fn push(&mut self, line: Line) {
        if self.line < self.area.height {
            let (x, y) = (self.area.x, self.area.y + self.line);
            self.buffer.set_line(x, y, &line, self.area.width);
        }
        self.line = self.line.saturating_add(1);
    }

    /// Number of lines without text below.
    fn left(&self) -> usize {
        self.area.height.saturating_sub(self.line).into()
    }
}

/// The answer about what is opened, in words.
fn about_opened(state: &State) -> Vec<String> {
    match (state.opened.is_empty(), state.details()) {
        (true, _) => Vec::new(),
        (false, None) => vec!["asking …".into()],
        (false, Some(Err(why))) => vec![plain::text(why).into_owned()],
        (false, Some(Ok(details))) => details.in_words(state.units),
    }
}

/// Why there are no rows.
fn why_empty(state: &State) -> Vec<String> {
    let filter = &state.filter;
    match (filter.is_empty(), state.opened.last()) {
        (true, None) => {
            let update = state.update.as_ref();
            let why = update.map(|update| state.tab.why_empty(update, state.units));
            why.into_iter().collect()
        }
        (true, Some(opened)) => match state.details() {
            Some(Ok(_)) => vec![opened.why_empty().into()],
            Some(Err(_)) | None => Vec::new(),
        },
        (false, _) => match state.found() {
            Some(found) => found.in_words(state.units),
            None if found::can_be_asked(filter) => {
                vec![format!(
                    "{filter:?} is not in this list; asking the agent …"
                )]
            }
            None => vec![
                format!("nothing with {filter:?} here; Esc clears the filter"),
                "the agent is asked about an address, a pair, a network, an AS or a service".into(),
                "and about a service of a pair, like 10.0.0.1 10.0.0.2 443".into(),
            ],
        },
    }
}

fn draw_table(state: &State, look: Look, table: &Table, page: &mut Page) {
    let width = page.area.width as usize;
    if table.rows.is_empty() {
        if state.update.is_some() {
            for line in why_empty(state) {
                page.push(Line::raw(format!("  {line}")));
            }
        }
        return;
    }
    let shown = layout(table, state.sort(table).column, width);
    let titles = shown.iter().map(|(at, width)| {
        let column = &table.columns[*at];
        let sort = state.sort(table);
        let mark = match (sort.column == *at, sort.reversed) {
            (false, _) => "",
            (true, false) => "▼",
            (true, true) => "▲",
        };
        let is_number = matches!(table.rows[0].cells[*at], Cell::Number { .. });
        fit(&format!("{}{mark}", column.title), *width, is_number)
    });
    let titles = titles.collect::<Vec<_>>().join(&" ".repeat(GAP));
    let underlined = Style::new().add_modifier(Modifier::UNDERLINED);
    page.push(Line::styled(format!("  {titles}"), underlined));
    let cursor = state.cursor(table);
    let room = state.room.max(1);
    let most = most(table);
    for (at, row) in table.rows.iter().enumerate().skip(state.first).take(room) {
        let is_chosen = at == cursor;
        page.push(draw_row(
            row,
            &shown,
            most,
            is_chosen.then_some(state.end),
            look,
        ));
    }
}

/// The largest value of a bar.
fn most(table: &Table) -> f64 {
    let cells = table.rows.iter().flat_map(|row| &row.cells);
    let bars = cells.filter_map(|cell| match cell {
        Cell::Bar(_, high) => Some(*high),
        _ => None,
    });
    bars.fold(0.0, f64::max)
}

/// A row. If it is under the cursor, the address that Enter opens is highlighted.
fn draw_row(
    row: &Row,
    shown: &[(usize, usize)],
    most: f64,
    chosen: Option<usize>,
    look: Look,
) -> Line<'static> {
    let mark = if chosen.is_some() { "> " } else { "  " };
    let mut spans = vec![Span::raw(mark)];
    let last = row.addresses().len().saturating_sub(1);
    let mut address = 0;
    for (at, width) in shown {
        let span = match &row.cells[*at] {
            Cell::Name { text, ip } => {
                let is_open = ip.is_some() && chosen.is_some_and(|end| end.min(last) == address);
                address += usize::from(ip.is_some());
                let style = match (chosen, is_open) {
                    (None, _) => Style::new(),
                    (Some(_), false) => Style::new().add_modifier(Modifier::BOLD),
                    (Some(_), true) => Style::new().add_modifier(Modifier::REVERSED),
                };
                let text = fit(text, *width, false);
                let name = text.trim_end().to_owned();
                let rest = text[name.len()..].to_owned();
                spans.push(Span::styled(name, style));
                Span::raw(rest)
            }
            Cell::Number { text, .. } => {
                let style = match chosen {
                    Some(_) => Style::new().add_modifier(Modifier::BOLD),
                    None => Style::new(),
                };
                Span::styled(fit(text, *width, true), style)
            }
            Cell::Bar(low, high) => {
                Span::styled(bar(*low, *high, most, *width), look.colour(Color::Cyan))
            }
        };
        spans.extend([span, Span::raw(" ".repeat(GAP))]);
    }
    Line::from(spans)
}

/// Keys, the filter, and the position of the cursor among all rows.
fn footer(state: &State, look: Look, width: usize) -> Line<'static> {
    let filter = plain::text(&state.filter);
    if state.typing {
        return Line::styled(
            format!("/{filter}▏ Enter: keep  Esc: none"),
            look.colour(Color::Yellow),
        );
    }
    let table = state.table();
    let place = match table.rows.len() {
        _ if state.help => String::new(),
        0 => String::new(),
        rows => format!("row {} of {rows}", state.cursor(&table) + 1),
    };
    let only = match state.filter.is_empty() {
        true => String::new(),
        false => format!("only {filter:?}  "),
    };
    let keys = "? help  / find  s sort  space pause  Enter open  q quit";
    let room = width.saturating_sub(place.len() + GAP + only.chars().count());
    Line::from(vec![
        Span::styled(only, look.colour(Color::Yellow)),
        Span::raw(fit(keys, room, false)),
        Span::raw(" ".repeat(GAP)),
        Span::raw(place),
    ])
}
