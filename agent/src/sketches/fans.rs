//! Fan-out and fan-in of a window: to how many peers each address sends, and from how many it
//! receives. If packets are sampled, these are the peers that were seen; the number of others is
//! not known.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::{Fan, KnownNode, Largest, PeerBounds, Peers};
use crane_model::name::{AnyName, Name, Narrow, Wide};
use crane_model::table::TableKey;
use crane_model::{Amount, Crane, Secret};
use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::ends::{self, EndSum};
use crate::sketches::fan_lists::{FanList, NodePeers};
use crate::traffic::batch::{FoldedNodes, FoldedPairs, Nodes, Pairs};
use crate::traffic::edge::{Ends, node_name, node_of_name};

/// The sketches of fan-out and fan-in.
pub struct Fans {
    secret: Secret,
    out: Fan,
    into: Fan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Number of peers that an address sends to.
    Out,
    /// Number of peers that it receives from.
    Into,
}

impl Fans {
    pub fn new(budget: &Budget, secret: Secret) -> crane_model::Result<Self> {
        let fan = || Fan::growing(budget.for_fan(), &secret);
        Ok(Self {
            secret,
            out: fan()?,
            into: fan()?,
        })
    }

    /// Stores the pairs of a batch.
    pub fn store(&mut self, pairs: &Pairs, nodes: &Nodes) {
        self.record(&pairs.narrow, &nodes.narrow);
        self.record(&pairs.wide, &nodes.wide);
    }

    fn record<N: Ends>(&mut self, pairs: &FoldedPairs<N>, nodes: &FoldedNodes<N>) {
        for (pair, [source, destination]) in pairs.arrivals().iter().zip(nodes.ends()) {
            if !self.out.accepts(pair.id) && !self.into.accepts(pair.id) {
                continue;
            }
            self.out.record(&pair.name.source(), source, pair.id);
            let name = pair.name.destination();
            self.into.record(&name, destination, pair.id);
        }
    }

    fn fan(&self, direction: Direction) -> &Fan {
        match direction {
            Direction::Out => &self.out,
            Direction::Into => &self.into,
        }
    }

    fn id(&self, name: &AnyName) -> u64 {
        match name {
            AnyName::Narrow(name) => self.secret.id(name),
            AnyName::Wide(name) => self.secret.id(name),
        }
    }

    /// Number of peers of a node in one direction. `limits` are those of this direction.
    pub fn peers(&self, node: IpAddr, direction: Direction, limits: &Limits<'_>) -> Peers {
        let name = node_name(node);
        let fan = self.fan(direction);
        fan.answer_within(self.id(&name), limits.of(name))
    }

    /// The `count` largest nodes of one direction. `limits` are the bounds that follow from
    /// packets.
    pub fn largest(&self, count: usize, direction: Direction, limits: &Limits<'_>) -> FanList {
        let unknown = limits.unknown();
        let named = limits.named().chain(limits.ends_of_pairs(unknown));
        let known = named.map(|(name, certain)| KnownNode {
            id: self.id(&name),
            name,
            bounds: certain,
        });
        let certain = |name: &AnyName| limits.of(*name);
        let fan = self.fan(direction);
        let Largest {
            nodes,
            others_at_most,
        } = fan.largest(count, known.collect(), unknown, certain);
        let nodes = nodes.into_iter().map(|(name, peers)| NodePeers {
            ip: node_of_name(name),
            peers,
        });
        FanList {
            nodes: nodes.collect(),
            others_at_most: Some(others_at_most),
        }
    }

    /// The states of both sketches.
    pub fn save(&self) -> [Vec<u8>; 2] {
        [&self.out, &self.into].map(Fan::save_state)
    }

    /// Continues from saved states.
    pub fn load(&mut self, [out, into]: [&[u8]; 2]) -> crane_model::Result<()> {
        self.out.load_state(out)?;
        self.into.load_state(into)
    }

    pub fn memory_bytes(&self) -> usize {
        self.out.memory_bytes() + self.into.memory_bytes()
    }
}

/// Bounds for numbers of peers that follow from packets: each peer has a packet, and all packets of
/// one pair belong to one peer.
pub struct Limits<'a> {
    /// Packets by node in this direction.
    nodes: &'a Crane,
    /// The pairs that are known by name, by node.
    pairs: FxHashMap<AnyName, KnownPairs>,
    /// Number of packets that each stored packet stands for.
    one_in: u64,
    /// Upper bound for the number of addresses in the other direction.
    others: u64,
}

/// Pairs of a node that are known by name, counted in stored packets.
#[derive(Debug, Clone, Copy, Default)]
struct KnownPairs {
    /// Pairs with a guaranteed lower bound above 0.
    pairs: u64,
    /// Sum of these lower bounds without the first packet of each pair.
    more_packets: u64,
}

