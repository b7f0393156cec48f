//! Addresses with many peers, as all JSON has them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::estimate::PeerEstimate;
use crate::export::fans::{FanList, FanLists, NodePeers, NotableKind};
use crate::names::{Names, name_of};

/// An address and with how many others it talks.
#[derive(Debug, Serialize, Deserialize)]
pub struct FanNode {
    /// The address.
    pub ip: IpAddr,
    /// Name of its network, if any are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With how many.
    #[serde(flatten)]
    pub peers: PeerEstimate,
}

/// An address that is worth a look.
#[derive(Debug, Serialize, Deserialize)]
pub struct NotableNode {
    /// Why.
    pub kind: NotableKind,
    /// With how many others it talks.
    #[serde(flatten)]
    pub node: FanNode,
}

/// Who talks with most others.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FanRows {
    /// Who sends to most others.
    #[serde(default)]
    pub fan_out: Vec<FanNode>,
    /// No other address sends to more than this, in nineteen cases of twenty; none if
    /// that is not known.
    #[serde(default)]
    pub fan_out_others_at_most: Option<u64>,
    /// Who receives from most others.
    #[serde(default)]
    pub fan_in: Vec<FanNode>,
    /// No other address receives from more than this.
    #[serde(default)]
    pub fan_in_others_at_most: Option<u64>,
    /// Those of both that are worth a look.
    #[serde(default)]
    pub notable: Vec<NotableNode>,
}

impl FanNode {
    fn new(node: &NodePeers, names: Option<&Names>) -> Self {
        Self {
            ip: node.ip,
            name: name_of(names, node.ip),
            peers: node.peers.into(),
        }
    }
}

impl FanRows {
    /// The rows of these lists, with the names of networks if there are any.
    pub fn new(fans: &FanLists, names: Option<&Names>) -> Self {
        let rows = |list: &FanList| {
            let nodes = list.nodes.iter();
            nodes.map(|node| FanNode::new(node, names)).collect()
        };
        let notable = fans.notable.iter().map(|notable| NotableNode {
            kind: notable.kind,
            node: FanNode::new(&notable.node, names),
        });
        Self {
            fan_out: rows(&fans.out),
            fan_out_others_at_most: fans.out.others_at_most,
            fan_in: rows(&fans.into),
            fan_in_others_at_most: fans.into.others_at_most,
            notable: notable.collect(),
        }
    }
}
