//! Fan-out and fan-in of a window: to how many others each address sends, and
//! from how many it receives. Where packets are sampled these are the ones that
//! were seen: how many more there are nobody knows.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::{Fan, Peers};
use crane_model::name::{AnyName, Narrow, Wide};
use crane_model::table::Kept;
use crane_model::{Crane, Secret};

use super::batch::{FoldedNodes, FoldedPairs, Nodes, Pairs};
use super::budget::Budget;
use crate::edge::{Ends, node_name, node_of_name};
use crate::export::fans::{FanLists, NodePeers};

/// Both directions.
pub struct Fans {
    secret: Secret,
    out: Fan,
    into: Fan,
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

    /// To how many others a node sends, and from how many it receives.
    pub fn peers(&self, node: IpAddr) -> [Peers; 2] {
        let id = match node_name(node) {
            AnyName::Narrow(name) => self.secret.id(&name),
            AnyName::Wide(name) => self.secret.id(&name),
        };
        [&self.out, &self.into].map(|fan| fan.answer(id))
    }

    /// The `count` largest of each direction.
    pub fn largest(&self, count: usize) -> FanLists {
        let largest = |fan: &Fan| {
            let largest = fan.largest(count).into_iter();
            let named = largest.map(|(name, peers)| (node_of_name(name), peers));
            named.map(|(ip, peers)| NodePeers { ip, peers }).collect()
        };
        FanLists {
            out: largest(&self.out),
            into: largest(&self.into),
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

/// The `count` largest of each direction, where all pairs are known.
pub fn counted(pairs: &Crane, count: usize) -> FanLists {
    let largest = |mut narrow: Vec<NodePeers>, wide| {
        narrow.extend(wide);
        let order = |node: &NodePeers| (Reverse(node.peers.peers), node.ip);
        if narrow.len() > count {
            narrow.select_nth_unstable_by_key(count, order);
            narrow.truncate(count);
        }
        narrow.sort_unstable_by_key(order);
        narrow
    };
    FanLists {
        out: largest(by_end(pairs, Narrow::source), by_end(pairs, Wide::source)),
        into: largest(
            by_end(pairs, Narrow::destination),
            by_end(pairs, Wide::destination),
        ),
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

/// How many pairs have this source, and how many this destination, where all pairs
/// are known.
pub fn counted_of(pairs: &Crane, node: IpAddr) -> [u64; 2] {
    match node_name(node) {
        AnyName::Narrow(name) => with_end(pairs, name),
        AnyName::Wide(name) => with_end(pairs, name),
    }
}

fn with_end<N: Ends + Kept>(pairs: &Crane, node: N) -> [u64; 2] {
    let mut found = [0; 2];
    pairs.names::<N>().for_each(|pair| {
        found[0] += u64::from(pair.source() == node);
        found[1] += u64::from(pair.destination() == node);
    });
    found
}
