//! The lines above the table: the agent, the total traffic, and the tabs.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::draw::Look;
use super::layout::{GAP, fit};
use super::opened::Details;
use super::state::State;
use super::tabs::{self, Tab};
use crate::text::plain;
use crate::text::units;
use crate::window::state::WindowState;

/// Agent, interface, window and order, and whether the view is live.
pub fn heading(state: &State, look: Look, width: usize) -> Line<'static> {
    let (name, at, count) = state.interface();
    let of = match count {
        0 | 1 => String::new(),
        _ if state.shows_all() => format!(" ({count})"),
        _ => format!(" ({at} of {count})"),
    };
    let (agent, name) = (plain::text(&state.agent), plain::text(name));
    let window = state.window.name();
    let seconds = window_of(state).map_or_else(String::new, |window| {
        format!(", {}", units::duration(window.time.seconds))
    });
    let order = match state.ordered_by() {
        period @ ("2 s" | "10 s") => format!("by rate of {period}"),
        column => format!("by {column}"),
    };
    let mut left = format!("{agent}  {name}{of}  {window} window{seconds}  {order}");
    let (right, style) = match (&state.failure, state.paused) {
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

/// The window of the rows, at the moment of their answer. `None` with several interfaces.
fn window_of(state: &State) -> Option<&WindowState> {
    let update = state.update.as_ref()?;
    if let Some(details) = state.details() {
        return details.as_ref().ok().map(Details::state);
    }
    if state.tab == Tab::Interfaces && state.opened.is_empty() {
        let name = update.interface.as_deref()?;
        let mut all = update.interfaces.interfaces.iter();
        let one = all.find(|one| one.interface == name)?;
        return Some(tabs::window_of(update, one));
    }
    match &update.hitters[..] {
        [one] => Some(&one.state),
        _ => None,
    }
}

/// The total traffic, or why the agent does not answer.
pub fn traffic(state: &State, look: Look) -> Line<'static> {
    if let Some(failure) = &state.failure {
        let silent = state.seconds_without_answer();
        let text = format!(
            "no answer for {silent} s, still trying: {}",
            plain::text(failure)
        );
        return Line::styled(text, look.warning());
    }
    let Some(update) = &state.update else {
        return Line::raw("asking …");
    };
    let units = state.units;
    if state.shows_all() && update.hitters.len() > 1 {
        // A packet may have passed several interfaces.
        let each = update.hitters.iter().map(|one| {
            let seconds = one.state.seen_seconds().max(f64::MIN_POSITIVE);
            let bits = 8.0 * one.state.bytes as f64 / seconds;
            let bits = if one.state.bytes == 0 { 0.0 } else { bits };
            let name = plain::text(&one.interface);
            format!("{name} {}", units.bits_per_second(bits))
        });
        let each = each.collect::<Vec<_>>().join(", ");
        return Line::raw(format!("not added up: {each}"));
    }
    let Some(of) = window_of(state) else {
        return Line::raw("no window is complete yet; w shows the current one");
    };
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
    let mut interfaces = update.interfaces.interfaces.iter();
    let lost = interfaces.find(|one| Some(&one.interface) == update.interface.as_ref());
    let lost = lost.map_or(0, tabs::lost);
    if lost == 0 {
        return Line::raw(text);
    }
    text += ", ";
    let lost = format!("{} lost since the start", units.count(lost));
    Line::from(vec![Span::raw(text), Span::styled(lost, look.warning())])
}

/// All tabs, or the title of what is opened.
pub fn headline(state: &State, look: Look, width: usize) -> Line<'static> {
    let chosen = look.colour(Color::Cyan).add_modifier(Modifier::REVERSED);
    if state.help {
        return Line::styled("keys", chosen);
    }
    if let Some(opened) = state.opened.last() {
        let details = state.details().and_then(|details| details.as_ref().ok());
        let title = opened.title(details);
        let which = "  the heaviest of them; Esc: back";
        return Line::from(vec![Span::styled(title, chosen), Span::raw(which)]);
    }
    let tabs = state.tabs();
    let titles = |long: bool| {
        let each = tabs.iter().enumerate().map(|(at, tab)| {
            let (title, short) = tab.titles();
            // The key of the tenth tab is 0.
            format!("{} {}", (at + 1) % 10, if long { title } else { short })
        });
        each.collect::<Vec<_>>()
    };
    let mut all = titles(true);
    if all.join(" ").len() > width {
        all = titles(false);
    }
    let mut spans = Vec::new();
    for (tab, title) in tabs.iter().zip(all) {
        let style = if *tab == state.tab {
            chosen
        } else {
            Style::new()
        };
        spans.extend([Span::styled(title, style), Span::raw(" ")]);
    }
    Line::from(spans)
}
