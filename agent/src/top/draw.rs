//! The picture: what the state looks like in so many columns and lines.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::keys::HELP;
use super::layout::{GAP, bar, fit, layout};
use super::state::State;
use super::table::{Cell, Row, Table};
use super::tabs::{self, Tab};
use crate::plain;
use crate::report;
use crate::units;

/// What may be used besides letters.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Colours.
    pub colours: bool,
}

impl Look {
    fn colour(self, colour: Color) -> Style {
        match self.colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    fn warning(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// Draws all of it.
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
        for line in about_node(state) {
            page.push(Line::raw(format!("  {line}")));
        }
        let table = state.table();
        // The titles and the last line.
        state.room = page.left().saturating_sub(2);
        draw_table(state, look, &table, &mut page);
    }
    page.line = area.height.saturating_sub(1);
    page.push(footer(state, look));
}

/// Lines from top to bottom; what has no room is not drawn.
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

    fn left(&self) -> usize {
        self.area.height.saturating_sub(self.line).into()
    }
}

/// Which agent, interface and window, and whether this is live.
fn heading(state: &State, look: Look, width: usize) -> Line<'static> {
    let (name, at, count) = state.interface();
    let of = match count {
        0 | 1 => String::new(),
        _ => format!(" ({at} of {count})"),
    };
    let (agent, name) = (plain::text(&state.agent), plain::text(name));
    let window = state.window.name();
    let hitters = state.news.as_ref().and_then(|news| news.hitters.as_ref());
    let seconds = hitters.map_or_else(String::new, |hitters| {
        format!(", {}", units::duration(hitters.state.seconds))
    });
    let mut left = format!("{agent}  {name}{of}  {window} window{seconds}");
    let (right, style) = match (&state.trouble, state.paused) {
        (Some(_), _) => ("GONE", look.warning()),
        (None, true) => ("PAUSED", look.colour(Color::Yellow)),
        (None, false) => ("live", look.colour(Color::Green)),
    };
    let room = width.saturating_sub(right.len() + GAP);
    let program = "crane-agent at ";
    if program.len() + left.chars().count() <= room {
        left.insert_str(0, program);
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::from(vec![
        Span::styled(fit(&left, room, false), bold),
        Span::raw(" ".repeat(GAP)),
        Span::styled(right, style),
    ])
}

/// How much there is in all, or why nothing more is known.
fn traffic(state: &State, look: Look) -> Line<'static> {
    if let Some(trouble) = &state.trouble {
        let silent = state.silent();
        let text = format!(
            "no answer for {silent} s, asking on: {}",
            plain::text(trouble)
        );
        return Line::styled(text, look.warning());
    }
    let Some(news) = &state.news else {
        return Line::raw("asking …");
    };
    let Some(hitters) = &news.hitters else {
        return Line::raw("no window is complete yet; w shows the current one");
    };
    let (units, of) = (state.units, &hitters.state);
    let (packets, bytes) = (units.count(of.packets), units.bytes(of.bytes));
    let seconds = of.seen_seconds();
    let mut text = match seconds > 0.0 {
        true => format!(
            "{packets} packets ({}), {bytes} ({})",
            units.packets_per_second(of.packets as f64 / seconds),
            units.bits_per_second(8.0 * of.bytes as f64 / seconds)
        ),
        false => format!("{packets} packets, {bytes}"),
    };
    let mut interfaces = news.interfaces.interfaces.iter();
    let lost = interfaces.find(|one| one.interface == hitters.interface);
    let lost = lost.map_or(0, tabs::lost);
    if lost == 0 {
        return Line::raw(text);
    }
    text += ", ";
    let lost = format!("{} lost since the start", units.count(lost));
    Line::from(vec![Span::raw(text), Span::styled(lost, look.warning())])
}

