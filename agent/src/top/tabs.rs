//! The tabs, and the table of each, made from the answers of the agent.

use super::feed::{Chosen, Update};
use crate::http::answers::{InterfaceHitters, InterfaceState};
use crate::text::plain;
use crate::text::table::{Cell, Column, Row, Table};
use crate::text::units::Units;
use crate::traffic::question::{By, WindowName};
use crate::traffic::service::filter::ServiceFilter;
use crate::window::list::{Key, List, Numbers, Value};
use crate::window::lists::{LISTS, ListName, Visitor};
use crate::window::state::WindowState;

/// Separates the interface of a row from the rest of its key.
const BEHIND_INTERFACE: char = '\n';

/// A tab: one for each list of a window, and two more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// A list, by its index in [`LISTS`].
    List(usize),
    /// Traffic between named networks.
    Groups,
    Interfaces,
}

impl Tab {
    pub const COUNT: usize = LISTS.len() + 2;

    /// The tab at an index, counted from the left.
    pub fn at(place: usize) -> Option<Self> {
        const GROUPS: usize = LISTS.len();
        const INTERFACES: usize = LISTS.len() + 1;
        match place {
            0..GROUPS => Some(Self::List(place)),
            GROUPS => Some(Self::Groups),
            INTERFACES => Some(Self::Interfaces),
            _ => None,
        }
    }

    /// All tabs, from left to right.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).filter_map(Self::at)
    }

    /// Index of the tab, counted from the left.
    pub fn place(self) -> usize {
        match self {
            Self::List(place) => place,
            Self::Groups => LISTS.len(),
            Self::Interfaces => LISTS.len() + 1,
        }
    }

    /// Long and short title.
    pub fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::List(place) => LISTS[place].titles,
            Self::Groups => ("groups", "grp"),
            Self::Interfaces => ("interfaces", "if"),
        }
    }

    fn is_list(self, name: &str) -> bool {
        matches!(self, Self::List(at) if LISTS[at].name == name)
    }

    /// Whether it is the list of AS, which only an agent with a database of AS numbers has.
    pub fn is_of_asns(self) -> bool {
        self.is_list("asns")
    }

    /// The service of a row, if this is the list of services.
    pub fn service_of(self, row: &Row) -> Option<ServiceFilter> {
        let (_, key) = row
            .key
            .rsplit_once(BEHIND_INTERFACE)
            .unwrap_or(("", &row.key));
        ServiceFilter::of_row(key).filter(|_| self.is_list("services"))
    }

    /// Why the table is empty.
    pub fn why_empty(self, update: &Update, units: Units) -> String {
        match self {
            tab if tab.is_of_asns() => {
                "no packets in this window yet, or lookup.asn has none of their addresses".into()
            }
            Self::Groups => {
                "no networks have names: [[names]] in the configuration gives them".into()
            }
            Self::Interfaces => "the agent has no interface yet".into(),
            Self::List(place) => match most_peers(&LISTS[place], update) {
                Some(most) => LISTS[place].none_stands_out(most, &units.count(most)),
                None => "no packets in this window yet, or no address stands out".into(),
            },
        }
    }

    /// The table. With several interfaces it has the rows of each, which are not added up because a
    /// packet may have passed several interfaces.
    pub fn table(self, update: &Update, by: By, units: Units) -> Table {
        if self == Self::Interfaces {
            return interfaces(update, units);
        }
        let of = |hitters: &InterfaceHitters| match self {
            Self::List(place) => list(place, hitters, by, units),
            _ => groups(update, hitters, by, units),
        };
        if update.request.interfaces != Chosen::All {
            return update.hitters.first().map(of).unwrap_or_default();
        }
        let mut all = Table::default();
        for hitters in &update.hitters {
            let mut table = of(hitters);
            table.columns.insert(0, Column::new("interface"));
            table.sort += 1;
            let shown = plain::text(&hitters.interface);
            let rows = table.rows.drain(..).map(|mut row| {
                row.key = format!("{}{BEHIND_INTERFACE}{}", hitters.interface, row.key);
                row.cells.insert(0, Cell::name(shown.clone()));
                row
            });
            all.rows.extend(rows);
            // A table without rows may have fewer columns.
            if all.columns.len() < table.columns.len() {
                (all.columns, all.sort) = (table.columns, table.sort);
            }
        }
        let columns = all.columns.len();
        all.rows.retain(|row| row.cells.len() == columns);
        all
    }
}

/// The interface of a row, if the table has several interfaces.
pub fn interface_of(row: &Row) -> Option<&str> {
    let (interface, _) = row.key.split_once(BEHIND_INTERFACE)?;
    Some(interface)
}

fn list(place: usize, hitters: &InterfaceHitters, by: By, units: Units) -> Table {
    let window = &hitters.state;
    let mut picked = Picked {
        name: &LISTS[place],
        numbers: Numbers {
            units,
            by,
            total: [window.packets, window.bytes],
            seconds: Some(window.seen_seconds()),
        },
        table: Table::default(),
    };
    let Ok(()) = hitters.lists.visit(&mut picked);
    picked.table
}

