//! Rows of the lists in a report.

use std::net::IpAddr;

use crane_model::Flow;
use serde::Serialize;

use crate::edge::Pair;
use crate::sketch::answer::{About, Asked};
use crate::sketch::conversations::Conversation;
use crate::sketch::estimate::Estimate;

/// Who sent to whom.
#[derive(Debug, Serialize)]
pub struct PairRow {
    pub src: IpAddr,
    pub dst: IpAddr,
    #[serde(flatten)]
    pub counts: Estimate,
}

impl From<&Flow<Pair>> for PairRow {
    fn from(flow: &Flow<Pair>) -> Self {
        Self {
            src: flow.key.src(),
            dst: flow.key.dst(),
            counts: flow.into(),
        }
    }
}

/// Who sent, or who received.
#[derive(Debug, Serialize)]
pub struct NodeRow {
    pub ip: IpAddr,
    #[serde(flatten)]
    pub counts: Estimate,
}

impl From<&Flow<IpAddr>> for NodeRow {
    fn from(flow: &Flow<IpAddr>) -> Self {
        Self {
            ip: flow.key,
            counts: flow.into(),
        }
    }
}

/// A row for each of these.
pub fn rows<'a, K: 'a, R: From<&'a Flow<K>>>(flows: &'a [Flow<K>]) -> Vec<R> {
    flows.iter().map(R::from).collect()
}

/// The answer to a question.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AskedRow {
    /// About a pair.
    Pair(PairRow),
    /// About a node.
    Node {
        ip: IpAddr,
        sent: Estimate,
        received: Estimate,
    },
}

impl AskedRow {
    /// The rows of all questions.
    pub fn rows(asked: &[Asked]) -> Vec<Self> {
        asked.iter().filter_map(Self::new).collect()
    }

    fn new(asked: &Asked) -> Option<Self> {
        match (asked.about, &asked.flows[..]) {
            (About::Flow(pair), [flow]) => Some(Self::Pair(PairRow {
                src: pair.src(),
                dst: pair.dst(),
                counts: flow.into(),
            })),
            (About::Node(ip), [sent, received]) => Some(Self::Node {
                ip,
                sent: sent.into(),
                received: received.into(),
            }),
            _ => None,
        }
    }
}

/// What two addresses sent each other.
#[derive(Debug, Serialize)]
pub struct ConversationRow {
    pub a: IpAddr,
    pub b: IpAddr,
    /// Of both directions.
    pub packets: u64,
    pub bytes: u64,
    pub a_to_b: Estimate,
    /// None where an address talks to itself.
    pub b_to_a: Option<Estimate>,
}

impl From<&Conversation> for ConversationRow {
    fn from(conversation: &Conversation) -> Self {
        let Conversation { there, back } = conversation;
        let flows = || conversation.flows();
        Self {
            a: there.key.src(),
            b: there.key.dst(),
            packets: flows().map(|flow| flow.packets.estimate).sum(),
            bytes: flows().map(|flow| flow.bytes.estimate).sum(),
            a_to_b: there.into(),
            b_to_a: back.as_ref().map(Estimate::from),
        }
    }
}
