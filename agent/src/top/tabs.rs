//! What is on each tab: tables made of what the agent answered.

use super::feed::{News, Node};
use super::table::{Cell, Column, Row, Sort, Table};
use crate::http::answers::{InterfaceHitters, InterfaceState, WindowState};
use crate::names::show;
use crate::plain;
use crate::sketch::answer::{By, WindowName};
use crate::sketch::estimate::{Estimate, PeerEstimate};
use crate::units::Units;

/// A tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tab {
    /// Who sends to whom.
    #[default]
    Pairs,
    /// Who sends.
    Sources,
    /// Who receives.
    Destinations,
    /// Who talks with most others.
    Fans,
    /// For what.
    Services,
    /// Between which networks.
    Groups,
    /// On which interfaces.
    Interfaces,
}

impl Tab {
    /// All of them, from left to right.
    pub const ALL: [Self; 7] = [
        Self::Pairs,
        Self::Sources,
        Self::Destinations,
        Self::Fans,
        Self::Services,
        Self::Groups,
        Self::Interfaces,
    ];

    /// Its title, and a shorter one.
    pub fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Pairs => ("pairs", "pairs"),
            Self::Sources => ("sources", "src"),
            Self::Destinations => ("destinations", "dst"),
            Self::Fans => ("fan-out", "fan"),
            Self::Services => ("services", "svc"),
            Self::Groups => ("groups", "grp"),
            Self::Interfaces => ("interfaces", "if"),
        }
    }

    /// In what order its rows are at first: by packets or peers.
    pub fn first_sort(self) -> Sort {
        let column = match self {
            Self::Pairs | Self::Fans | Self::Groups | Self::Interfaces => 2,
            Self::Sources | Self::Destinations | Self::Services => 1,
        };
        let reversed = false;
        Sort { column, reversed }
    }

    /// Why a table of it is empty.
    pub fn why_empty(self) -> &'static str {
        match self {
            Self::Groups => "no networks have names: [[names]] in the configuration gives them",
            Self::Interfaces => "the agent has no interface yet",
            Self::Fans => "no packets in this window yet, or nobody stands out",
            _ => "no packets in this window yet",
        }
    }

    /// The table.
    pub fn table(self, news: &News, by: By, units: Units) -> Table {
        let Some(hitters) = &news.hitters else {
            return match self {
                Self::Interfaces => interfaces(news, units),
                _ => Table::default(),
            };
        };
        let heavy = Heavy {
            window: &hitters.state,
            by,
            units,
        };
        match self {
            Self::Pairs => pairs(hitters, &heavy),
            Self::Sources | Self::Destinations => {
                let (title, nodes) = match self {
                    Self::Sources => ("source", &hitters.sources),
                    _ => ("destination", &hitters.destinations),
                };
                let rows = nodes.iter().map(|node| {
                    let name = show(node.ip, node.name.as_deref());
                    heavy.row(vec![Cell::node(name, node.ip)], &node.estimate)
                });
                heavy.table(&[title], rows.collect())
            }
            Self::Services => {
                let rows = hitters.services.iter().map(|one| {
                    let name = Cell::name(one.service.to_string());
                    heavy.row(vec![name], &one.estimate)
                });
                heavy.table(&["service"], rows.collect())
            }
            Self::Fans => fans(hitters, units),
            Self::Groups => groups(news, hitters, &heavy),
            Self::Interfaces => interfaces(news, units),
        }
    }
}

/// How what was counted is shown.
struct Heavy<'a> {
    window: &'a WindowState,
    by: By,
    units: Units,
}

impl Heavy<'_> {
    fn table(&self, names: &[&'static str], rows: Vec<Row>) -> Table {
        let names = names.iter().map(|title| Column::new(title));
        let numbers = [
            Column::new("packets"),
            Column::new("bytes"),
            Column::optional("rate", 3),
            Column::optional("share", 1),
            Column::optional("", 2),
            Column::optional("90 %", 4),
        ];
        let columns = names.chain(numbers).collect();
        Table { columns, rows }
    }

    fn row(&self, names: Vec<Cell>, estimate: &Estimate) -> Row {
        let total = match self.by {
            By::Packets => self.window.packets,
            By::Bytes => self.window.bytes,
        };
        self.row_of(names, estimate, total)
    }

    fn row_of(&self, names: Vec<Cell>, estimate: &Estimate, total: u64) -> Row {
        let Estimate { packets, bytes, .. } = *estimate;
        let units = self.units;
        let seconds = self.window.seen_seconds();
        let rate = match seconds > 0.0 {
            true => 8.0 * bytes as f64 / seconds,
            false => 0.0,
        };
        let [low, value, high] = match self.by {
            By::Packets => [estimate.low, packets, estimate.high],
            By::Bytes => [estimate.bytes_low, bytes, estimate.bytes_high],
        };
        let share = |part: u64| part as f64 / total.max(1) as f64;
        // Only where it is no point.
        let interval = match self.by {
            _ if low == high => String::new(),
            By::Packets => format!("{}–{}", units.count(low), units.count(high)),
            By::Bytes => format!("{}–{}", units.bytes(low), units.bytes(high)),
        };
        let key = names.iter().map(Cell::text).collect::<Vec<_>>().join(" ");
        let mut cells = names;
        cells.extend([
            Cell::number(units.count(packets), packets as f64),
            Cell::number(units.bytes(bytes), bytes as f64),
            Cell::number(units.bits_per_second(rate), rate),
            Cell::number(format!("{:.2}%", 100.0 * share(value)), share(value)),
            Cell::Bar(share(low), share(high)),
            Cell::number(interval, (high - low.min(high)) as f64),
        ]);
        Row { key, cells }
    }
}

