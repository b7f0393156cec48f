//! All lists of a window. Only this folder names all of them. A new list needs a field of
//! [`Lists`], a [`ListName`], a line in [`Window::lists`] that fills it, one in [`Lists::visit`]
//! and one in `json.rs` that reads it.

mod json;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Window;
use super::conversations::{BothWays, ConversationKey};
use super::estimate::{Estimate, PeerEstimate};
use super::keys::{AddressKey, AsnKey, PairKey, Shown};
use super::list::{Key, List, Row, Value, join};
use crate::sketches::fan_lists::{FanList, NodePeers, NotableKind};
use crate::sketches::fans::Direction;
use crate::sketches::hitters::{Hitters, Ranking};
use crate::text::units;
use crate::traffic::anonymise::Anonymiser;
use crate::traffic::edge::Pair;
use crate::traffic::question::By;
use crate::traffic::service::Service;

/// How a list is named in outputs.
#[derive(Debug, PartialEq, Eq)]
pub struct ListName {
    /// Key in the API.
    pub name: &'static str,
    /// Key in the report of a replay.
    pub report: &'static str,
    /// Title of its tab, long and short.
    pub titles: (&'static str, &'static str),
    /// Titles of the columns of its key.
    pub heads: &'static [&'static str],
    /// Noun for one of its rows.
    pub noun: &'static str,
    /// What its numbers count: packets, or peers of this kind.
    pub counts: &'static str,
}

/// Every list, in the order in which they are shown.
pub static LISTS: [ListName; 8] = [
    ListName {
        name: "pairs",
        report: "top",
        titles: ("pairs", "pairs"),
        heads: &["source", "destination"],
        noun: "pair",
        counts: "packets",
    },
    ListName {
        name: "conversations",
        report: "conversations",
        titles: ("conversations", "conv"),
        heads: &["a", "b"],
        noun: "conversation",
        counts: "packets",
    },
    ListName {
        name: "sources",
        report: "sources",
        titles: ("sources", "src"),
        heads: &["source"],
        noun: "address",
        counts: "packets",
    },
    ListName {
        name: "destinations",
        report: "destinations",
        titles: ("destinations", "dst"),
        heads: &["destination"],
        noun: "address",
        counts: "packets",
    },
    ListName {
        name: "services",
        report: "services",
        titles: ("services", "svc"),
        heads: &["service"],
        noun: "service",
        counts: "packets",
    },
    ListName {
        name: "fan_out",
        report: "fan_out",
        titles: ("fan-out", "out"),
        heads: &["fan-out"],
        noun: "address",
        counts: "destinations",
    },
    ListName {
        name: "fan_in",
        report: "fan_in",
        titles: ("fan-in", "in"),
        heads: &["fan-in"],
        noun: "address",
        counts: "sources",
    },
    ListName {
        name: "asns",
        report: "asns",
        titles: ("asns", "as"),
        heads: &["autonomous system"],
        noun: "AS",
        counts: "packets",
    },
];

#[derive(Debug, Clone, Default)]
pub struct Lists {
    pub by: By,
    pub pairs: List<PairKey>,
    pub conversations: List<ConversationKey, BothWays>,
    pub sources: List<AddressKey>,
    pub destinations: List<AddressKey>,
    pub services: List<Service>,
    /// Autonomous systems of the addresses. `None` without a database of them.
    pub asns: Option<List<AsnKey>>,
    /// Addresses that send to the most peers.
    pub fan_out: List<AddressKey, PeerEstimate>,
    /// Addresses that receive from the most peers.
    pub fan_in: List<AddressKey, PeerEstimate>,
    /// Notable addresses, those with the most peers first: at most twice as many as a list has
    /// rows. Some may have no row.
    pub notable: Vec<Notable>,
}

/// A notable address, and why it is notable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Notable {
    pub kind: NotableKind,
    #[serde(flatten)]
    pub row: Row<AddressKey, PeerEstimate>,
}

/// All lists of a window, by packets and by bytes.
#[derive(Debug, Clone)]
pub struct BothOrders {
    pub by_packets: Lists,
    pub by_bytes: Lists,
}

/// Empty lists, without any packets.
impl Default for BothOrders {
    fn default() -> Self {
        let lists = |by| Lists {
            by,
            pairs: List {
                others_at_most: Some(0),
                ..List::default()
            },
            ..Lists::default()
        };
        Self {
            by_packets: lists(By::Packets),
            by_bytes: lists(By::Bytes),
        }
    }
}

/// Visits every list with its name.
pub trait Visitor {
    type Error;

    fn visit<K: Key, V: Value>(
        &mut self,
        name: &'static ListName,
        list: &List<K, V>,
    ) -> Result<(), Self::Error>;
}

