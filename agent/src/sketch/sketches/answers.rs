//! What sketches answer: who sends how much to whom, and with how many others a node
//! talks.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::Peers;
use crane_model::name::AnyName;
use crane_model::{Crane, Flow};

use super::Sketches;
use crate::edge::{Pair, node_name};
use crate::endpoint::{Between, Endpoint};
use crate::export::fans::FanLists;
use crate::names::Names;
use crate::sketch::answer::{About, Asked};
use crate::sketch::fans;

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
        let [out, into] = self.seen_peers(about)?;
        Some([
            self.with_unseen(out, node, &self.sources),
            self.with_unseen(into, node, &self.destinations),
        ])
    }

    /// Of a sample only some peers were seen: there may be as many as packets.
    fn with_unseen(&self, peers: Peers, node: IpAddr, crane: &Crane) -> Peers {
        if !self.sampling.is_sampled() {
            return peers;
        }
        let packets = self.flow(crane, node_name(node), ());
        let most = packets.map_or(u64::MAX, |flow| flow.packets.high);
        Peers {
            high: peers.high.max(most),
            ..peers
        }
    }

    fn seen_peers(&self, about: &About) -> Option<[Peers; 2]> {
        match *about {
            About::Flow { .. } | About::Lists { .. } | About::Inside => None,
            // While all pairs are known, they tell it exactly.
            About::Node(node) if self.pairs.is_exact() => {
                Some(fans::counted_of(&self.pairs, node).map(Peers::exactly))
            }
            About::Node(node) => {
                let [out, into] = self.fans.peers(node);
                Some([
                    bounded(out, node, &self.sources),
                    bounded(into, node, &self.destinations),
                ])
            }
        }
    }

    /// The `top` nodes that talk with most others.
    pub fn largest_fans(&self, top: usize) -> FanLists {
        let mut fans = self.seen_fans(top);
        for (list, crane) in [
            (&mut fans.out, &self.sources),
            (&mut fans.into, &self.destinations),
        ] {
            for node in list {
                node.peers = self.with_unseen(node.peers, node.ip, crane);
            }
        }
        fans
    }

    fn seen_fans(&self, top: usize) -> FanLists {
        if self.pairs.is_exact() {
            return fans::counted(&self.pairs, top);
        }
        // A bound moves some of them back.
        let mut fans = self.fans.largest(2 * top);
        for (list, crane) in [
            (&mut fans.out, &self.sources),
            (&mut fans.into, &self.destinations),
        ] {
            for node in &mut *list {
                node.peers = bounded(node.peers, node.ip, crane);
            }
            list.sort_unstable_by_key(|node| (Reverse(node.peers.peers), node.ip));
            list.truncate(top);
        }
        fans
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

/// A node has no more peers than packets, and these may all be counted.
fn bounded(peers: Peers, node: IpAddr, crane: &Crane) -> Peers {
    let counted = match node_name(node) {
        _ if !crane.is_exact() => return peers,
        AnyName::Narrow(name) => crane.flow(name).map(|flow| flow.packets),
        AnyName::Wide(name) => crane.flow(name).map(|flow| flow.packets),
    };
    let most = counted.ok().and_then(|packets| packets.at_most);
    most.map_or(peers, |most| peers.at_most(most))
}

/// The same without the name that was asked for.
fn unnamed<K>(flow: Flow<K>) -> Flow<()> {
    flow.rename(|_| ())
}
