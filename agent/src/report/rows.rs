//! Rows of the lists in a report.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crane_model::Flow;
use serde::Serialize;

use crate::edge::Pair;
use crate::endpoint::{Between, Endpoint};
use crate::names::{Names, PairNames, name_of};
use crate::service::Service;
use crate::sketch::answer::{About, Asked};
use crate::sketch::conversations::Conversation;
use crate::sketch::estimate::{Estimate, PeerEstimate};

/// Who sent to whom.
#[derive(Debug, Serialize)]
pub struct PairRow {
    pub src: IpAddr,
    pub dst: IpAddr,
    #[serde(flatten)]
    pub names: PairNames,
    /// For what most of its packets are, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    #[serde(flatten)]
    pub counts: Estimate,
}

impl PairRow {
    /// Both addresses for people.
    pub fn ends(&self) -> [String; 2] {
        self.names.show(self.src, self.dst)
    }
}

impl Row<Pair> for PairRow {
    fn new(flow: &Flow<Pair>, names: Option<&Names>) -> Self {
        let (src, dst) = (flow.key.src(), flow.key.dst());
        Self {
            src,
            dst,
            names: PairNames::of(names, src, dst),
            service: None,
            counts: flow.into(),
        }
    }
}

impl PairRow {
    /// Rows with the main services of their pairs.
    pub fn with_services(
        flows: &[Flow<Pair>],
        services: &BTreeMap<Pair, Service>,
        names: Option<&Names>,
    ) -> Vec<Self> {
        let row = |flow: &Flow<Pair>| Self {
            service: services.get(&flow.key).copied(),
            ..Self::new(flow, names)
        };
        flows.iter().map(row).collect()
    }
}

/// What a service had.
#[derive(Debug, Serialize)]
pub struct ServiceRow {
    #[serde(flatten)]
    pub service: Service,
    #[serde(flatten)]
    pub counts: Estimate,
}

impl Row<Service> for ServiceRow {
    fn new(flow: &Flow<Service>, _: Option<&Names>) -> Self {
        Self {
            service: flow.key,
            counts: flow.into(),
        }
    }
}

/// Who sent, or who received.
#[derive(Debug, Serialize)]
pub struct NodeRow {
    pub ip: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(flatten)]
    pub counts: Estimate,
}

impl Row<IpAddr> for NodeRow {
    fn new(flow: &Flow<IpAddr>, names: Option<&Names>) -> Self {
        Self {
            ip: flow.key,
            name: name_of(names, flow.key),
            counts: flow.into(),
        }
    }
}

/// What is known of a pair, a node or a service, with the names of networks if there are any.
pub trait Row<K> {
    /// The row of a flow.
    fn new(flow: &Flow<K>, names: Option<&Names>) -> Self;
}

/// A row for each of these.
pub fn rows<K, R: Row<K>>(flows: &[Flow<K>], names: Option<&Names>) -> Vec<R> {
    flows.iter().map(|flow| R::new(flow, names)).collect()
}

/// The answer to a question.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum AskedRow {
    /// About who sends to whom.
    Flow {
        src: Endpoint,
        dst: Endpoint,
        #[serde(flatten)]
        names: PairNames,
        #[serde(flatten)]
        counts: Estimate,
        /// The other direction, if it was asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        back: Option<Estimate>,
        /// The question.
        #[serde(skip)]
        ends: Between,
    },
    /// About a node.
    Node {
        ip: IpAddr,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        sent: Estimate,
        received: Estimate,
        fan_out: PeerEstimate,
        fan_in: PeerEstimate,
    },
}

impl AskedRow {
    /// The rows of all questions.
    pub fn rows(asked: &[Asked], names: Option<&Names>) -> Vec<Self> {
        let row = |asked| Self::new(asked, names);
        asked.iter().filter_map(row).collect()
    }

    fn new(asked: &Asked, names: Option<&Names>) -> Option<Self> {
        match (&asked.about, &asked.flows[..], asked.peers) {
            (About::Flow { ends, .. }, [flow, back @ ..], _) => Some(Self::Flow {
                src: ends.src.clone(),
                dst: ends.dst.clone(),
                names: ends.names(names),
                counts: flow.into(),
                back: back.first().map(Estimate::from),
                ends: ends.clone(),
            }),
            (About::Node(ip), [sent, received], Some([fan_out, fan_in])) => Some(Self::Node {
                ip: *ip,
                name: name_of(names, *ip),
                sent: sent.into(),
                received: received.into(),
                fan_out: fan_out.into(),
                fan_in: fan_in.into(),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_name: Option<String>,
    /// Of both directions.
    pub packets: u64,
    pub bytes: u64,
    pub a_to_b: Estimate,
    /// None where an address talks to itself.
    pub b_to_a: Option<Estimate>,
}

impl ConversationRow {
    /// The row of a conversation, with the names of networks if there are any.
    pub fn new(conversation: &Conversation, names: Option<&Names>) -> Self {
        let Conversation { there, back } = conversation;
        let flows = || conversation.flows();
        let (a, b) = (there.key.src(), there.key.dst());
        Self {
            a,
            b,
            a_name: name_of(names, a),
            b_name: name_of(names, b),
            packets: flows().map(|flow| flow.packets.estimate).sum(),
            bytes: flows().map(|flow| flow.bytes.estimate).sum(),
            a_to_b: there.into(),
            b_to_a: back.as_ref().map(Estimate::from),
        }
    }
}
