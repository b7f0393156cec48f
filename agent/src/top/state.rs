//! What the view shows and what was pressed so far. Knows no terminal.

use std::net::IpAddr;
use std::time::Instant;

use super::feed::{News, Wanted};
use super::table::{Sort, Table};
use super::tabs::{self, Tab};
use crate::sketch::answer::{By, WindowName};
use crate::units::Units;

/// The view.
pub struct State {
    /// The agent, as it was named.
    pub agent: String,
    /// How numbers are shown.
    pub units: Units,
    /// The tab.
    pub tab: Tab,
    /// Nodes whose peers were opened, one from the other; the last is shown.
    pub opened: Vec<IpAddr>,
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
    /// Rows that there is room for.
    pub room: usize,
    by: By,
    interface: Option<String>,
    heard: Instant,
    sorts: [Sort; Tab::ALL.len()],
    peers_sort: Sort,
    row: usize,
    /// The row that the cursor follows; none for the place where it stands.
    followed: Option<String>,
}

impl State {
    /// Before the first answer.
    pub fn new(agent: &str, wanted: &Wanted, units: Units) -> Self {
        let mut state = Self {
            agent: agent.to_owned(),
            units,
            tab: Tab::default(),
            opened: Vec::new(),
            filter: String::new(),
            typing: false,
            paused: false,
            help: false,
            window: wanted.window,
            news: None,
            trouble: None,
            end: 0,
            room: 10,
            by: wanted.by,
            interface: wanted.interface.clone(),
            heard: Instant::now(),
            sorts: Tab::ALL.map(Tab::first_sort),
            peers_sort: tabs::PEERS_SORT,
            row: 0,
            followed: None,
        };
        if wanted.by == By::Bytes {
            // Bytes stand behind packets, where there are any.
            let with_bytes = Tab::ALL.iter().zip(&mut state.sorts);
            let with_bytes = with_bytes.filter(|(tab, _)| **tab != Tab::Fans);
            with_bytes.for_each(|(_, sort)| sort.column += 1);
        }
        state
    }

    /// What to ask the agent.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            interface: self.interface.clone(),
            window: self.window,
            by: self.by,
            node: self.opened.last().copied(),
        }
    }

    /// What the agent answered, or that it did not.
    pub fn hear(&mut self, news: anyhow::Result<News>) {
        match news {
            Ok(news) => {
                self.trouble = None;
                self.heard = Instant::now();
                let answers_this = news.wanted == self.wanted();
                let shows_it = self.news.as_ref().map(|news| &news.wanted) == Some(&news.wanted);
                // In a pause something else may be asked for, and is shown once.
                if !answers_this || self.paused && shows_it {
                    return;
                }
                if let Some(hitters) = &news.hitters {
                    self.interface = Some(hitters.interface.clone());
                }
                let wanted = self.wanted();
                self.news = Some(News { wanted, ..news });
            }
            Err(error) => self.trouble = Some(format!("{error:#}")),
        }
    }

    /// For how long the agent has not answered.
    pub fn silent(&self) -> u64 {
        self.heard.elapsed().as_secs()
    }

    /// The interface that is shown, and which one of how many it is.
    pub fn interface(&self) -> (&str, usize, usize) {
        let name = self.interface.as_deref().unwrap_or("no interface");
        let names = self.interfaces();
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
        let mut table = match (self.opened.last(), &news.node) {
            (None, _) => self.tab.table(news, self.by, self.units),
            (Some(ip), Some(Ok(node))) if node.ip == *ip => tabs::peers(node, self.units),
            (Some(_), _) => Table::default(),
        };
        table.filter(&self.filter);
        table.sort(self.sort());
        table
    }

    /// The order of the rows.
    pub fn sort(&self) -> Sort {
        match self.opened.is_empty() {
            true => self.sorts[self.tab as usize],
            false => self.peers_sort,
        }
    }

    fn set_sort(&mut self, sort: Sort) {
        match self.opened.is_empty() {
            true => self.sorts[self.tab as usize] = sort,
            false => self.peers_sort = sort,
        }
    }

    /// Orders by the next column, or the one before.
    pub fn sort_by_next(&mut self, back: bool) {
        let table = self.table();
        let column = table.next_column(self.sort().column, back);
        let reversed = false;
        self.set_sort(Sort { column, reversed });
        // The agent has a list of the heaviest by each.
        let title = table.columns.get(column).map_or("", |column| column.title);
        if self.opened.is_empty() {
            match title {
                "packets" => self.by = By::Packets,
                "bytes" | "rate" => self.by = By::Bytes,
                _ => {}
            }
        }
    }

    /// Turns the order round.
    pub fn reverse(&mut self) {
        let Sort { column, reversed } = self.sort();
        let reversed = !reversed;
        self.set_sort(Sort { column, reversed });
    }

    /// The row under the cursor.
    pub fn cursor(&self, table: &Table) -> usize {
        let followed = self.followed.as_deref();
        let at = table
            .rows
            .iter()
            .position(|row| Some(row.key.as_str()) == followed);
        at.unwrap_or(self.row)
            .min(table.rows.len().saturating_sub(1))
    }

    /// Moves the cursor by so many rows.
    pub fn step(&mut self, rows: isize) {
        let table = self.table();
        let last = table.rows.len().saturating_sub(1);
        self.row = self.cursor(&table).saturating_add_signed(rows).min(last);
        // At the top it stays there: who looks there wants to see who comes.
        let row = table.rows.get(self.row).filter(|_| self.row > 0);
        self.followed = row.map(|row| row.key.clone());
    }

    /// Another tab.
    pub fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.opened.clear();
        self.reset_cursor();
    }

    /// The next tab, or the one before.
    pub fn show_next(&mut self, back: bool) {
        let count = Tab::ALL.len();
        let step = if back { count - 1 } else { 1 };
        self.show(Tab::ALL[(self.tab as usize + step) % count]);
    }

    /// Opens what is under the cursor: the peers of an address, or an interface.
    pub fn open(&mut self) {
        let table = self.table();
        let Some(row) = table.rows.get(self.cursor(&table)) else {
            return;
        };
        let addresses = row.addresses();
        if let Some(ip) = addresses.get(self.end).or(addresses.last()) {
            self.opened.push(*ip);
            self.filter.clear();
            self.reset_cursor();
        } else if self.tab == Tab::Interfaces {
            self.interface = Some(row.key.clone());
            self.show(Tab::Pairs);
        }
    }

    /// Back to where an address was opened, or without the filter.
    pub fn back(&mut self) {
        if self.opened.pop().is_none() {
            self.filter.clear();
        }
        self.reset_cursor();
    }

    /// The interface after this one, or before it.
    pub fn next_interface(&mut self, back: bool) {
        let (_, at, count) = self.interface();
        if count == 0 {
            return;
        }
        let step = if back { count - 1 } else { 1 };
        let next = (at.max(1) - 1 + step) % count;
        self.interface = self.interfaces().get(next).map(|name| (*name).to_owned());
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
        (self.row, self.followed, self.end) = (0, None, 0);
    }
}
