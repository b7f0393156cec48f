//! Conversations: the traffic between two addresses in both directions.
//!
//! One direction of a conversation has at least half of its traffic. To find the heaviest `n`
//! conversations, take the `2 n` heaviest pairs: they belong to at least `n` conversations, each at
//! least as heavy as the lightest of these pairs. So only pairs with at least half of that weight
//! have to be examined.

use std::collections::HashSet;
use std::net::IpAddr;

use crane_model::Flow;
use serde::{Deserialize, Serialize};

use super::Window;
use super::estimate::Estimate;
use super::info::ConversationInfo;
use super::keys::Shown;
use super::list::{Key, List, Numbers, Row, Value};
use crate::sketches::hitters::{Hitters, Ranking};
use crate::text::table::{Cell, Column};
use crate::traffic::edge::Pair;
use crate::traffic::question::By;
use crate::traffic::service::Service;

/// At most this many conversations are examined, however many have the same weight.
const MOST: usize = 1 << 16;

/// Two addresses, the lower one first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConversationKey {
    pub a: IpAddr,
    pub b: IpAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_name: Option<String>,
    #[serde(flatten)]
    pub info: ConversationInfo,
    /// The service of most of their packets, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
}

/// Traffic between two addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BothWays {
    /// Packets in both directions.
    pub packets: u64,
    pub bytes: u64,
    pub a_to_b: Estimate,
    /// `None` if both addresses are the same.
    pub b_to_a: Option<Estimate>,
}

impl Window {
    /// The `top` heaviest conversations, by packets and by bytes.
    pub(super) fn conversations(
        &self,
        top: usize,
        shown: &Shown<'_>,
    ) -> [List<ConversationKey, BothWays>; 2] {
        let sketches = &self.sketches;
        let pairs = sketches.heaviest_pairs(2 * top);
        let enough = |ranking: &Ranking<Pair>, amount: fn(&Flow<Pair>) -> u64| {
            let least = ranking.flows.get((2 * top).saturating_sub(1)).map(amount);
            least.unwrap_or(0) / 2
        };
        let packets = enough(&pairs.by_packets, |flow| flow.packets.estimate);
        let bytes = enough(&pairs.by_bytes, |flow| flow.bytes.estimate);
        let (mut seen, mut left_out) = (HashSet::new(), [0, 0]);
        let (unnamed, sampling) = (sketches.unnamed_pairs().twice(), sketches.sampling());
        let each = |offer: &mut dyn FnMut(_)| {
            for flow in sketches.named_pairs() {
                let is_heavy = flow.packets.estimate >= packets || flow.bytes.estimate >= bytes;
                let pair = flow.key.min(flow.key.reversed());
                if !is_heavy || seen.len() == MOST {
                    for (most, of) in left_out.iter_mut().zip([&flow.packets, &flow.bytes]) {
                        *most = sampling.most_of(of).max(*most);
                    }
                } else if seen.insert(pair) {
                    // If a sketch cannot answer, only the known direction counts.
                    let both = both_ways(pair, |pair| sketches.rough_pair(pair));
                    offer(both.map_or(flow, together));
                }
            }
        };
        let correct = |flows: &mut [Flow<Pair>]| {
            for flow in flows {
                if let Ok(both) = self.both_ways(flow.key) {
                    *flow = together(both);
                }
            }
        };
        let heaviest = Hitters::of(top, unnamed, sampling, each, correct);
        [
            (&heaviest.by_packets, By::Packets),
            (&heaviest.by_bytes, By::Bytes),
        ]
        .map(|(ranking, by)| {
            let rows = ranking.flows.iter().filter_map(|flow| {
                let total = [flow.packets.estimate, flow.bytes.estimate];
                self.conversation(flow.key, total, shown)
            });
            let list = List {
                rows: rows.collect(),
                others_at_most: Some(ranking.others_at_most.max(2 * left_out[by as usize])),
                incomplete: ranking.incomplete || seen.len() == MOST,
            };
            match shown.joins() {
                true => list.joined(by),
                false => list,
            }
        })
    }

    /// The row of a conversation with these numbers of packets and bytes.
    pub(super) fn conversation(
        &self,
        pair: Pair,
        [packets, bytes]: [u64; 2],
        shown: &Shown<'_>,
    ) -> Option<Row<ConversationKey, BothWays>> {
        let [there, back] = self.both_ways(pair).ok()?;
        let back = (back.key != there.key).then_some(&back);
        let value = BothWays {
            packets,
            bytes,
            a_to_b: (&there).into(),
            b_to_a: back.map(Into::into),
        };
        let key = ConversationKey::new(pair, self.conversation_service(pair), shown);
        Some(Row::new(key, value))
    }

