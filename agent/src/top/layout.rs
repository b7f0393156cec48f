//! The layout of columns in a given width: which are shown, how wide they are, and how text is cut.

use ratatui::text::Span;

use crate::text::table::{Cell, Table};

/// Spaces between columns.
pub const GAP: usize = 2;
/// Least and largest width of a bar.
const BAR: (usize, usize) = (6, 24);
/// Names are cut to the long width before columns are left out, and later to the short one.
const LONG_NAME: usize = 18;
const SHORT_NAME: usize = 7;

/// Which columns are shown, and how wide they are.
pub fn layout(table: &Table, sorted: usize, width: usize) -> Vec<(usize, usize)> {
    // The first two characters are for the mark of the cursor.
    let width = width.saturating_sub(2);
    let is_bar = |at: usize| matches!(table.rows[0].cells[at], Cell::Bar(..));
    let is_name = |at: usize| matches!(table.rows[0].cells[at], Cell::Name { .. });
    let needs = |at: usize| {
        let cells = table
            .rows
            .iter()
            .map(|row| text_width(row.cells[at].text()));
        let cells = cells.max().unwrap_or(0);
        let title = text_width(table.columns[at].title) + usize::from(at == sorted);
        match (is_bar(at), cells) {
            (true, _) => BAR.0,
            // A column without text, such as intervals if all numbers are exact, is left out.
            (false, 0) => 0,
            (false, cells) => cells.max(title),
        }
    };
    let mut shown: Vec<(usize, usize)> = (0..table.columns.len())
        .map(|at| (at, needs(at)))
        .filter(|(_, width)| *width > 0)
        .collect();
    let total = |shown: &[(usize, usize)]| -> usize {
        let widths = shown.iter().map(|(_, width)| width + GAP);
        widths.sum::<usize>().saturating_sub(GAP)
    };
    // If there is too little room, long names are cut first, then columns are left out, then names
    // are cut further.
    let full_widths = shown.clone();
    let names = shown.iter_mut().filter(|(at, _)| is_name(*at));
    names.for_each(|(_, width)| *width = (*width).min(LONG_NAME));
    while total(&shown) > width {
        // The column that rows are sorted by is never left out.
        let rank = |(at, _): &&(usize, usize)| match *at == sorted {
            true => 0,
            false => table.columns[*at].rank,
        };
        let worst = shown.iter().max_by_key(rank).copied();
        match worst.filter(|worst| rank(&worst) > 0) {
            Some(worst) => shown.retain(|one| *one != worst),
            None => break,
        }
    }
    while total(&shown) > width {
        let names = shown.iter_mut().filter(|(at, _)| is_name(*at));
        let longest = names.max_by_key(|(_, width)| *width);
        match longest.filter(|(_, width)| *width > SHORT_NAME) {
            Some((_, width)) => *width -= 1,
            None => break,
        }
    }
    // The remaining room goes to names in turn, then to the bar.
    let mut left = width.saturating_sub(total(&shown));
    let mut grown = true;
    while left > 0 && grown {
        grown = false;
        for (at, wide) in &mut shown {
            let full = full_widths.iter().find(|(column, _)| column == at);
            if left > 0 && full.is_some_and(|(_, full)| *wide < *full) {
                (*wide, left, grown) = (*wide + 1, left - 1, true);
            }
        }
    }
    if let Some((_, wide)) = shown.iter_mut().find(|(at, _)| is_bar(*at)) {
        *wide = (*wide + left).min(BAR.1);
    }
    shown
}

/// A bar that is full up to `low`, and light from there to `high`.
pub fn bar(low: f64, high: f64, most: f64, width: usize) -> String {
    let cells = |value: f64| match most > 0.0 {
        true => (value / most * width as f64).round() as usize,
        false => 0,
    };
    let full = cells(low).min(width);
    let light = cells(high).min(width) - full;
    let empty = width - full - light;
    format!(
        "{}{}{}",
        "█".repeat(full),
        "░".repeat(light),
        " ".repeat(empty)
    )
}

fn text_width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Text in a given width: filled with spaces, or cut in the middle, because addresses often differ
/// only at their ends.
pub fn fit(text: &str, width: usize, right: bool) -> String {
    let mut text = text.to_owned();
    if text_width(&text) > width {
        let mut letters: Vec<char> = text.chars().collect();
        let shown = |letters: &[char]| text_width(&letters.iter().collect::<String>());
        while !letters.is_empty() && shown(&letters) + 1 > width {
            letters.remove(letters.len() / 2);
        }
        if width > 0 {
            letters.insert(letters.len().div_ceil(2), '…');
        }
        text = letters.into_iter().collect();
    }
    let space = " ".repeat(width.saturating_sub(text_width(&text)));
    match right {
        true => space + &text,
        false => text + &space,
    }
}
