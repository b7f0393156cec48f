//! Fan-out and fan-in of a window: to how many others each address sends, and
//! from how many it receives. Where packets are sampled these are the ones that
//! were seen: how many more there are nobody knows.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::{Certain, Fan, Known, Largest, Peers};
use crane_model::name::{AnyName, Name, Narrow, Wide};
use crane_model::table::Kept;
use crane_model::{Amount, Crane, Secret};
use rustc_hash::FxHashMap;

use super::batch::{FoldedNodes, FoldedPairs, Nodes, Pairs};
use super::budget::Budget;
use crate::edge::{Ends, node_name, node_of_name};
use crate::export::fans::{FanList, NodePeers};

/// Both directions.
pub struct Fans {
    secret: Secret,
    out: Fan,
    into: Fan,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To how many others an address sends.
    Out,
    /// From how many it receives.
    Into,
}

impl Fans {
    /// Empty ones.
    pub fn new(budget: &Budget, secret: Secret) -> crane_model::Result<Self> {
        let fan = || Fan::growing(budget.for_fan(), &secret);
        Ok(Self {
            secret,
            out: fan()?,
            into: fan()?,
        })
    }

    /// Notes who talks with whom in a batch.
    pub fn store(&mut self, pairs: &Pairs, nodes: &Nodes) {
        self.note(&pairs.narrow, &nodes.narrow);
        self.note(&pairs.wide, &nodes.wide);
    }

    fn note<N: Ends>(&mut self, pairs: &FoldedPairs<N>, nodes: &FoldedNodes<N>) {
        for (pair, [source, destination]) in pairs.arrivals().iter().zip(nodes.ends()) {
            if !self.out.takes(pair.id) && !self.into.takes(pair.id) {
                continue;
            }
            self.out.note(&pair.name.source(), source, pair.id);
            let name = pair.name.destination();
            self.into.note(&name, destination, pair.id);
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

    /// With how many others a node talks in one direction.
    pub fn peers(&self, node: IpAddr, direction: Direction) -> Peers {
        let id = self.id(&node_name(node));
        self.fan(direction).answer(id)
    }

    /// The `count` largest of one direction, where `limits` says what is certain.
    pub fn largest(&self, count: usize, direction: Direction, limits: &Limits<'_>) -> FanList {
        let known = limits.named().map(|(name, certain)| Known {
            id: self.id(&name),
            name,
            certain,
        });
        let certain = |name: &AnyName| limits.of(*name);
        let fan = self.fan(direction);
        let Largest {
            nodes,
            others_at_most,
        } = fan.largest(count, known.collect(), limits.unnamed(), certain);
        let nodes = nodes.into_iter().map(|(name, peers)| NodePeers {
            ip: node_of_name(name),
            peers,
        });
        FanList {
            nodes: nodes.collect(),
            others_at_most: Some(others_at_most),
        }
    }

    /// All state of each.
    pub fn save(&self) -> [Vec<u8>; 2] {
        [&self.out, &self.into].map(Fan::save_state)
    }

    /// Continues from saved states.
    pub fn load(&mut self, [out, into]: [&[u8]; 2]) -> crane_model::Result<()> {
        self.out.load_state(out)?;
        self.into.load_state(into)
    }

    /// Bytes of both.
    pub fn memory_bytes(&self) -> usize {
        self.out.memory_bytes() + self.into.memory_bytes()
    }
}

/// What packets say of the number of peers: every peer is a packet, and packets of
/// one known pair are of one peer.
pub struct Limits<'a> {
    /// Packets by node, in the direction that is meant.
    nodes: &'a Crane,
    /// Of each node the pairs that are known by name.
    pairs: FxHashMap<AnyName, KnownPairs>,
    /// Each packet stands for so many.
    one_in: u64,
    /// How many addresses there are on the other side at most.
    others: u64,
}

/// The pairs of a node that are known by name, in packets that were seen.
#[derive(Debug, Clone, Copy, Default)]
struct KnownPairs {
    /// Those that certainly had a packet.
    pairs: u64,
    /// Packets that they had certainly besides.
    more_packets: u64,
}

impl<'a> Limits<'a> {
    /// Those of a direction, of all nodes or of `only` one.
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

