//! The state of the view: what is shown, and what was chosen with keys. Independent of the
//! terminal.

use std::time::Instant;

use super::feed::{Chosen, MOST, Request, Update};
use super::found::{self, Found};
use super::opened::{Details, Opened};
use super::tabs::{self, Tab};
use crate::text::table::{Cell, Sort, Table};
use crate::text::units::Units;
use crate::traffic::question::{By, WindowName};
use crate::window::rates::{Order, Period};

/// The number of requested rows is a multiple of this, so that not every key changes the request.
const AT_ONCE: usize = 50;

/// The state of the view.
pub struct State {
    /// The agent, as given by the user.
    pub agent: String,
    pub units: Units,
    pub tab: Tab,
    /// What was opened, each from the one before. The last is shown.
    pub opened: Vec<Opened>,
    /// Only rows with this text are shown.
    pub filter: String,
    /// Whether keys are added to the filter.
    pub typing: bool,
    /// Whether new answers are ignored.
    pub paused: bool,
    /// Whether the list of keys is shown.
    pub help: bool,
    /// The window that is shown.
    pub window: WindowName,
    /// The latest answer.
    pub update: Option<Update>,
    /// Why the agent does not answer at present.
    pub failure: Option<String>,
    /// Index of the address under the cursor among the addresses of the row.
    pub end: usize,
    /// Whether this program receives mouse events. Otherwise the terminal selects text with the
    /// mouse.
    pub mouse: bool,
    /// Number of rows that fit on the screen.
    pub room: usize,
    /// Line of the first row on the screen.
    pub line: u16,
    /// Index of the first row on the screen.
    pub first: usize,
    order: Order,
    /// Whether all interfaces are shown in one view.
    all: bool,
    interface: Option<String>,
    /// Time of the latest answer.
    answered_at: Instant,
    /// The chosen order of each tab. `None` for the default.
    sorts: [Option<Sort>; Tab::COUNT],
    peers_sort: Option<Sort>,
    pairs_sort: Option<Sort>,
    /// Whether the agent has a list of autonomous systems.
    has_asns: bool,
    /// Row of the cursor.
    row: usize,
    /// Whether the cursor stays at the last row.
    at_end: bool,
    /// Key of the row that the cursor follows. `None` if it stays at its position.
    followed: Option<String>,
}

impl State {
    /// The state before the first answer.
    pub fn new(agent: &str, request: &Request, units: Units) -> Self {
        Self {
            agent: agent.to_owned(),
            units,
            tab: Tab::List(0),
            opened: Vec::new(),
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            window: request.window,
            update: None,
            failure: None,
            end: 0,
            mouse: false,
            room: 10,
            line: 0,
            first: 0,
            order: request.order,
            all: request.interfaces == Chosen::All,
            interface: match &request.interfaces {
                Chosen::One(name) => Some(name.clone()),
                Chosen::Busiest | Chosen::All => None,
            },
            answered_at: Instant::now(),
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
    pub fn request(&self) -> Request {
        let interfaces = match (self.all, &self.interface) {
            (true, _) => Chosen::All,
            (false, Some(name)) => Chosen::One(name.clone()),
            (false, None) => Chosen::Busiest,
        };
        Request {
            window: self.window,
            order: self.order,
            rows: self.rows_requested(),
            interfaces,
            opened: self.opened.last().cloned(),
            missing: self.missing(),
        }
    }

    /// As many rows as fit on the screen, and some more to scroll to. As many as possible if there
    /// is a filter.
    fn rows_requested(&self) -> usize {
        let shown = (self.row + 2 * self.room).div_ceil(AT_ONCE) * AT_ONCE;
        match self.filter.is_empty() && !self.at_end {
            true => shown.min(MOST),
            false => MOST,
        }
    }

    /// The filter, if no row matches and the agent can be asked about it.
    fn missing(&self) -> Option<String> {
        let is_missing = found::can_be_asked(&self.filter) && self.table().rows.is_empty();
        is_missing.then(|| self.filter.clone())
    }

    /// The answer about the filter, if no row matches.
    pub fn found(&self) -> Option<&Found> {
        let found = self.update.as_ref()?.found.as_ref()?;
        (found.text == self.filter).then_some(found)
    }

    /// The answer about what is opened.
    pub fn details(&self) -> Option<&Result<Details, String>> {
        let (opened, update) = (self.opened.last()?, self.update.as_ref()?);
        let details = update.details.as_ref();
        details.filter(|_| update.request.opened.as_ref() == Some(opened))
    }

    /// The tabs, from left to right.
    pub fn tabs(&self) -> Vec<Tab> {
        let has = |tab: &Tab| self.has_asns || !tab.is_of_asns();
        Tab::all().filter(has).collect()
    }

    /// Title of the column by which rows are ordered.
    pub fn ordered_by(&self) -> &'static str {
        let table = self.table();
        let column = table.columns.get(self.sort(&table).column);
        column.map_or(self.order.by().name(), |column| column.title)
    }

    /// Whether all interfaces are shown.
    pub fn shows_all(&self) -> bool {
        self.all
    }

    /// Takes an answer of the agent, or the reason why there is none.
    pub fn receive(&mut self, update: anyhow::Result<Update>) {
        match update {
            Ok(update) => {
                self.failure = None;
                self.answered_at = Instant::now();
                let request = self.request();
                // Whether a row matches the filter is known only after the rows.
                let answers_this = Request {
                    missing: request.missing.clone(),
                    ..update.request.clone()
                } == request;
                let shows_it =
                    self.update.as_ref().map(|update| &update.request) == Some(&update.request);
                // During a pause, the first answer to a changed request is shown.
                if !answers_this || self.paused && shows_it {
                    return;
                }
                if !self.all && update.interface.is_some() {
                    self.interface.clone_from(&update.interface);
                }
                self.keep(update);
            }
            Err(error) => self.failure = Some(format!("{error:#}")),
        }
    }

    /// Keeps an answer to show it.
    fn keep(&mut self, update: Update) {
        let request = Request {
            interfaces: self.request().interfaces,
            ..update.request
        };
        // The lists are kept while something is opened, and shown again after that.
        let mut hitters = update.hitters;
        if request.opened.is_some()
            && let Some(before) = self.update.take()
        {
            hitters = before.hitters;
            hitters.retain(|one| Some(&one.interface) == update.interface.as_ref());
        }
        // Only an answer with lists shows whether there is a list of AS.
        if let Some(one) = hitters.first() {
            self.has_asns = one.lists.asns.is_some();
        }
        if !self.tabs().contains(&self.tab) {
            self.show(Tab::List(0));
        }
        self.update = Some(Update {
            request,
            hitters,
            ..update
        });
    }

    /// Seconds since the latest answer.
    pub fn seconds_without_answer(&self) -> u64 {
        self.answered_at.elapsed().as_secs()
    }

    /// The interface that is shown, its number counted from 1, and the number of interfaces.
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
        let all = self
            .update
            .as_ref()
            .map(|update| &update.interfaces.interfaces);
        let all = all.into_iter().flatten();
        all.map(|one| one.interface.as_str()).collect()
    }