impl<'a> Limits<'a> {
    /// Limits of a direction, for all nodes or for `only` one.
    pub fn new(
        pairs: &Crane,
        [nodes, others]: [&'a Crane; 2],
        one_in: u64,
        direction: Direction,
        only: Option<AnyName>,
    ) -> Self {
        let mut limits = Self {
            nodes,
            pairs: FxHashMap::default(),
            one_in,
            others: match (others.is_exact(), others.distinct()) {
                (true, Some(distinct)) => distinct,
                _ => u64::MAX,
            },
        };
        limits.count::<Narrow>(pairs, direction, only);
        limits.count::<Wide>(pairs, direction, only);
        limits
    }

    fn count<N: Ends + TableKey>(
        &mut self,
        pairs: &Crane,
        direction: Direction,
        only: Option<AnyName>,
    ) {
        let end = |pair: &N| match direction {
            Direction::Out => pair.source().any(),
            Direction::Into => pair.destination().any(),
        };
        let Some(only) = only else {
            let flows = pairs.named::<N>();
            flows.for_each(|flow| self.add(end(&flow.key), &flow.packets));
            return;
        };
        for pair in pairs.names::<N>().filter(|pair| end(pair) == only) {
            if let Ok(flow) = pairs.flow(pair) {
                self.add(only, &flow.packets);
            }
        }
    }

    /// Adds a pair of a node that is known by name.
    fn add(&mut self, node: AnyName, amount: &Amount) {
        let packets = amount.at_least.unwrap_or(0) / self.one_in;
        if packets > 0 {
            let known = self.pairs.entry(node).or_default();
            known.pairs += 1;
            known.more_packets += packets - 1;
        }
    }

    /// Bounds for a node with this number of packets: if it has a packet, it has a peer.
    fn certain(&self, name: &AnyName, packets: &Amount) -> PeerBounds {
        let known = self.pairs.get(name).copied().unwrap_or_default();
        let seen = |packets: u64| packets / self.one_in;
        let had_any = seen(packets.at_least.unwrap_or(0)) > 0;
        let at_least = known.pairs.max(u64::from(had_any));
        let at_most = self.at_most(name, packets.at_most.unwrap_or(u64::MAX));
        PeerBounds {
            at_least,
            at_most: at_most.max(at_least),
        }
    }

    /// Upper bound for the number of peers of a node with at most this many packets.
    fn at_most(&self, name: &AnyName, packets: u64) -> u64 {
        let known = self.pairs.get(name).copied().unwrap_or_default();
        let seen = packets / self.one_in;
        seen.saturating_sub(known.more_packets).min(self.others)
    }

    /// Bounds for a node.
    pub fn of(&self, name: AnyName) -> PeerBounds {
        let packets = match name {
            AnyName::Narrow(name) => self.nodes.flow(name).map(|flow| flow.packets),
            AnyName::Wide(name) => self.nodes.flow(name).map(|flow| flow.packets),
        };
        packets.map_or(PeerBounds::UNBOUNDED, |packets| {
            self.certain(&name, &packets)
        })
    }

    /// All nodes that are known by name.
    fn named(&self) -> impl Iterator<Item = (AnyName, PeerBounds)> {
        let narrow = self.nodes.named::<Narrow>();
        let narrow = narrow.map(|flow| (flow.key.any(), flow.packets));
        let wide = self.nodes.named::<Wide>();
        let wide = wide.map(|flow| (flow.key.any(), flow.packets));
        let certain = |(name, packets)| (name, self.certain(&name, &packets));
        narrow.chain(wide).map(certain)
    }

    /// Ends of pairs that are known by name, if they may have more than `least` peers. Some of them
    /// are not known by name as nodes, because pairs need fewer packets for a name.
    fn ends_of_pairs(&self, least: u64) -> impl Iterator<Item = (AnyName, PeerBounds)> {
        let mut ends = self.ends_above::<Narrow>(least);
        ends.extend(self.ends_above::<Wide>(least));
        ends.into_iter().map(|name| (name, self.of(name)))
    }

    fn ends_above<N: TableKey>(&self, least: u64) -> Vec<AnyName> {
        let names: Vec<N> = self.pairs.keys().filter_map(|name| N::of(*name)).collect();
        let bounds = self.nodes.bounds(&names);
        let bounds = bounds.unwrap_or_else(|_| vec![u64::MAX; names.len()]);
        let names = names.iter().map(|name| name.any()).zip(bounds);
        let above = names.filter(|(name, bound)| self.at_most(name, *bound) > least);
        above.map(|(name, _)| name).collect()
    }

    /// Upper bound for a node that is neither known by name nor an end of a known pair.
    fn unknown(&self) -> u64 {
        if self.nodes.is_exact() {
            return 0;
        }
        let known: Vec<AnyName> = self.pairs.keys().copied().collect();
        let packets = self.nodes.most_unknown(&known);
        let packets = packets.unwrap_or_else(|_| self.nodes.most_unnamed().packets);
        (packets / self.one_in).min(self.others)
    }
}

/// The `count` nodes with the most peers in a direction, if all pairs are known by name.
pub fn counted(pairs: &Crane, count: usize, direction: Direction) -> FanList {
    let known = |sum: EndSum| NodePeers {
        ip: sum.ip,
        peers: Peers::exactly(sum.peers),
    };
    let mut nodes: Vec<NodePeers> = ends::all(pairs, direction).into_iter().map(known).collect();
    let order = |node: &NodePeers| (Reverse(node.peers.peers), node.ip);
    let mut others_at_most = 0;
    if nodes.len() > count {
        let (_, largest_cut, _) = nodes.select_nth_unstable_by_key(count, order);
        others_at_most = largest_cut.peers.peers;
        nodes.truncate(count);
    }
    nodes.sort_unstable_by_key(order);
    FanList {
        nodes,
        others_at_most: Some(others_at_most),
    }
}