impl Lists {
    /// Visits all lists, in the order in which they are shown.
    pub fn visit<T: Visitor>(&self, visitor: &mut T) -> Result<(), T::Error> {
        let [
            pairs,
            conversations,
            sources,
            destinations,
            services,
            fan_out,
            fan_in,
            asns,
        ] = &LISTS;
        visitor.visit(pairs, &self.pairs)?;
        visitor.visit(conversations, &self.conversations)?;
        visitor.visit(sources, &self.sources)?;
        visitor.visit(destinations, &self.destinations)?;
        visitor.visit(services, &self.services)?;
        visitor.visit(fan_out, &self.fan_out)?;
        visitor.visit(fan_in, &self.fan_in)?;
        match &self.asns {
            Some(list) => visitor.visit(asns, list),
            None => Ok(()),
        }
    }

    /// Keeps the first `top` rows of each list.
    pub fn truncate(&mut self, top: usize) {
        let by = self.by;
        self.pairs.truncate(top, by);
        self.conversations.truncate(top, by);
        self.sources.truncate(top, by);
        self.destinations.truncate(top, by);
        self.services.truncate(top, by);
        if let Some(asns) = &mut self.asns {
            asns.truncate(top, by);
        }
        self.fan_out.truncate(top, by);
        self.fan_in.truncate(top, by);
        self.notable.truncate(2 * top);
    }

    /// Names of the lists in which heavier keys may be missing.
    pub fn incomplete(&self) -> Vec<&'static str> {
        struct Incomplete(Vec<&'static str>);
        impl Visitor for Incomplete {
            type Error = std::convert::Infallible;
            fn visit<K: Key, V: Value>(
                &mut self,
                name: &'static ListName,
                list: &List<K, V>,
            ) -> Result<(), Self::Error> {
                self.0.extend(list.incomplete.then_some(name.name));
                Ok(())
            }
        }
        let mut found = Incomplete(Vec::new());
        let Ok(()) = self.visit(&mut found);
        found.0
    }
}

impl ListName {
    /// Says that no key of the list stands out, and how much each has at most.
    pub fn none_stands_out(&self, most: u64, shown: &str) -> String {
        let (noun, counts) = (self.noun, units::noun(most, self.counts));
        format!("no {noun} stands out; none has more than {shown} {counts}")
    }

    /// Key in JSON of the upper bound for all other keys.
    pub fn promise(&self, by: By) -> String {
        match (self.name, by) {
            ("pairs", By::Packets) => "complete_above".into(),
            ("pairs", By::Bytes) => "complete_above_bytes".into(),
            (name, _) => format!("{name}_others_at_most"),
        }
    }
}

impl BothOrders {
    pub fn by(&self, by: By) -> &Lists {
        match by {
            By::Packets => &self.by_packets,
            By::Bytes => &self.by_bytes,
        }
    }

    /// Keeps the first `top` rows of each list.
    pub fn truncate(&mut self, top: usize) {
        self.by_packets.truncate(top);
        self.by_bytes.truncate(top);
    }
}

impl Window {
    /// All lists with `top` rows each, in both orders.
    pub fn lists(&self, top: usize, anonymiser: Option<&Anonymiser>) -> BothOrders {
        let shown = self.shown(anonymiser);
        // Merging makes a list shorter, so it needs more rows before.
        let wanted = top;
        let top = if shown.joins() { top.max(JOINED) } else { top };
        let sketches = &self.sketches;
        let address = |ip| shown.address(ip);
        let pairs = self.pair_lists(&sketches.heaviest_pairs(top), &shown);
        let conversations = self.conversations(top, &shown);
        let sources = sketches.heaviest_addresses(top, Direction::Out);
        let sources = list(&sources, &shown, address);
        let destinations = sketches.heaviest_addresses(top, Direction::Into);
        let destinations = list(&destinations, &shown, address);
        let services = list(&sketches.heaviest_services(top), &shown, |service| service);
        let asns = shown.asns().map(|asn_of| {
            let heaviest = sketches.heaviest_asns(top, &asn_of);
            orders(&heaviest, |asn| shown.asn(asn))
        });
        let fans = sketches.largest_fans(top);
        let [fan_out, fan_in] = [&fans.out, &fans.into].map(|list| fan_list(list, &shown));
        let mut notable: Vec<Notable> = Vec::new();
        for one in &fans.notable {
            let row = fan_row(&one.node, &shown);
            let is_same = |seen: &Notable| seen.kind == one.kind && seen.row.key.is_same(&row.key);
            if !notable.iter().any(is_same) {
                notable.push(Notable {
                    kind: one.kind,
                    row,
                });
            }
        }
        let lists = |by: By| Lists {
            by,
            pairs: in_order(&pairs, by),
            conversations: in_order(&conversations, by),
            sources: in_order(&sources, by),
            destinations: in_order(&destinations, by),
            services: in_order(&services, by),
            asns: asns.as_ref().map(|asns| in_order(asns, by)),
            fan_out: fan_out.clone(),
            fan_in: fan_in.clone(),
            notable: notable.clone(),
        };
        let mut both = BothOrders {
            by_packets: lists(By::Packets),
            by_bytes: lists(By::Bytes),
        };
        if wanted < top {
            both.truncate(wanted);
        }
        both
    }

