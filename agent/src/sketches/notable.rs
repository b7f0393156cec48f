//! Notable addresses: they have far more peers than other addresses, and fewer than half as many
//! peers in the other direction.
//!
//! Scans and floods differ from conversations by their pairs, most of which have only one or two
//! packets. This does not depend on the mean number of packets, in which a single heavy flow would
//! hide a scan. As many scanners may be alike, those are not only compared with the first
//! addresses of the list, which may be scanners too, but also with the addresses after them.

use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::Sketches;
use crate::sketches::fan_lists::{FanList, NodePeers, Notable, NotableKind};
use crate::sketches::fans::Direction;

/// An address with fewer peers than this is never notable.
const MANY: u64 = 64;

/// An address is compared with the one at this position of the list, independent of the number of
/// rows that are shown. So it is notable in all outputs or in none.
const COMPARED: usize = 10;

/// Length of lists in which notable addresses are searched, if there are as many entries.
pub(super) const DECIDED: usize = 100;

/// A notable address has at least this many times the peers of the one it is compared with.
const FAR_MORE: u64 = 3;

/// Within this many positions of the list the numbers of ordinary traffic do not drop to a third,
/// except at its beginning.
const NEAR: usize = 5;

/// A pair with at most this many packets is light.
const LIGHT: u64 = 2;

/// Pairs without a name are light if they have at most this many packets on average, because some
/// of them are heavier.
const LIGHT_MEAN: u64 = 3;

/// The pairs of an address that are known by name.
#[derive(Debug, Clone, Copy, Default)]
struct KnownPairs {
    pairs: u64,
    light: u64,
    packets: u64,
    /// Pairs in the other direction.
    back: u64,
}

impl Sketches {
    /// The notable addresses of a list of at least [`DECIDED`] entries, or of all that stand out.
    pub(super) fn notable(&self, list: &FanList, direction: Direction) -> Vec<Notable> {
        let nodes = &list.nodes[..list.nodes.len().min(DECIDED)];
        let compared = nodes.get(COMPARED).map_or(0, |node| node.peers.peers);
        let usual = MANY.max(FAR_MORE * compared);
        let usual_if_light = self.usual_if_light(nodes, list.others_at_most, direction);
        let least = usual.min(usual_if_light.unwrap_or(usual));
        let far_more = nodes.iter().filter(|node| node.peers.low >= least);
        let far_more: Vec<NodePeers> = far_more.copied().collect();
        if far_more.is_empty() {
            return Vec::new();
        }
        let known = self.known_pairs(&far_more, direction);
        let special = self.mostly_unanswered(far_more, direction, &known);
        let light = self.light(&special, direction, &known);
        let notable = special.into_iter().zip(light).filter_map(|(node, light)| {
            let kind = match (direction, light) {
                (Direction::Out, true) => NotableKind::Scan,
                (Direction::Out, false) => NotableKind::FanOut,
                (Direction::Into, true) => NotableKind::Flood,
                (Direction::Into, false) => NotableKind::FanIn,
            };
            (light || node.peers.low >= usual).then_some(Notable { kind, node })
        });
        notable.collect()
    }

    /// The number of peers from which an address with light pairs is notable although it is not
    /// far before the others of the list. `None` if there is no such number: in ordinary traffic
    /// the numbers of peers decrease gradually.
    fn usual_if_light(
        &self,
        nodes: &[NodePeers],
        others_at_most: Option<u64>,
        direction: Direction,
    ) -> Option<u64> {
        let is_full = nodes.len() == DECIDED;
        // What follows a full list is not known.
        let end = if is_full { None } else { others_at_most };
        let peers = |at: usize| nodes.get(at).map(|node| node.peers.peers).or(end);
        let usual = |at: usize| peers(at + NEAR).map(|other| MANY.max(FAR_MORE * other));
        let drops = |at: usize| usual(at).filter(|usual| peers(at) >= Some(*usual));
        if let Some(usual) = (0..nodes.len()).rev().find_map(drops) {
            return Some(usual);
        }
        // Whether all in the list are alike, and there may be more such addresses. These are not
        // ordinary if they are far above the mean, because few addresses can be.
        let (first, last) = (nodes.first()?.peers.peers, nodes.last()?.peers.peers);
        let [crane, _] = self.nodes(direction);
        let mean = self.pairs.distinct()? / crane.distinct()?.max(1);
        let usual = MANY.max(FAR_MORE * FAR_MORE * mean);
        (is_full && first <= FAR_MORE * last && last >= usual).then_some(usual)
    }

    /// The pairs of these addresses that are known by name.
    fn known_pairs(
        &self,
        nodes: &[NodePeers],
        direction: Direction,
    ) -> FxHashMap<IpAddr, KnownPairs> {
        let light = LIGHT * self.sampling.one_in();
        let none = nodes.iter().map(|node| (node.ip, KnownPairs::default()));
        let mut known: FxHashMap<IpAddr, KnownPairs> = none.collect();
        for flow in self.named_pairs() {
            let (src, dst) = (flow.key.src(), flow.key.dst());
            let (end, other) = match direction {
                Direction::Out => (src, dst),
                Direction::Into => (dst, src),
            };
            if let Some(of) = known.get_mut(&end) {
                of.pairs += 1;
                of.light += u64::from(flow.packets.estimate <= light);
                of.packets += flow.packets.estimate;
            }
            if let Some(of) = known.get_mut(&other) {
                of.back += 1;
            }
        }
        known
    }

    /// Those with fewer than half as many peers in the other direction. A server has about as many
    /// peers in both directions.
    fn mostly_unanswered(
        &self,
        mut nodes: Vec<NodePeers>,
        direction: Direction,
        known: &FxHashMap<IpAddr, KnownPairs>,
    ) -> Vec<NodePeers> {
        if self.pairs.is_exact() {
            nodes.retain(|node| known[&node.ip].back < node.peers.peers / 2);
            return nodes;
        }
        let back = match direction {
            Direction::Out => Direction::Into,
            Direction::Into => Direction::Out,
        };
        let limits = self.limits(back, None);
        nodes.retain(|node| {
            self.estimated_peers(node.ip, back, &limits).peers < node.peers.peers / 2
        });
        nodes
    }

    /// Whether most pairs of each address are light.
    fn light(
        &self,
        nodes: &[NodePeers],
        direction: Direction,
        known: &FxHashMap<IpAddr, KnownPairs>,
    ) -> Vec<bool> {
        let mut packets = FxHashMap::default();
        if !self.pairs.is_exact() {
            let flows = nodes
                .iter()
                .map(|node| self.rough_address(node.ip, direction));
            let mut flows: Vec<_> = flows.flatten().collect();
            self.correct_stored_addresses(&mut flows, direction, |flow| flow);
            let flows = flows.into_iter().map(|flow| self.sampling.widened(flow));
            packets.extend(flows.map(|flow| (flow.key, flow.packets.estimate)));
        }
        let is_light = |node: &NodePeers| {
            let known = known[&node.ip];
            // For the other pairs only the sum of their packets is known.
            let others = node.peers.peers.saturating_sub(known.pairs);
            let left = packets.get(&node.ip);
            let left = left.map(|packets| packets.saturating_sub(known.packets));
            let most = others.saturating_mul(LIGHT_MEAN * self.sampling.one_in());
            let others_are_light = left.is_some_and(|left| left <= most);
            let light = known.light + if others_are_light { others } else { 0 };
            2 * light >= node.peers.peers
        };
        nodes.iter().map(is_light).collect()
    }
}