/// The number of peers that no address exceeds on any of the interfaces, if this is an empty list
/// of addresses by peers and the number is known.
fn most_peers(name: &'static ListName, update: &Update) -> Option<u64> {
    struct Bound(&'static ListName, Option<u64>);
    impl Visitor for Bound {
        type Error = std::convert::Infallible;

        fn visit<K: Key, V: Value>(
            &mut self,
            name: &'static ListName,
            list: &List<K, V>,
        ) -> Result<(), Self::Error> {
            if name == self.0 && !V::HAS_BYTES {
                self.1 = list.others_at_most;
            }
            Ok(())
        }
    }
    let bounds = update.hitters.iter().map(|hitters| {
        let mut bound = Bound(name, None);
        let Ok(()) = hitters.lists.visit(&mut bound);
        bound.1
    });
    let bounds: Option<Vec<u64>> = bounds.collect();
    bounds?.into_iter().max().filter(|most| *most > 0)
}

/// Makes the table of one list.
struct Picked {
    name: &'static ListName,
    numbers: Numbers,
    table: Table,
}

impl Visitor for Picked {
    type Error = std::convert::Infallible;

    fn visit<K: Key, V: Value>(
        &mut self,
        name: &'static ListName,
        list: &List<K, V>,
    ) -> Result<(), Self::Error> {
        if name == self.name {
            self.table = list.table(&self.numbers, name.heads, name.counts);
        }
        Ok(())
    }
}

/// Traffic between named networks. It is counted since the start, so there is no rate.
fn groups(update: &Update, hitters: &InterfaceHitters, by: By, units: Units) -> Table {
    let mut interfaces = update.interfaces.interfaces.iter();
    let state = interfaces.find(|one| one.interface == hitters.interface);
    let groups = state.and_then(|state| state.groups.as_deref());
    let groups = groups.unwrap_or_default();
    let size = |packets: u64, bytes: u64| match by {
        By::Packets => packets,
        By::Bytes => bytes,
    };
    let all = groups.iter();
    let total: u64 = all
        .map(|one| size(one.traffic.packets, one.traffic.bytes))
        .sum();
    let rows = groups.iter().map(|group| {
        let (packets, bytes) = (group.traffic.packets, group.traffic.bytes);
        let share = size(packets, bytes) as f64 / total.max(1) as f64;
        Row {
            key: format!("{} {}", group.src, group.dst),
            cells: vec![
                Cell::name(plain::text(&group.src)),
                Cell::name(plain::text(&group.dst)),
                Cell::number(units.count(packets), packets as f64),
                Cell::number(units.bytes(bytes), bytes as f64),
                Cell::number(format!("{:.2}%", 100.0 * share), share),
                Cell::Bar(share, share),
            ],
        }
    });
    Table {
        columns: vec![
            Column::new("from"),
            Column::new("to"),
            Column::new("packets"),
            Column::new("bytes"),
            Column::optional("share", 1),
            Column::optional("", 2),
        ],
        rows: rows.collect(),
        sort: 2 + usize::from(by == By::Bytes),
    }
}

/// The window of this interface that is shown.
pub fn window_of<'a>(update: &Update, one: &'a InterfaceState) -> &'a WindowState {
    let last = one.last.as_ref();
    let last = last.filter(|_| update.request.window == WindowName::Last);
    last.unwrap_or(&one.current)
}

fn interfaces(update: &Update, units: Units) -> Table {
    let rows = update.interfaces.interfaces.iter().map(|one| {
        let window = window_of(update, one);
        let seconds = window.seen_seconds();
        let rate = match seconds > 0.0 {
            true => 8.0 * window.bytes as f64 / seconds,
            false => 0.0,
        };
        let lost = lost(one);
        let memory = one.memory_bytes as u64;
        Row {
            key: one.interface.clone(),
            cells: vec![
                Cell::name(plain::text(&one.interface)),
                Cell::name(if one.up { "up" } else { "down" }),
                Cell::number(units.count(window.packets), window.packets as f64),
                Cell::number(units.bytes(window.bytes), window.bytes as f64),
                Cell::number(units.bits_per_second(rate), rate),
                Cell::Bar(rate, rate),
                Cell::number(units.count(lost), lost as f64),
                Cell::number(units.bytes(memory), memory as f64),
            ],
        }
    });
    Table {
        columns: vec![
            Column::new("interface"),
            Column::optional("is", 1),
            Column::new("packets"),
            Column::new("bytes"),
            Column::optional("rate", 2),
            Column::optional("", 4),
            Column::optional("lost", 1),
            Column::optional("memory", 3),
        ],
        rows: rows.collect(),
        sort: 3,
    }
}

/// Packets that an interface has lost since the start.
pub fn lost(interface: &InterfaceState) -> u64 {
    interface.dropped.values().sum()
}