/// All tabs, or whose peers these are.
fn headline(state: &State, look: Look, width: usize) -> Line<'static> {
    let chosen = look.colour(Color::Cyan).add_modifier(Modifier::REVERSED);
    if state.help {
        return Line::styled("keys", chosen);
    }
    if let Some(ip) = state.opened.last() {
        let node = state.news.as_ref().and_then(|news| news.node.as_ref());
        let name = match node {
            Some(Ok(node)) if node.ip == *ip => node.name.as_deref(),
            _ => None,
        };
        let who = format!("peers of {}", crate::names::show(ip, name));
        let which = "  the heaviest of them; Esc: back";
        return Line::from(vec![Span::styled(who, chosen), Span::raw(which)]);
    }
    let titles = |long: bool| {
        let each = Tab::ALL.into_iter().enumerate().map(move |(at, tab)| {
            let (title, short) = tab.titles();
            format!("{} {}", at + 1, if long { title } else { short })
        });
        each.collect::<Vec<_>>()
    };
    let mut all = titles(true);
    if all.join(" ").len() > width {
        all = titles(false);
    }
    let mut spans = Vec::new();
    for (tab, title) in Tab::ALL.into_iter().zip(all) {
        let style = if tab == state.tab {
            chosen
        } else {
            Style::new()
        };
        spans.extend([Span::styled(title, style), Span::raw(" ")]);
    }
    Line::from(spans)
}

/// What the node whose peers are shown has sent and received, in words.
fn about_node(state: &State) -> Vec<String> {
    let Some(ip) = state.opened.last() else {
        return Vec::new();
    };
    let node = state.news.as_ref().and_then(|news| news.node.as_ref());
    let node = match node {
        Some(Ok(node)) if node.ip == *ip => node,
        Some(Err(why)) => return vec![plain::text(why).into_owned()],
        _ => return vec!["asking …".into()],
    };
    let never = "nothing, for certain";
    let [sent, received] = [&node.sent, &node.received]
        .map(|estimate| report::answer::lines(estimate, None, never, state.units));
    let to = report::answer::peers("to", &node.fan_out, state.units);
    let from = report::answer::peers("from", &node.fan_in, state.units);
    let one = |what: &str, lines: Vec<String>, peers: Option<String>| {
        let lines = lines.into_iter().chain(peers).enumerate();
        let what = what.to_owned();
        lines
            .map(|(at, line)| format!("{:<9}{line}", if at == 0 { &what } else { "" }))
            .collect::<Vec<_>>()
    };
    let mut lines = one("sent", sent, to);
    lines.extend(one("received", received, from));
    lines
}

fn draw_table(state: &State, look: Look, table: &Table, page: &mut Page) {
    let width = page.area.width as usize;
    if table.rows.is_empty() {
        let why = match (state.filter.is_empty(), state.opened.is_empty()) {
            (false, _) => format!(
                "nothing with {:?} here; Esc takes the filter away",
                state.filter
            ),
            (true, true) => state.tab.why_empty().to_owned(),
            (true, false) => "none of its pairs is heavy enough to be known by name".into(),
        };
        if state.news.is_some() {
            page.push(Line::raw(format!("  {why}")));
        }
        return;
    }
    let shown = layout(table, state.sort().column, width);
    let titles = shown.iter().map(|(at, width)| {
        let column = &table.columns[*at];
        let sort = state.sort();
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
    let first = (cursor + 1).saturating_sub(room);
    let most = most(table);
    for (at, row) in table.rows.iter().enumerate().skip(first).take(room) {
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

/// The longest bar.
fn most(table: &Table) -> f64 {
    let cells = table.rows.iter().flat_map(|row| &row.cells);
    let bars = cells.filter_map(|cell| match cell {
        Cell::Bar(_, high) => Some(*high),
        _ => None,
    });
    bars.fold(0.0, f64::max)
}

/// A row; of the one under the cursor the address that Enter opens stands out.
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

fn footer(state: &State, look: Look) -> Line<'static> {
    let filter = plain::text(&state.filter);
    if state.typing {
        return Line::styled(
            format!("/{filter}▏ Enter: keep  Esc: none"),
            look.colour(Color::Yellow),
        );
    }
    let keys = "? help  / filter  s sort  space pause  Enter peers  q quit";
    if state.filter.is_empty() {
        return Line::raw(keys);
    }
    let shown = format!("only {filter:?}  ");
    Line::from(vec![
        Span::styled(shown, look.colour(Color::Yellow)),
        Span::raw(keys),
    ])
}