    /// The rows that are shown, in order.
    pub fn table(&self) -> Table {
        let Some(update) = &self.update else {
            return Table::default();
        };
        let mut table = match (self.opened.is_empty(), self.details()) {
            (true, _) => self.tab.table(update, self.order.by(), self.units),
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

    /// Orders by the next column, or by the previous one.
    pub fn sort_by_next(&mut self, back: bool) {
        let table = self.table();
        let column = table.next_column(self.sort(&table).column, back);
        let reversed = false;
        self.set_sort(Sort { column, reversed });
        // For these columns the agent has lists of the heaviest rows.
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

    /// Reverses the order.
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

    /// Moves the cursor by this many rows.
    pub fn step(&mut self, rows: isize) {
        let table = self.table();
        let last = table.rows.len().saturating_sub(1);
        self.row = self.cursor(&table).saturating_add_signed(rows).min(last);
        self.at_end = false;
        // At the top the cursor does not follow its row, so that new rows at the top are visible.
        let row = table.rows.get(self.row).filter(|_| self.row > 0);
        self.followed = row.map(|row| row.key.clone());
    }

    /// Moves the cursor to the last row, where it stays.
    pub fn go_to_end(&mut self) {
        self.at_end = true;
    }

    /// Selects the row on this line of the screen, or opens it if it is already selected.
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

    /// Shows another tab.
    pub fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.opened.clear();
        self.reset_cursor();
    }

    /// Shows the next tab, or the previous one.
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
            // Peers and pairs are shown for one interface only.
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

    /// Closes what was opened last. If nothing is opened, clears the filter.
    pub fn back(&mut self) {
        if self.opened.pop().is_none() {
            self.filter.clear();
        }
        self.reset_cursor();
    }

    /// Shows the next interface, or the previous one.
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

    /// Changes between all interfaces in one view and a single one.
    pub fn toggle_all(&mut self) {
        self.all = !self.all;
        self.sorts = [None; Tab::COUNT];
        self.opened.clear();
        self.reset_cursor();
    }

    /// Changes between the current window and the last complete one.
    pub fn next_window(&mut self) {
        self.window = match self.window {
            WindowName::Current => WindowName::Last,
            WindowName::Last => WindowName::Current,
        };
    }

    /// Moves the cursor to the first row, where it stays.
    pub fn reset_cursor(&mut self) {
        (self.row, self.followed, self.end, self.first) = (0, None, 0, 0);
        self.at_end = false;
    }

    /// Scrolls until the row of the cursor is visible.
    pub fn scroll(&mut self, rows: usize) {
        let cursor = self.cursor(&self.table());
        let room = self.room.max(1);
        let least = (cursor + 1).saturating_sub(room);
        let most = cursor.min(rows.saturating_sub(room));
        self.first = self.first.clamp(least.min(most), most);
    }
}

/// Replaces all bars by bars of the rate in this column.
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
