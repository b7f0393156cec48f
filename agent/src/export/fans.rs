//! Who talks with most others in a window, and who of these is worth a look.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::Peers;
use serde::{Deserialize, Serialize};

use super::hitters::KEEP_PERCENT;

/// A node and with how many others it talks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePeers {
    /// Its address.
    pub ip: IpAddr,
    /// The others, in one direction.
    pub peers: Peers,
}

/// Those with most peers in one direction, as far as they stand out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FanList {
    /// The largest first.
    pub nodes: Vec<NodePeers>,
    /// No other address has more peers than this, in nineteen cases of twenty; none
    /// if that is not known, as of a sample.
    pub others_at_most: Option<u64>,
}

/// Why an address is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotableKind {
    /// It sends a packet or two to each of very many.
    Scan,
    /// It receives a packet or two from each of very many.
    Flood,
    /// It sends to very many that do not answer.
    FanOut,
    /// It receives from very many whom it does not answer.
    FanIn,
}

impl NotableKind {
    /// As JSON and metrics call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Flood => "flood",
            Self::FanOut => "fan_out",
            Self::FanIn => "fan_in",
        }
    }
}

/// An address that is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notable {
    /// Why.
    pub kind: NotableKind,
    /// The address and with how many others it talks.
    pub node: NodePeers,
}

/// Those with most peers, in both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FanLists {
    /// Who sends to most others.
    pub out: FanList,
    /// Who receives from most others.
    pub into: FanList,
    /// Those of both that are worth a look, the largest first.
    pub notable: Vec<Notable>,
}

impl FanLists {
    /// The `top` largest of `now`, where those who are in these lists have an
    /// advantage.
    pub fn follow(&self, now: &Self, top: usize) -> Self {
        let (out, into) = (
            self.out.follow(&now.out, top),
            self.into.follow(&now.into, top),
        );
        Self::new(out, into, &now.notable)
    }

    /// The same with lists of `top` entries at most.
    pub fn shorten(&mut self, top: usize) {
        self.out.shorten(top);
        self.into.shorten(top);
        let notable = std::mem::take(&mut self.notable);
        *self = Self::new(
            std::mem::take(&mut self.out),
            std::mem::take(&mut self.into),
            &notable,
        );
    }

    /// Both lists, and of the notable those that they have.
    fn new(out: FanList, into: FanList, notable: &[Notable]) -> Self {
        let is_listed = |notable: &&Notable| {
            let mut listed = out.nodes.iter().chain(&into.nodes);
            listed.any(|node| *node == notable.node)
        };
        let notable = notable.iter().filter(is_listed).copied().collect();
        Self { out, into, notable }
    }
}

impl FanList {
    fn follow(&self, now: &Self, top: usize) -> Self {
        let rank = |fan: &NodePeers| {
            let stays = self.nodes.iter().any(|other| other.ip == fan.ip);
            let percent = 100 + if stays { KEEP_PERCENT } else { 0 };
            (Reverse(u128::from(fan.peers.peers) * percent), fan.ip)
        };
        let mut chosen = now.clone();
        chosen.nodes.sort_by_cached_key(rank);
        chosen.shorten(top);
        chosen
            .nodes
            .sort_unstable_by_key(|fan| (Reverse(fan.peers.peers), fan.ip));
        chosen
    }

    /// Those that are cut are others from then on.
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
    fn who_is_in_stays_until_clearly_beaten() {
        let first = fans(&[(1, 1000), (2, 900), (3, 890)], 5);
        let first = FanList::default().follow(&first, 2);
        assert_eq!(first, fans(&[(1, 1000), (2, 900)], 890));
        let close = first.follow(&fans(&[(1, 1000), (3, 950), (2, 900)], 5), 2);
        assert_eq!(close, fans(&[(1, 1000), (2, 900)], 950));
        let clear = close.follow(&fans(&[(3, 2000), (1, 1000), (2, 900)], 5), 2);
        assert_eq!(clear, fans(&[(3, 2000), (1, 1000)], 900));
    }

    #[test]
    fn only_who_is_listed_is_notable() {
        let out = fans(&[(1, 1000), (2, 900)], 5);
        let notable = out.nodes.iter().map(|node| Notable {
            kind: NotableKind::Scan,
            node: *node,
        });
        let mut lists = FanLists {
            notable: notable.collect(),
            out,
            into: fans(&[], 5),
        };
        lists.shorten(1);
        assert_eq!((lists.out.nodes.len(), lists.notable.len()), (1, 1));
    }
}
