//! Lists of the addresses with the most peers, and those among them that are notable.

use std::net::IpAddr;

use crane_model::fan::Peers;
use serde::{Deserialize, Serialize};

/// A node and its number of peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePeers {
    pub ip: IpAddr,
    /// Peers in one direction.
    pub peers: Peers,
}

/// Nodes with the most peers in one direction, as far as they stand out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FanList {
    /// Nodes with the most peers first.
    pub nodes: Vec<NodePeers>,
    /// Upper bound for all other addresses, which holds in 19 of 20 cases. `None` if it is not
    /// known, as if packets are sampled.
    pub others_at_most: Option<u64>,
}

/// Why an address is notable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotableKind {
    /// It sends one or two packets to each of very many addresses.
    Scan,
    /// It receives one or two packets from each of very many addresses.
    Flood,
    /// It sends to very many addresses that do not answer.
    FanOut,
    /// It receives from very many addresses that it does not answer.
    FanIn,
}

impl NotableKind {
    /// Name in JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Flood => "flood",
            Self::FanOut => "fan_out",
            Self::FanIn => "fan_in",
        }
    }
}

/// A notable address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notable {
    pub kind: NotableKind,
    /// The address and its number of peers.
    pub node: NodePeers,
}

/// Nodes with the most peers, in both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FanLists {
    pub out: FanList,
    pub into: FanList,
    /// The notable addresses of both directions, those with the most peers first. Some may not be
    /// in a shortened list.
    pub notable: Vec<Notable>,
}

impl FanLists {
    /// Shortens both lists to `top` entries. An address stays notable if its row is removed, but
    /// there are no more notable addresses than the lists may have entries.
    pub fn shorten(&mut self, top: usize) {
        self.out.shorten(top);
        self.into.shorten(top);
        self.notable.truncate(2 * top);
    }
}

impl FanList {
    /// Keeps the first `top` entries. The upper bound for others then includes the removed ones.
    pub fn shorten(&mut self, top: usize) {
        let cut = self.nodes.drain(top.min(self.nodes.len())..);
        let most = cut.map(|node| node.peers.high).max().unwrap_or(0);
        self.others_at_most = self.others_at_most.map(|others| others.max(most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn fans(sizes: &[(u32, u64)], others_at_most: u64) -> FanList {
        let fan = |&(ip, peers): &(u32, u64)| NodePeers {
            ip: Ipv4Addr::from(ip).into(),
            peers: Peers::exactly(peers),
        };
        FanList {
            nodes: sizes.iter().map(fan).collect(),
            others_at_most: Some(others_at_most),
        }
    }

    #[test]
    fn an_address_without_a_row_stays_notable() {
        let out = fans(&[(1, 1000), (2, 900), (3, 800), (4, 700)], 5);
        // The first is a server.
        let notable = out.nodes[1..].iter().map(|node| Notable {
            kind: NotableKind::Scan,
            node: *node,
        });
        let mut lists = FanLists {
            notable: notable.collect(),
            out,
            into: fans(&[], 5),
        };
        lists.shorten(1);
        assert_eq!(lists.out.nodes.len(), 1);
        let peers: Vec<u64> = lists.notable.iter().map(|n| n.node.peers.peers).collect();
        assert_eq!(peers, [900, 800], "at most two for each entry");
    }
}
