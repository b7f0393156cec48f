//! An address with its peers, from one answer of the agent.

use std::net::IpAddr;

use anyhow::Context;

use crate::http::answers::{self, NodeAnswer, NodeRates};
use crate::http::client::{self, Agent};
use crate::lookup::AddressInfo;
use crate::report;
use crate::report::services::ServiceRow;
use crate::text::table::{Cell, Column, Row as TableRow, Table};
use crate::text::units::Units;
use crate::traffic::question::By;
use crate::window::answer::NodeEstimate;
use crate::window::estimate::Estimate;
use crate::window::keys::PairKey;
use crate::window::list::Row;
use crate::window::rates::{Rate, RowRates};
use crate::window::services::NodeServices;
use crate::window::state::WindowState;

/// Number of pairs of an address or a service that are requested.
pub const PAIRS: usize = 500;

/// An address and its peers.
#[derive(Debug)]
pub struct Node {
    pub ip: IpAddr,
    /// Name of its network.
    pub name: Option<String>,
    /// AS, country and host name.
    pub info: AddressInfo,
    pub interface: String,
    /// The window at the moment of this answer.
    pub state: WindowState,
    /// What it sent and received.
    pub known: NodeEstimate,
    pub rates: Option<NodeRates>,
    /// Its peers, of the pairs that are known by name.
    pub peers: Vec<Peer>,
    /// The order of its pairs and services.
    pub by: By,
}

impl Node {
    /// Its address with names, AS and country.
    pub fn shown(&self) -> String {
        self.info.show(self.ip, self.name.as_deref())
    }
}

/// A peer of an address.
#[derive(Debug)]
pub struct Peer {
    pub ip: IpAddr,
    /// Name of its network.
    pub name: Option<String>,
    /// AS, country and host name.
    pub info: AddressInfo,
    /// Traffic to this peer. `None` if the pair is not among the heaviest.
    pub sent: Option<Estimate>,
    /// Traffic from this peer. `None` if the pair is not among the heaviest.
    pub received: Option<Estimate>,
    /// Rates of the known directions together.
    pub rates: RowRates,
}