    /// The `top` heaviest pairs of an address, among those that are known by name.
    pub fn pairs_with(
        &self,
        ip: IpAddr,
        top: usize,
        by: By,
        anonymiser: Option<&Anonymiser>,
    ) -> Vec<Row<PairKey>> {
        let shown = self.shown(anonymiser);
        let pairs = self.sketches.heaviest_pairs_with(ip, top);
        in_order(&self.pair_lists(&pairs, &shown), by).rows
    }

    /// The `top` heaviest pairs in one order, without their services.
    pub fn heaviest_pairs(&self, top: usize, by: By) -> Vec<Row<PairKey>> {
        let shown = self.shown(None);
        let pairs = list(&self.sketches.heaviest_pairs(top), &shown, |pair| {
            shown.pair(pair, None)
        });
        in_order(&pairs, by).rows
    }

    /// Estimates for these pairs.
    pub fn watched(&self, pairs: &[Pair], anonymiser: Option<&Anonymiser>) -> Vec<Row<PairKey>> {
        let shown = self.shown(anonymiser);
        let rows = pairs.iter().filter_map(|pair| {
            let flow = self.sketches.pair(*pair).ok()?;
            Some(Row::new(shown.pair(*pair, None), Estimate::from(&flow)))
        });
        let rows = rows.collect();
        match shown.joins() {
            true => join(rows),
            false => rows,
        }
    }

    pub(super) fn pair_lists(
        &self,
        pairs: &Hitters<Pair>,
        shown: &Shown<'_>,
    ) -> [List<PairKey>; 2] {
        list(pairs, shown, |pair| {
            shown.pair(pair, self.sketches.main_service(&[pair]))
        })
    }

    /// How addresses of this window are shown.
    pub fn shown<'a>(&'a self, anonymiser: Option<&'a Anonymiser>) -> Shown<'a> {
        Shown {
            names: self.names.as_deref(),
            anonymiser,
            sources: self.lookup.sources(),
        }
    }
}

/// Rows of a list before merging, if rows may be merged.
const JOINED: usize = 500;

pub(super) fn in_order<K: Clone, V: Clone>(lists: &[List<K, V>; 2], by: By) -> List<K, V> {
    let [by_packets, by_bytes] = lists;
    match by {
        By::Packets => by_packets.clone(),
        By::Bytes => by_bytes.clone(),
    }
}

/// Both orders of a list. A key has the same value in both.
fn list<R: Copy + Ord, K: Key>(
    hitters: &Hitters<R>,
    shown: &Shown<'_>,
    key: impl Fn(R) -> K,
) -> [List<K>; 2] {
    let lists = orders(hitters, &key);
    if !shown.joins() {
        return lists;
    }
    let all: Vec<Row<K>> = hitters
        .union()
        .map(|flow| Row::new(key(flow.key), Estimate::from(flow)))
        .collect();
    let orders = lists.into_iter().zip([By::Packets, By::Bytes]);
    let joined = orders.map(|(list, by)| {
        let is_listed = |row: &Row<K>| list.rows.iter().any(|one| one.key.is_same(&row.key));
        let rows = all.iter().filter(|row| is_listed(row)).cloned().collect();
        List { rows, ..list }.joined(by)
    });
    let mut joined = joined.collect::<Vec<_>>().into_iter();
    [
        joined.next().unwrap_or_default(),
        joined.next().unwrap_or_default(),
    ]
}

/// Both orders of a list whose keys are all different.
fn orders<R: Copy, K: Key>(hitters: &Hitters<R>, key: impl Fn(R) -> K) -> [List<K>; 2] {
    let rows = |ranking: &Ranking<R>| List {
        rows: ranking
            .flows
            .iter()
            .map(|flow| Row::new(key(flow.key), Estimate::from(flow)))
            .collect(),
        others_at_most: Some(ranking.others_at_most),
        incomplete: ranking.incomplete,
    };
    [rows(&hitters.by_packets), rows(&hitters.by_bytes)]
}

fn fan_row(node: &NodePeers, shown: &Shown<'_>) -> Row<AddressKey, PeerEstimate> {
    let peers = PeerEstimate::from(node.peers);
    let peers = PeerEstimate {
        // The row of a network has the number of peers of its largest address.
        exact: peers.exact && !shown.joins(),
        ..peers
    };
    Row::new(shown.address(node.ip), peers)
}

fn fan_list(fans: &FanList, shown: &Shown<'_>) -> List<AddressKey, PeerEstimate> {
    let list = List {
        rows: fans.nodes.iter().map(|node| fan_row(node, shown)).collect(),
        others_at_most: fans.others_at_most,
        incomplete: false,
    };
    match shown.joins() {
        true => list.joined(By::Packets),
        false => list,
    }
}
