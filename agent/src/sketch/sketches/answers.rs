//! What sketches answer: who sends how much to whom, and with how many others a node
//! talks.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::Peers;
use crane_model::name::AnyName;
use crane_model::{Crane, Flow};

use super::Sketches;
use super::notable::DECIDED;
use crate::edge::{Pair, node_name};
use crate::endpoint::{Between, Endpoint};
use crate::export::fans::{FanList, FanLists};
use crate::names::Names;
use crate::sketch::answer::{About, Asked};
use crate::sketch::fans::{self, Direction, Limits};

impl Sketches {
    /// What is known of who sends to whom, or of a node as source and as
    /// destination.
    pub fn answer(
        &self,
        about: &About,
        names: Option<&Names>,
    ) -> crane_model::Result<Vec<Flow<()>>> {
        Ok(match about {
            About::Flow { ends, both: false } => vec![self.between(ends, names)?],
            About::Flow { ends, both: true } => vec![
                self.between(ends, names)?,
                self.between(&ends.reversed(), names)?,
            ],
            About::Node(node) => self.node(*node)?.map(unnamed).to_vec(),
            About::Lists { .. } | About::Inside => Vec::new(),
        })
    }

    /// What one end sends to another: by the sketch that knows it best.
    fn between(&self, ends: &Between, names: Option<&Names>) -> crane_model::Result<Flow<()>> {
        if let Some(pair) = ends.pair() {
            return self.pair(pair).map(unnamed);
        }
        Ok(match (&ends.src, &ends.dst) {
            (Endpoint::Address(node), Endpoint::Any) => {
                self.flow(&self.sources, node_name(*node), ())?
            }
            (Endpoint::Any, Endpoint::Address(node)) => {
                self.flow(&self.destinations, node_name(*node), ())?
            }
            (Endpoint::Any, Endpoint::Any) => self.sampling.honest(self.pairs.total()),
            _ => {
                let are_meant = ends.pairs(names);
                let sum = self.pairs.sum(&|name| are_meant(Pair::of_name(name)));
                self.sampling.honest(sum)
            }
        })
    }

    /// To how many others a node sends, and from how many it receives; none of a
    /// pair.
    pub fn peers(&self, about: &About) -> Option<[Peers; 2]> {
        let About::Node(node) = *about else {
            return None;
        };
        Some([Direction::Out, Direction::Into].map(|direction| {
            let seen = self.seen_peers(node, direction);
            self.with_unseen(seen, node, direction)
        }))
    }

    /// Of a sample only some peers were seen: there may be as many as packets.
    fn with_unseen(&self, peers: Peers, node: IpAddr, direction: Direction) -> Peers {
        if !self.sampling.is_sampled() {
            return peers;
        }
        let [crane, _] = self.nodes(direction);
        let packets = self.flow(crane, node_name(node), ());
        let most = packets.map_or(u64::MAX, |flow| flow.packets.high);
        Peers {
            high: peers.high.max(most),
            exact: false,
            ..peers
        }
    }

    pub(super) fn seen_peers(&self, node: IpAddr, direction: Direction) -> Peers {
        // While all pairs are known, they tell it exactly.
        if self.pairs.is_exact() {
            return Peers::exactly(fans::counted_of(&self.pairs, node, direction));
        }
        let peers = self.fans.peers(node, direction);
        let name = node_name(node);
        peers.within(self.limits(direction, Some(name)).of(name))
    }

    /// The nodes that talk in a direction, and those they talk with.
    fn nodes(&self, direction: Direction) -> [&Crane; 2] {
        match direction {
            Direction::Out => [&self.sources, &self.destinations],
            Direction::Into => [&self.destinations, &self.sources],
        }
    }

    /// What is certain of all nodes, or of `only` one.
    fn limits(&self, direction: Direction, only: Option<AnyName>) -> Limits<'_> {
        let nodes = self.nodes(direction);
        let one_in = self.sampling.one_in();
        Limits::new(&self.pairs, nodes, one_in, direction, only)
    }

    /// The `top` nodes that talk with most others, as far as they stand out.
    pub fn largest_fans(&self, top: usize) -> FanLists {
        let longer = top.max(DECIDED);
        let [out, into] = [Direction::Out, Direction::Into].map(|direction| {
            let mut list = match self.pairs.is_exact() {
                true => fans::counted(&self.pairs, longer, direction),
                false => self.largest_fan(longer, direction),
            };
            for node in &mut list.nodes {
                node.peers = self.with_unseen(node.peers, node.ip, direction);
            }
            if self.sampling.is_sampled() {
                list.others_at_most = None;
            }
            list
        });
        let mut notable = self.notable(&out, Direction::Out);
        notable.extend(self.notable(&into, Direction::Into));
        notable.sort_by_key(|notable| Reverse(notable.node.peers.peers));
        let mut lists = FanLists { out, into, notable };
        lists.shorten(top);
        lists
    }

    fn largest_fan(&self, top: usize, direction: Direction) -> FanList {
        self.fans
            .largest(top, direction, &self.limits(direction, None))
    }

    /// The answers to all that a report is asked.
    pub fn asked(&self, asked: &[About], names: Option<&Names>) -> crane_model::Result<Vec<Asked>> {
        let answer = |about: &About| {
            let flows = self.answer(about, names)?;
            Ok(Asked {
                about: about.clone(),
                flows,
                peers: self.peers(about),
            })
        };
        asked.iter().map(answer).collect()
    }
}

/// The same without the name that was asked for.
fn unnamed<K>(flow: Flow<K>) -> Flow<()> {
    flow.rename(|_| ())
}