/// Asks about an address on one interface, or on the one on which it has the most bytes.
pub fn ask(
    agent: &Agent,
    ip: IpAddr,
    by: By,
    common: &[(&'static str, String)],
) -> anyhow::Result<Node> {
    let mut asked = vec![
        ("ip", ip.to_string()),
        ("rates", "true".into()),
        ("services", "true".into()),
        ("by", by.name().into()),
    ];
    // The agent lists pairs only for one interface.
    if common.iter().any(|(name, _)| *name == "interface") {
        asked.push(("top", PAIRS.to_string()));
    }
    let answer: NodeAnswer = client::get(agent, answers::NODE, &[common, &asked].concat())?;
    let size = |one: &answers::InterfaceNode| one.node.sent.bytes + one.node.received.bytes;
    let of = answer.interfaces.into_iter().max_by_key(size);
    let of = of.context("no window is complete yet")?;
    Ok(Node {
        ip,
        name: answer.name,
        info: answer.info,
        interface: of.interface,
        state: of.state,
        known: of.node,
        rates: of.rates,
        peers: peers(ip, of.pairs.unwrap_or_default()),
        by,
    })
}

/// The peers of an address in the order of `pairs`, of each of which it is one end.
fn peers(ip: IpAddr, pairs: Vec<Row<PairKey>>) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for Row {
        key: pair,
        value,
        rates,
    } in pairs
    {
        let rates = rates.unwrap_or_default();
        let [src, dst] = pair.info.each();
        let (other, name, info, sent) = match pair.src == ip {
            true => (pair.dst, pair.names.dst_name, dst, true),
            false => (pair.src, pair.names.src_name, src, false),
        };
        let at = match peers.iter().position(|peer| peer.ip == other) {
            Some(at) => {
                peers[at].rates = both(&peers[at].rates, &rates);
                at
            }
            None => {
                peers.push(Peer {
                    ip: other,
                    name,
                    info,
                    sent: None,
                    received: None,
                    rates,
                });
                peers.len() - 1
            }
        };
        match sent {
            true => peers[at].sent = Some(value),
            false => peers[at].received = Some(value),
        }
    }
    peers
}

fn both(one: &RowRates, other: &RowRates) -> RowRates {
    let sum = |one: Option<Rate>, other: Option<Rate>| {
        let (one, other) = one.zip(other)?;
        Some(Rate {
            packets_per_second: one.packets_per_second + other.packets_per_second,
            bits_per_second: one.bits_per_second + other.bits_per_second,
        })
    };
    RowRates {
        rate_2s: sum(one.rate_2s, other.rate_2s),
        rate_10s: sum(one.rate_10s, other.rate_10s),
    }
}

/// What the address sent and received, in words.
pub fn in_words(node: &Node, units: Units) -> Vec<String> {
    let [sent, received] = [&node.known.sent, &node.known.received]
        .map(|estimate| report::answer::lines(estimate, None, units));
    let to = report::answer::peers("to", &node.known.fan_out, units);
    let from = report::answer::peers("from", &node.known.fan_in, units);
    let now = |rates: fn(&NodeRates) -> &RowRates| {
        let rates = rates(node.rates.as_ref()?);
        let rate = rates.rate_2s?.bits_per_second;
        Some(format!("{} in the last 2 s", units.bits_per_second(rate)))
    };
    let services = node.known.services.as_ref();
    let of = |rows: fn(&NodeServices) -> &Vec<ServiceRow>| {
        let line = report::services::line(rows(services?), node.by, units)?;
        Some(format!("for {line}"))
    };
    let mut lines = labelled(
        "sent",
        sent,
        [now(|node| &node.sent_rates), to, of(|known| &known.sent)],
    );
    lines.extend(labelled(
        "received",
        received,
        [
            now(|node| &node.received_rates),
            from,
            of(|known| &known.received),
        ],
    ));
    lines
}

/// Lines with `what` as a label before the first.
pub fn labelled<const N: usize>(
    what: &str,
    lines: Vec<String>,
    more: [Option<String>; N],
) -> Vec<String> {
    let lines = lines.into_iter().chain(more.into_iter().flatten());
    let lines = lines.enumerate();
    let labelled = lines.map(|(at, line)| format!("{:<10}{line}", if at == 0 { what } else { "" }));
    labelled.collect()
}

/// The table of peers, with both directions in one row.
pub fn table(node: &Node, units: Units) -> Table {
    let all = node.known.sent.bytes + node.known.received.bytes;
    let all = all.max(1) as f64;
    let rows = node.peers.iter().map(|peer| {
        // A pair that is not among the heaviest has no number.
        let bytes = |one: &Option<Estimate>| match one {
            Some(one) => Cell::number(units.bytes(one.bytes), one.bytes as f64),
            None => Cell::number(String::new(), 0.0),
        };
        let known = || [peer.sent, peer.received].into_iter().flatten();
        let sum = |part: fn(&Estimate) -> u64| known().map(|one| part(&one)).sum::<u64>();
        let packets = sum(|one| one.packets);
        let total = sum(|one| one.bytes);
        let (low, high) = (sum(|one| one.bytes_low), sum(|one| one.bytes_high));
        let name = peer.info.show(peer.ip, peer.name.as_deref());
        let mut cells = vec![
            Cell::node(name.clone(), peer.ip),
            Cell::number(units.count(packets), packets as f64),
            Cell::number(units.bytes(total), total as f64),
            bytes(&peer.sent),
            bytes(&peer.received),
            Cell::Bar(low as f64 / all, high as f64 / all),
        ];
        cells.extend(peer.rates.cells(units));
        TableRow { key: name, cells }
    });
    let mut columns = vec![
        Column::new("peer"),
        Column::optional("packets", 3),
        Column::new("bytes"),
        Column::optional("sent to it", 2),
        Column::optional("received", 2),
        Column::optional("", 1),
    ];
    columns.extend(RowRates::columns());
    Table {
        columns,
        rows: rows.collect(),
        sort: 2,
    }
}