fn pairs(hitters: &InterfaceHitters, heavy: &Heavy) -> Table {
    let rows = hitters.pairs.iter().map(|pair| {
        let [src, dst] = pair.names.show(pair.src, pair.dst);
        let ends = vec![Cell::node(src, pair.src), Cell::node(dst, pair.dst)];
        let mut row = heavy.row(ends, &pair.estimate);
        let service = pair.service.map_or_else(String::new, |one| one.to_string());
        row.cells.push(Cell::name(service));
        row
    });
    let mut table = heavy.table(&["source", "destination"], rows.collect());
    table.columns.push(Column::optional("service", 2));
    table
}

fn fans(hitters: &InterfaceHitters, units: Units) -> Table {
    let row = |way: &'static str, ip, name: Option<&str>, fan: &PeerEstimate| {
        let name = show(ip, name);
        let interval = match fan.low == fan.high {
            true => String::new(),
            false => format!("{}–{}", units.count(fan.low), units.count(fan.high)),
        };
        Row {
            key: format!("{way} {name}"),
            cells: vec![
                Cell::node(name, ip),
                Cell::name(way),
                Cell::number(units.count(fan.peers), fan.peers as f64),
                Cell::Bar(fan.low as f64, fan.high as f64),
                Cell::number(interval, (fan.high - fan.low.min(fan.high)) as f64),
            ],
        }
    };
    let out = hitters.fans.fan_out.iter();
    let out = out.map(|node| row("sends to", node.ip, node.name.as_deref(), &node.peers));
    let into = hitters.fans.fan_in.iter();
    let into = into.map(|node| row("receives from", node.ip, node.name.as_deref(), &node.peers));
    Table {
        columns: vec![
            Column::new("address"),
            Column::new("way"),
            Column::new("others"),
            Column::optional("", 1),
            Column::optional("90 %", 2),
        ],
        rows: out.chain(into).collect(),
    }
}

/// Counted since the start, so without a rate.
fn groups(news: &News, hitters: &InterfaceHitters, heavy: &Heavy) -> Table {
    let mut interfaces = news.interfaces.interfaces.iter();
    let state = interfaces.find(|one| one.interface == hitters.interface);
    let groups = state.and_then(|state| state.groups.as_deref());
    let groups = groups.unwrap_or_default();
    let size = |packets: u64, bytes: u64| match heavy.by {
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
                Cell::number(heavy.units.count(packets), packets as f64),
                Cell::number(heavy.units.bytes(bytes), bytes as f64),
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
    }
}

fn interfaces(news: &News, units: Units) -> Table {
    let rows = news.interfaces.interfaces.iter().map(|one| {
        let window = one
            .last
            .as_ref()
            .filter(|_| news.wanted.window == WindowName::Last);
        let window = window.unwrap_or(&one.current);
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
    }
}

/// Packets that an interface has lost since the start.
pub fn lost(interface: &InterfaceState) -> u64 {
    interface.dropped.values().sum()
}

/// In what order peers are at first: by what was sent to them.
pub const PEERS_SORT: Sort = Sort {
    column: 1,
    reversed: false,
};

/// With whom a node talks, both directions in one row.
pub fn peers(node: &Node, units: Units) -> Table {
    let total = |estimate: &Estimate| estimate.packets.max(1) as f64;
    let rows = node.peers.iter().map(|peer| {
        // What is not among the heaviest pairs has no number.
        let count = |one: &Option<Estimate>| match one {
            Some(one) => Cell::number(units.count(one.packets), one.packets as f64),
            None => Cell::number(String::new(), 0.0),
        };
        let bytes = |one: &Option<Estimate>| match one {
            Some(one) => Cell::number(units.bytes(one.bytes), one.bytes as f64),
            None => Cell::number(String::new(), 0.0),
        };
        let known = || [peer.sent, peer.received].into_iter().flatten();
        let (low, high) = known().fold((0, 0), |(low, high), one| (low + one.low, high + one.high));
        let name = show(peer.ip, peer.name.as_deref());
        let all = total(&node.sent) + total(&node.received);
        Row {
            key: name.clone(),
            cells: vec![
                Cell::node(name, peer.ip),
                count(&peer.sent),
                bytes(&peer.sent),
                count(&peer.received),
                bytes(&peer.received),
                Cell::Bar(low as f64 / all, high as f64 / all),
            ],
        }
    });
    Table {
        columns: vec![
            Column::new("peer"),
            Column::new("sent to it"),
            Column::optional("bytes", 2),
            Column::new("received"),
            Column::optional("bytes", 2),
            Column::optional("", 1),
        ],
        rows: rows.collect(),
    }
}
