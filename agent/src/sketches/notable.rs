//! Notable addresses: they have far more peers than other addresses, and fewer than half as many
//! peers in the other direction.
//!
//! Scans and floods differ from conversations by their pairs, most of which have only one or two
//! packets. This does not depend on the mean number of packets, in which a single heavy flow would
//! hide a scan.

use std::net::IpAddr;

use super::Sketches;
use crate::sketches::fan_lists::{FanList, NodePeers, Notable, NotableKind};
use crate::sketches::fans::Direction;

/// An address with fewer peers than this is never notable.
const MANY: u64 = 64;

/// An address is compared with the one at this position of the list, independent of the number of
/// rows that are shown. So it is notable in all outputs or in none.
const COMPARED: usize = 10;

/// Least length of lists in which notable addresses are searched.
pub(super) const DECIDED: usize = 2 * COMPARED;

/// A notable address has at least this many times the peers of the one it is compared with.
const FAR_MORE: u64 = 3;

/// A pair with at most this many packets is light.
const LIGHT: u64 = 2;

/// Pairs without a name are light if they have at most this many packets on average, because some
/// of them are heavier.
const LIGHT_MEAN: u64 = 3;

impl Sketches {
    /// The notable addresses of a list of at least [`DECIDED`] entries.
    pub(super) fn notable(&self, list: &FanList, direction: Direction) -> Vec<Notable> {
        let compared = list.nodes.get(COMPARED);
        let usual = MANY.max(FAR_MORE * compared.map_or(0, |node| node.peers.peers));
        let back = match direction {
            Direction::Out => Direction::Into,
            Direction::Into => Direction::Out,
        };
        let is_special = |node: &&NodePeers| {
            node.peers.low >= usual
                // A server has about as many peers in both directions, so it is not notable.
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

    /// Whether most pairs of an address are light.
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
        // For the other pairs only the sum of their packets is known.
        let others = node.peers.peers.saturating_sub(named);
        let Ok(all) = self.address(node.ip, direction) else {
            return false;
        };
        let left = all.packets.estimate.saturating_sub(counted);
        if left <= others.saturating_mul(LIGHT_MEAN * one_in) {
            light += others;
        }
        2 * light >= node.peers.peers
    }
}
