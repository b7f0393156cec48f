//! What the view shows and what was pressed so far. Knows no terminal.

use std::time::Instant;

use super::feed::{Chosen, MOST, News, Wanted};
use super::found::{self, Found};
use super::opened::{Details, Opened};
use super::tabs::{self, Tab};
use crate::text::table::{Cell, Sort, Table};
use crate::text::units::Units;
use crate::traffic::question::{By, WindowName};
use crate::window::rates::{Order, Period};

/// Rows are asked for in steps of this, so that not every key is another question.
const AT_ONCE: usize = 50;

/// The view.
pub struct State {
    /// The agent, as it was named.
    pub agent: String,
    /// How numbers are shown.
    pub units: Units,
    /// The tab.
    pub tab: Tab,
    /// What was opened, one from the other; the last is shown.
    pub opened: Vec<Opened>,
    /// Only rows with this text.
    pub filter: String,
    /// Whether the filter is being written.
    pub typing: bool,
    /// Whether what is shown stays as it is.
    pub paused: bool,
    /// Whether all keys are explained.
    pub help: bool,
    /// The window that is shown.
    pub window: WindowName,
    /// The last answer.
    pub news: Option<News>,
    /// Why there is none any more.
    pub trouble: Option<String>,
    /// Which of the addresses of a row is under the cursor.
    pub end: usize,
    /// Whether the mouse is ours and not the terminal's, which selects text with it.
    pub mouse: bool,
    /// Rows that there is room for, and the line of the first.
    pub room: usize,
    pub line: u16,
    /// The first row on the screen.
    pub first: usize,
    order: Order,
    /// All of them in one view.
    all: bool,
    interface: Option<String>,
    heard: Instant,
    /// How each tab is ordered, if not as it is at first.
    sorts: [Option<Sort>; Tab::COUNT],
    peers_sort: Option<Sort>,
    pairs_sort: Option<Sort>,
    /// Whether the agent has a list of autonomous systems.
    has_asns: bool,
    row: usize,
    /// Whether it is at the end, wherever that is.
    at_end: bool,
    /// The row that the cursor follows; none for the place where it stands.
    followed: Option<String>,
}

impl State {
    /// Before the first answer.
    pub fn new(agent: &str, wanted: &Wanted, units: Units) -> Self {
        Self {
            agent: agent.to_owned(),
            units,
            tab: Tab::List(0),
            opened: Vec::new(),
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            window: wanted.window,
            news: None,
            trouble: None,
            end: 0,
            mouse: false,
            room: 10,
            line: 0,
            first: 0,
            order: wanted.order,
            all: wanted.interfaces == Chosen::All,
            interface: match &wanted.interfaces {
                Chosen::One(name) => Some(name.clone()),
                Chosen::Busiest | Chosen::All => None,
            },
            heard: Instant::now(),
            sorts: [None; Tab::COUNT],
            peers_sort: None,
            pairs_sort: None,
            has_asns: false,
            row: 0,
            at_end: false,
            followed: None,
        }
    }

    /// What to ask the agent.
    pub fn wanted(&self) -> Wanted {
        let interfaces = match (self.all, &self.interface) {
            (true, _) => Chosen::All,
            (false, Some(name)) => Chosen::One(name.clone()),
            (false, None) => Chosen::Busiest,
        };
        Wanted {
            window: self.window,
            order: self.order,
            rows: self.rows_wanted(),
            interfaces,
            opened: self.opened.last().cloned(),
            missing: self.missing(),
        }
    }

    /// As many as the screen has room for, and some to scroll to; all there are to find
    /// something in them.
    fn rows_wanted(&self) -> usize {
        let shown = (self.row + 2 * self.room).div_ceil(AT_ONCE) * AT_ONCE;
        match self.filter.is_empty() && !self.at_end {
            true => shown.min(MOST),
            false => MOST,
        }
    }