    fn count<N: Ends + Kept>(
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

    /// What is certain of a node that had so many packets: whoever had one has a peer.
    fn certain(&self, name: &AnyName, packets: &Amount) -> Certain {
        let known = self.pairs.get(name).copied().unwrap_or_default();
        let seen = |packets: u64| packets / self.one_in;
        let had_any = seen(packets.at_least.unwrap_or(0)) > 0;
        let at_least = known.pairs.max(u64::from(had_any));
        let at_most = packets.at_most.map_or(u64::MAX, seen);
        let at_most = at_most.saturating_sub(known.more_packets).min(self.others);
        Certain {
            at_least,
            at_most: at_most.max(at_least),
        }
    }

    /// What is certain of a node.
    pub fn of(&self, name: AnyName) -> Certain {
        let packets = match name {
            AnyName::Narrow(name) => self.nodes.flow(name).map(|flow| flow.packets),
            AnyName::Wide(name) => self.nodes.flow(name).map(|flow| flow.packets),
        };
        packets.map_or(Certain::ANYTHING, |packets| self.certain(&name, &packets))
    }

    /// All nodes that are known by name.
    fn named(&self) -> impl Iterator<Item = (AnyName, Certain)> {
        let narrow = self.nodes.named::<Narrow>();
        let narrow = narrow.map(|flow| (flow.key.any(), flow.packets));
        let wide = self.nodes.named::<Wide>();
        let wide = wide.map(|flow| (flow.key.any(), flow.packets));
        let certain = |(name, packets)| (name, self.certain(&name, &packets));
        narrow.chain(wide).map(certain)
    }

    /// How many peers a node has at most that is not known by name.
    fn unnamed(&self) -> u64 {
        match self.nodes.is_exact() {
            true => 0,
            false => (self.nodes.most_unnamed().packets / self.one_in).min(self.others),
        }
    }
}

/// The `count` largest of a direction, where all pairs are known.
pub fn counted(pairs: &Crane, count: usize, direction: Direction) -> FanList {
    let [narrow, wide] = match direction {
        Direction::Out => [by_end(pairs, Narrow::source), by_end(pairs, Wide::source)],
        Direction::Into => [
            by_end(pairs, Narrow::destination),
            by_end(pairs, Wide::destination),
        ],
    };
    let mut nodes = narrow;
    nodes.extend(wide);
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

/// How many pairs each node is an end of.
fn by_end<N: Ends + Kept>(pairs: &Crane, end: fn(&N) -> N) -> Vec<NodePeers> {
    let mut ends = Vec::new();
    pairs.names().for_each(|pair| ends.push(end(&pair)));
    // Quicker than a table of all nodes.
    ends.sort_unstable();
    let same = ends.chunk_by(|one, next| one == next);
    let named = same.map(|same| NodePeers {
        ip: node_of_name(same[0].any()),
        peers: Peers::exactly(same.len() as u64),
    });
    named.collect()
}

/// How many pairs have this source, or this destination, where all pairs are known.
pub fn counted_of(pairs: &Crane, node: IpAddr, direction: Direction) -> u64 {
    match node_name(node) {
        AnyName::Narrow(name) => with_end(pairs, name, direction),
        AnyName::Wide(name) => with_end(pairs, name, direction),
    }
}

fn with_end<N: Ends + Kept>(pairs: &Crane, node: N, direction: Direction) -> u64 {
    let is_end = |pair: &N| match direction {
        Direction::Out => pair.source() == node,
        Direction::Into => pair.destination() == node,
    };
    pairs.names::<N>().filter(is_end).count() as u64
}
