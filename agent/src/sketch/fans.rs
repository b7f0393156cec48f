//! Fan-out and fan-in of a window: to how many others each address sends, and
//! from how many it receives. Where packets are sampled these are the ones that
//! were seen: how many more there are nobody knows.

use std::net::IpAddr;

use crane_model::Secret;
use crane_model::fan::{Fan, Peers};
use crane_model::name::AnyName;

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
