//! Answers of sketches: traffic between two ends, traffic of an address, and its number of peers.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::Peers;
use crane_model::name::AnyName;
use crane_model::{Amount, Crane, Flow};

use super::ends;
use super::notable::DECIDED;
use super::{Sketches, stored};
use crate::sketches::fan_lists::{FanList, FanLists};
use crate::sketches::fans::{self, Direction, Limits};
use crate::traffic::edge::{Pair, node_name};
use crate::traffic::endpoint::{Between, Endpoint, KnownNetworks};

impl Sketches {
    /// Traffic from one end to another, by the sketch that is most accurate for them.
    pub fn between(
        &self,
        ends: &Between,
        known: &KnownNetworks<'_>,
    ) -> crane_model::Result<Flow<()>> {
        Ok(self.sampling.widened(self.stored_between(ends, known)?))
    }

    /// The stored traffic from one end to another. Not widened for sampling.
    pub(super) fn stored_between(
        &self,
        ends: &Between,
        known: &KnownNetworks<'_>,
    ) -> crane_model::Result<Flow<()>> {
        if let Some(pair) = ends.pair() {
            return self.stored_pair(pair).map(unnamed);
        }
        Ok(match (&ends.src, &ends.dst) {
            (Endpoint::Address(ip), Endpoint::Any) => self.stored_address(*ip, Direction::Out)?,
            (Endpoint::Any, Endpoint::Address(ip)) => self.stored_address(*ip, Direction::Into)?,
            (Endpoint::Any, Endpoint::Any) => self.pairs.total(),
            _ => {
                let matches = ends.pairs(known);
                self.pairs.sum(&|name| matches(Pair::of_name(name)))
            }
        })
    }

    /// Traffic that an address sent or received.
    pub fn address(&self, ip: IpAddr, direction: Direction) -> crane_model::Result<Flow<IpAddr>> {
        let flow = self.stored_address(ip, direction)?;
        Ok(self.sampling.widened(flow.rename(|()| ip)))
    }

    fn stored_address(&self, ip: IpAddr, direction: Direction) -> crane_model::Result<Flow<()>> {
        if self.are_sums(direction) {
            return Ok(unnamed(ends::one(&self.pairs, ip, direction).flow()));
        }
        let mut flow = self.rough_address(ip, direction)?;
        self.correct_stored_addresses(std::slice::from_mut(&mut flow), direction, |flow| flow);
        Ok(unnamed(flow))
    }

    /// Traffic of an address by the sketch of addresses alone, which is faster for lists.
    pub(super) fn rough_address(
        &self,
        ip: IpAddr,
        direction: Direction,
    ) -> crane_model::Result<Flow<IpAddr>> {
        let [crane, _] = self.nodes(direction);
        stored(crane, node_name(ip), ip)
    }

    /// Number of peers that an address sends to, or receives from.
    pub fn peers(&self, ip: IpAddr, direction: Direction) -> Peers {
        let seen = self.seen_peers(ip, direction);
        self.with_unseen(seen, ip, direction)
    }

    /// If packets are sampled, only some peers were seen: there may be as many peers as packets.
    fn with_unseen(&self, peers: Peers, node: IpAddr, direction: Direction) -> Peers {
        if !self.sampling.is_sampled() {
            return peers;
        }
        let most = self.packets(node, direction).map_or(u64::MAX, |p| p.high);
        Peers {
            high: peers.high.max(most),
            exact: false,
            ..peers
        }
    }

    /// Limits the number of peers by the number of packets: no peer without a packet, and at least
    /// one peer if there is a packet. Both numbers are shown next to each other, and the packet
    /// count is more accurate than a bitmap with many bits set.
    fn limited_by_packets(&self, peers: Peers, node: IpAddr, direction: Direction) -> Peers {
        let Some(packets) = self.packets(node, direction) else {
            return peers;
        };
        let seen = packets.estimate.div_ceil(self.sampling.one_in());
        let likely = peers.peers.clamp(seen.min(1), seen);
        Peers {
            peers: likely.clamp(peers.low, peers.high),
            ..peers
        }
    }

    /// Packets that an address sent or received.
    fn packets(&self, ip: IpAddr, direction: Direction) -> Option<Amount> {
        let flow = match self.are_sums(direction) {
            true => self.address(ip, direction),
            false => self
                .rough_address(ip, direction)
                .map(|flow| self.sampling.widened(flow)),
        };
        flow.ok().map(|flow| flow.packets)
    }

    fn seen_peers(&self, node: IpAddr, direction: Direction) -> Peers {
        // If all pairs are known by name, the number of peers is exact.
        if self.pairs.is_exact() {
            return Peers::exactly(ends::one(&self.pairs, node, direction).peers);
        }
        let limits = self.limits(direction, Some(node_name(node)));
        self.estimated_peers(node, direction, &limits)
    }

    /// The number of peers if not all pairs are known by name. `limits` are those of the direction.
    pub(super) fn estimated_peers(
        &self,
        node: IpAddr,
        direction: Direction,
        limits: &Limits<'_>,
    ) -> Peers {
        let peers = self.fans.peers(node, direction, limits);
        self.limited_by_packets(peers, node, direction)
    }

    /// The sketches of nodes in this direction and in the other one.
    pub(super) fn nodes(&self, direction: Direction) -> [&Crane; 2] {
        match direction {
            Direction::Out => [&self.sources, &self.destinations],
            Direction::Into => [&self.destinations, &self.sources],
        }
    }

    /// Limits for all nodes, or for `only` one.
    pub(super) fn limits(&self, direction: Direction, only: Option<AnyName>) -> Limits<'_> {
        let nodes = self.nodes(direction);
        let one_in = self.sampling.one_in();
        Limits::new(&self.pairs, nodes, one_in, direction, only)
    }

    /// The `top` nodes with the most peers in each direction, as far as they stand out from others.
    pub fn largest_fans(&self, top: usize) -> FanLists {
        let longer = top.max(DECIDED);
        let mut notable = Vec::new();
        let [out, into] = [Direction::Out, Direction::Into].map(|direction| {
            let mut list = match self.pairs.is_exact() {
                true => fans::counted(&self.pairs, longer, direction),
                false => self.largest_fan(longer, direction),
            };
            for node in &mut list.nodes {
                node.peers = self.with_unseen(node.peers, node.ip, direction);
            }
            // In a sample the bound is one for the peers that were seen.
            notable.extend(self.notable(&list, direction));
            if self.sampling.is_sampled() {
                list.others_at_most = None;
            }
            list
        });
        notable.sort_by_key(|notable| Reverse(notable.node.peers.peers));
        let mut lists = FanLists { out, into, notable };
        lists.shorten(top);
        lists
    }

    fn largest_fan(&self, top: usize, direction: Direction) -> FanList {
        let limits = self.limits(direction, None);
        let mut list = self.fans.largest(top, direction, &limits);
        for node in &mut list.nodes {
            node.peers = self.limited_by_packets(node.peers, node.ip, direction);
        }
        list.nodes
            .sort_by_key(|node| (Reverse(node.peers.peers), node.ip));
        list
    }
}

/// Removes the key.
fn unnamed<K>(flow: Flow<K>) -> Flow<()> {
    flow.rename(|_| ())
}