    /// The service with most packets of both directions together.
    fn conversation_service(&self, pair: Pair) -> Option<Service> {
        self.sketches.main_service(&[pair, pair.reversed()])
    }

    /// Both directions of a pair.
    pub(super) fn both_ways(&self, pair: Pair) -> crane_model::Result<[Flow<Pair>; 2]> {
        both_ways(pair, |pair| self.sketches.pair(pair))
    }
}

fn both_ways(
    pair: Pair,
    flow: impl Fn(Pair) -> crane_model::Result<Flow<Pair>>,
) -> crane_model::Result<[Flow<Pair>; 2]> {
    Ok([flow(pair)?, flow(pair.reversed())?])
}

/// The sum of both directions. Packets from an address to itself have only one direction.
fn together([there, back]: [Flow<Pair>; 2]) -> Flow<Pair> {
    match there.key == back.key {
        true => there,
        false => there.plus(back),
    }
}

impl ConversationKey {
    fn new(pair: Pair, service: Option<Service>, shown: &Shown<'_>) -> Self {
        let (a, b) = (shown.address(pair.src()), shown.address(pair.dst()));
        Self {
            a: a.ip,
            b: b.ip,
            a_name: a.name,
            b_name: b.name,
            info: ConversationInfo::new(a.info, b.info),
            service,
        }
    }
}

impl Key for ConversationKey {
    const REMARK: Option<&'static str> = Some("service");

    /// Without the name of the port, for which 80 columns have no room.
    fn remark(&self) -> String {
        let service = self.service.map(|service| service.to_string());
        let service = service.unwrap_or_default();
        service.split(' ').next().unwrap_or_default().to_owned()
    }

    fn cells(&self) -> Vec<Cell> {
        let [a, b] = self.info.each();
        let ends = [(self.a, &self.a_name, a), (self.b, &self.b_name, b)];
        let ends = ends.map(|(ip, name, info)| Cell::node(info.show(ip, name.as_deref()), ip));
        ends.into()
    }

    fn labels(&self) -> String {
        format!(",a=\"{}\",b=\"{}\"", self.a, self.b)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.a, self.b) == (other.a, other.b)
    }

    fn join(&mut self, other: &Self) {
        self.service = self.service.filter(|one| Some(*one) == other.service);
    }
}

impl Value for BothWays {
    const HAS_BYTES: bool = true;

    fn size(&self, by: By) -> u64 {
        match by {
            By::Packets => self.packets,
            By::Bytes => self.bytes,
        }
    }

    fn at_most(&self, by: By) -> u64 {
        let ways = [Some(self.a_to_b), self.b_to_a].into_iter().flatten();
        ways.map(|way| way.at_most(by)).sum()
    }

    fn columns(_: &Numbers, _: &'static str, remark: bool) -> Vec<Column> {
        vec![
            Column::new("packets"),
            Column::new("bytes"),
            Column::optional("rate", 3),
            Column::optional("a → b", 2).in_text(true),
            Column::optional("b → a", 2).in_text(true),
            // Otherwise text tables do not fit into 80 columns.
            Column::optional("share", 2).in_text(!remark),
            Column::optional("", 1),
        ]
    }

    fn cells(&self, numbers: &Numbers) -> Vec<Cell> {
        let way = |way: Option<Estimate>| match (way, numbers.by) {
            (None, _) => Cell::number("–".into(), 0.0),
            (Some(way), By::Packets) => numbers.count(way.packets),
            (Some(way), By::Bytes) => numbers.bytes(way.bytes),
        };
        let ways = || [Some(self.a_to_b), self.b_to_a].into_iter().flatten();
        let [low, high]: [u64; 2] = match numbers.by {
            By::Packets => [
                ways().map(|way| way.low).sum(),
                ways().map(|way| way.high).sum(),
            ],
            By::Bytes => [
                ways().map(|way| way.bytes_low).sum(),
                ways().map(|way| way.bytes_high).sum(),
            ],
        };
        vec![
            numbers.count(self.packets),
            numbers.bytes(self.bytes),
            numbers.rate(self.bytes),
            way(Some(self.a_to_b)),
            way(self.b_to_a),
            numbers.share(self.size(numbers.by)),
            numbers.bar(low, high),
        ]
    }

    fn join(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.a_to_b.join(&other.a_to_b);
        match (&mut self.b_to_a, &other.b_to_a) {
            (Some(way), Some(more)) => way.join(more),
            (way @ None, more) => *way = *more,
            (Some(_), None) => {}
        }
    }
}
