//! Which addresses are worth a look: those that talk with far more others than the
//! rest, and get no answer from most of them.
//!
//! A scan and a flood are told from conversations by their pairs: most of them have
//! a packet or two. One heavy flow beside them does not hide that, as it would in a
//! mean over all packets of the address.

use std::net::IpAddr;

use super::Sketches;
use crate::export::fans::{FanList, NodePeers, Notable, NotableKind};
use crate::sketch::fans::Direction;

/// Fewer peers than this are nothing special anywhere.
const MANY: u64 = 64;

/// An address is compared with the one that is this far down the list, whatever
/// length is shown: so it is notable in all outputs or in none.
const COMPARED: usize = 10;

/// Lists are at least this long while it is decided who is notable.
pub(super) const DECIDED: usize = 2 * COMPARED;

/// So many times as many peers as the one it is compared with are special.
const FAR_MORE: u64 = 3;

/// A pair with no more packets than this is no conversation.
const LIGHT: u64 = 2;

/// Pairs that are not known by name are light if they have no more packets than
/// this in the mean: some of them are heavier.
const LIGHT_MEAN: u64 = 3;

impl Sketches {
    /// Those of a list of at least [`DECIDED`] that are worth a look.
    pub(super) fn notable(&self, list: &FanList, direction: Direction) -> Vec<Notable> {
        let compared = list.nodes.get(COMPARED);
        let usual = MANY.max(FAR_MORE * compared.map_or(0, |node| node.peers.peers));
        let back = match direction {
            Direction::Out => Direction::Into,
            Direction::Into => Direction::Out,
        };
        let is_special = |node: &&NodePeers| {
            node.peers.low >= usual
                // A server sends to as many as it receives from.
                && self.seen_peers(node.ip, back).peers < node.peers.peers / 2
        };
        let notable = |node: &NodePeers| Notable {
            kind: match (direction, self.is_light(node, direction)) {
                (Direction::Out, true) => NotableKind::Scan,
                (Direction::Out, false) => NotableKind::FanOut,
                (Direction::Into, true) => NotableKind::Flood,
                (Direction::Into, false) => NotableKind::FanIn,
            },
            node: *node,
        };
        let special = list.nodes.iter().filter(is_special);
        special.map(notable).collect()
    }

    /// Whether most pairs of an address have a packet or two.
    fn is_light(&self, node: &NodePeers, direction: Direction) -> bool {
        let one_in = self.sampling.one_in();
        let (mut named, mut light, mut counted) = (0u64, 0u64, 0u64);
        for flow in self.named_pairs() {
            let end: IpAddr = match direction {
                Direction::Out => flow.key.src(),
                Direction::Into => flow.key.dst(),
            };
            if end == node.ip {
                named += 1;
                light += u64::from(flow.packets.estimate <= LIGHT * one_in);
                counted += flow.packets.estimate;
            }
        }
        // The others are known by their sum only.
        let others = node.peers.peers.saturating_sub(named);
        let [sent, received] = match self.node(node.ip) {
            Ok(flows) => flows.map(|flow| flow.packets.estimate),
            Err(_) => return false,
        };
        let packets = match direction {
            Direction::Out => sent,
            Direction::Into => received,
        };
        let left = packets.saturating_sub(counted);
        if left <= others.saturating_mul(LIGHT_MEAN * one_in) {
            light += others;
        }
        2 * light >= node.peers.peers
    }
}