    /// What is looked for and in no row, if the agent can be asked about it.
    fn missing(&self) -> Option<String> {
        let is_missing = found::can_be_asked(&self.filter) && self.table().rows.is_empty();
        is_missing.then(|| self.filter.clone())
    }

    /// What the agent knows of what no row has.
    pub fn found(&self) -> Option<&Found> {
        let found = self.news.as_ref()?.found.as_ref()?;
        (found.text == self.filter).then_some(found)
    }

    /// What the agent knows of what is opened.
    pub fn details(&self) -> Option<&Result<Details, String>> {
        let (opened, news) = (self.opened.last()?, self.news.as_ref()?);
        let details = news.details.as_ref();
        details.filter(|_| news.wanted.opened.as_ref() == Some(opened))
    }

    /// The tabs, from left to right.
    pub fn tabs(&self) -> Vec<Tab> {
        let has = |tab: &Tab| self.has_asns || !tab.is_of_asns();
        Tab::all().filter(has).collect()
    }

    /// What rows are ordered by: the title of a column.
    pub fn ordered_by(&self) -> &'static str {
        let table = self.table();
        let column = table.columns.get(self.sort(&table).column);
        column.map_or(self.order.by().name(), |column| column.title)
    }

    /// Whether all interfaces are shown.
    pub fn shows_all(&self) -> bool {
        self.all
    }

    /// What the agent answered, or that it did not.
    pub fn hear(&mut self, news: anyhow::Result<News>) {
        match news {
            Ok(news) => {
                self.trouble = None;
                self.heard = Instant::now();
                let wanted = self.wanted();
                // What no row has is known only after the rows.
                let answers_this = Wanted {
                    missing: wanted.missing.clone(),
                    ..news.wanted.clone()
                } == wanted;
                let shows_it = self.news.as_ref().map(|news| &news.wanted) == Some(&news.wanted);
                // In a pause something else may be asked for, and is shown once.
                if !answers_this || self.paused && shows_it {
                    return;
                }
                if !self.all && news.interface.is_some() {
                    self.interface.clone_from(&news.interface);
                }
                self.keep(news);
            }
            Err(error) => self.trouble = Some(format!("{error:#}")),
        }
    }

    /// Keeps an answer to show it.
    fn keep(&mut self, news: News) {
        let wanted = Wanted {
            interfaces: self.wanted().interfaces,
            ..news.wanted
        };
        // Who comes back from what was opened finds the lists as they were.
        let mut hitters = news.hitters;
        if wanted.opened.is_some()
            && let Some(before) = self.news.take()
        {
            hitters = before.hitters;
            hitters.retain(|one| Some(&one.interface) == news.interface.as_ref());
        }
        // Without lists the agent has not told.
        if let Some(one) = hitters.first() {
            self.has_asns = one.lists.asns.is_some();
        }
        if !self.tabs().contains(&self.tab) {
            self.show(Tab::List(0));
        }
        self.news = Some(News {
            wanted,
            hitters,
            ..news
        });
    }

    /// For how long the agent has not answered.
    pub fn silent(&self) -> u64 {
        self.heard.elapsed().as_secs()
    }

    /// The interface that is shown, and which one of how many it is.
    pub fn interface(&self) -> (&str, usize, usize) {
        let names = self.interfaces();
        if self.all {
            return ("all interfaces", 0, names.len());
        }
        let name = self.interface.as_deref().unwrap_or("no interface");
        let at = names.iter().position(|one| *one == name);
        (name, at.map_or(0, |at| at + 1), names.len())
    }

    fn interfaces(&self) -> Vec<&str> {
        let all = self.news.as_ref().map(|news| &news.interfaces.interfaces);
        let all = all.into_iter().flatten();
        all.map(|one| one.interface.as_str()).collect()
    }

    /// The rows that are shown, in order.
    pub fn table(&self) -> Table {
        let Some(news) = &self.news else {
            return Table::default();
        };
        let mut table = match (self.opened.is_empty(), self.details()) {
            (true, _) => self.tab.table(news, self.order.by(), self.units),
            (false, Some(Ok(details))) => details.table(self.units),
            (false, _) => Table::default(),
        };
        table.filter(&self.filter);
        let sort = self.sort(&table);
        table.sort(sort);
        let title = table.columns.get(sort.column).map(|column| column.title);
        if matches!(title, Some("rate" | "2 s" | "10 s")) {
            show_rates(&mut table, sort.column);
        }
        table
    }

    /// The order of the rows of a table.
    pub fn sort(&self, table: &Table) -> Sort {
        let chosen = match self.opened.last() {
            None => self.sorts[self.tab.place()],
            Some(Opened::Node(_)) => self.peers_sort,
            Some(Opened::Service(_)) => self.pairs_sort,
        };
        let chosen = chosen.filter(|sort| sort.column < table.columns.len());
        let title = match (self.order, self.opened.is_empty()) {
            (Order::Rate(Period::TwoSeconds), true) => "2 s",
            (Order::Rate(Period::TenSeconds), true) => "10 s",
            _ => "",
        };
        let mut columns = table.columns.iter();
        let by_rate = columns.position(|column| !title.is_empty() && column.title == title);
        chosen.unwrap_or(Sort {
            column: by_rate.unwrap_or(table.sort),
            reversed: false,
        })
    }

    fn set_sort(&mut self, sort: Sort) {
        match self.opened.last() {
            None => self.sorts[self.tab.place()] = Some(sort),
            Some(Opened::Node(_)) => self.peers_sort = Some(sort),
            Some(Opened::Service(_)) => self.pairs_sort = Some(sort),
        }
    }

    /// Orders by the next column, or the one before.
    pub fn sort_by_next(&mut self, back: bool) {
        let table = self.table();
        let column = table.next_column(self.sort(&table).column, back);
        let reversed = false;
        self.set_sort(Sort { column, reversed });
        // The agent has a list of the heaviest by each.
        let title = table.columns.get(column).map_or("", |column| column.title);
        if self.opened.is_empty() {
            match title {
                "packets" => self.order = Order::Window(By::Packets),
                "bytes" | "rate" => self.order = Order::Window(By::Bytes),
                "2 s" => self.order = Order::Rate(Period::TwoSeconds),
                "10 s" => self.order = Order::Rate(Period::TenSeconds),
                _ => {}
            }
        }
    }

    /// Turns the order round.
    pub fn reverse(&mut self) {
        let Sort { column, reversed } = self.sort(&self.table());
        let reversed = !reversed;
        self.set_sort(Sort { column, reversed });
    }

    /// The row under the cursor.
    pub fn cursor(&self, table: &Table) -> usize {
        let last = table.rows.len().saturating_sub(1);
        if self.at_end {
            return last;
        }
        let followed = self.followed.as_deref();
        let at = table
            .rows
            .iter()
            .position(|row| Some(row.key.as_str()) == followed);
        at.unwrap_or(self.row).min(last)
    }

    /// Moves the cursor by so many rows.
    pub fn step(&mut self, rows: isize) {
        let table = self.table();
        let last = table.rows.len().saturating_sub(1);
        self.row = self.cursor(&table).saturating_add_signed(rows).min(last);
        self.at_end = false;
        // At the top it stays there: who looks there wants to see who comes.
        let row = table.rows.get(self.row).filter(|_| self.row > 0);
        self.followed = row.map(|row| row.key.clone());
    }

    /// Moves the cursor to the last row there is.
    pub fn go_to_end(&mut self) {
        self.at_end = true;
    }

    /// The row on this line of the screen; opens it if it is chosen already.
    pub fn click(&mut self, line: u16) {
        let table = self.table();
        let Some(at) = line.checked_sub(self.line).map(usize::from) else {
            return;
        };
        if at >= self.room || self.first + at >= table.rows.len() {
            return;
        }
        let (cursor, at) = (self.cursor(&table), self.first + at);
        match cursor == at {
            true => self.open(),
            false => self.step(at as isize - cursor as isize),
        }
    }

    /// Another tab.
    pub fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.opened.clear();
        self.reset_cursor();
    }

    /// The next tab, or the one before.
    pub fn show_next(&mut self, back: bool) {
        let tabs = self.tabs();
        let at = tabs.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        let step = if back { tabs.len() - 1 } else { 1 };
        self.show(tabs[(at + step) % tabs.len()]);
    }

    /// Opens what is under the cursor: the peers of an address, the pairs of a service, or an
    /// interface.
    pub fn open(&mut self) {
        let table = self.table();
        let Some(row) = table.rows.get(self.cursor(&table)) else {
            if let Some(details) = self.found().and_then(Found::details) {
                let (opened, interface) = (details.opened(), details.interface().to_owned());
                (self.all, self.interface) = (false, Some(interface));
                self.open_one(opened);
            }
            return;
        };
        let addresses = row.addresses();
        let opened = match addresses.get(self.end).or(addresses.last()) {
            Some(ip) => Some(Opened::Node(*ip)),
            None => self.tab.service_of(row).map(Opened::Service),
        };
        if let Some(opened) = opened {
            // Peers and pairs are those on one interface.
            if let Some(interface) = tabs::interface_of(row) {
                (self.all, self.interface) = (false, Some(interface.to_owned()));
            }
            self.open_one(opened);
        } else if self.tab == Tab::Interfaces {
            (self.all, self.interface) = (false, Some(row.key.clone()));
            self.show(Tab::List(0));
        }
    }

    fn open_one(&mut self, opened: Opened) {
        self.opened.push(opened);
        self.filter.clear();
        self.reset_cursor();
    }

    /// Back to where something was opened, or without the filter.
    pub fn back(&mut self) {
        if self.opened.pop().is_none() {
            self.filter.clear();
        }
        self.reset_cursor();
    }

    /// The interface after this one, or before it.
    pub fn next_interface(&mut self, back: bool) {
        self.all = false;
        let (_, at, count) = self.interface();
        if count == 0 {
            return;
        }
        let step = if back { count - 1 } else { 1 };
        let next = (at.max(1) - 1 + step) % count;
        self.interface = self.interfaces().get(next).map(|name| (*name).to_owned());
        self.reset_cursor();
    }

    /// All interfaces in one view, or one of them again.
    pub fn toggle_all(&mut self) {
        self.all = !self.all;
        self.sorts = [None; Tab::COUNT];
        self.opened.clear();
        self.reset_cursor();
    }

    /// The other window.
    pub fn next_window(&mut self) {
        self.window = match self.window {
            WindowName::Current => WindowName::Last,
            WindowName::Last => WindowName::Current,
        };
    }

    /// The cursor to the first row, to stay there.
    pub fn reset_cursor(&mut self) {
        (self.row, self.followed, self.end, self.first) = (0, None, 0, 0);
        self.at_end = false;
    }

    /// Scrolls as far as the cursor needs it.
    pub fn scroll(&mut self, rows: usize) {
        let cursor = self.cursor(&self.table());
        let room = self.room.max(1);
        let least = (cursor + 1).saturating_sub(room);
        let most = cursor.min(rows.saturating_sub(room));
        self.first = self.first.clamp(least.min(most), most);
    }
}

/// Bars are of the rate that rows are sorted by.
fn show_rates(table: &mut Table, column: usize) {
    for row in &mut table.rows {
        let rate = match row.cells.get(column) {
            Some(Cell::Number { size, .. }) => size.max(0.0),
            _ => continue,
        };
        let bars = row.cells.iter_mut();
        bars.filter(|cell| matches!(cell, Cell::Bar(..)))
            .for_each(|cell| *cell = Cell::Bar(rate, rate));
    }
}
