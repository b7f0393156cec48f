//! Answers of a window to questions, in the form that all JSON has.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Window;
use super::estimate::{Estimate, PeerEstimate};
use super::list::Row;
use super::services::NodeServices;
use crate::sketches::fans::Direction;
use crate::traffic::endpoint::{Between, KnownNetworks};
use crate::traffic::question::{By, Question};
use crate::traffic::service::Service;
use crate::traffic::service::filter::ServiceFilter;

/// What one end sent to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FlowEstimate {
    pub estimate: Estimate,
    /// Traffic in the other direction, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<Estimate>,
    /// The known services of this traffic, in the order asked for, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<Row<Service>>>,
}

/// What an address sent and received.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeEstimate {
    pub sent: Estimate,
    pub received: Estimate,
    /// Number of peers it sent to. If packets are sampled, only peers of sampled packets.
    pub fan_out: PeerEstimate,
    /// Number of peers it received from.
    pub fan_in: PeerEstimate,
    /// The services, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<NodeServices>,
}

/// The answer to a [`Question`].
#[derive(Debug, Clone)]
pub enum Answer {
    Flow(FlowEstimate),
    Node(NodeEstimate),
}

impl Window {
    /// The answer to a question, with services in this order unless the question selects some.
    pub fn answer(&self, question: &Question, by: By) -> crane_model::Result<Answer> {
        match question {
            Question::Flow {
                ends,
                both,
                service,
            } => {
                let mut flow = self.flow(ends, *both, service.as_ref())?;
                if service.is_none() {
                    flow.services = Some(self.services(ends, by)?);
                }
                Ok(Answer::Flow(flow))
            }
            Question::Node(ip) => {
                let mut node = self.node(*ip)?;
                node.services = Some(self.node_services(*ip, by)?);
                Ok(Answer::Node(node))
            }
        }
    }

    /// Traffic from one end to another, and in the other direction if `both`; only of some services
    /// if there is a filter.
    pub fn flow(
        &self,
        ends: &Between,
        both: bool,
        service: Option<&ServiceFilter>,
    ) -> crane_model::Result<FlowEstimate> {
        self.with_networks(|known| {
            let between = |ends: &Between| {
                let flow = match service {
                    Some(filter) => self.sketches.between_for(ends, filter, known)?,
                    None => self.sketches.between(ends, known)?,
                };
                crane_model::Result::Ok(Estimate::from(&flow))
            };
            Ok(FlowEstimate {
                estimate: between(ends)?,
                back: both.then(|| between(&ends.reversed())).transpose()?,
                services: None,
            })
        })
    }

    /// Calls `ask` with the names of networks and the AS of addresses.
    pub(super) fn with_networks<T>(&self, ask: impl FnOnce(&KnownNetworks<'_>) -> T) -> T {
        let sources = self.lookup.sources();
        ask(&KnownNetworks {
            names: self.names.as_deref(),
            asns: sources.databases().asns.as_ref(),
        })
    }

    pub fn node(&self, ip: IpAddr) -> crane_model::Result<NodeEstimate> {
        let sketches = &self.sketches;
        Ok(NodeEstimate {
            sent: (&sketches.address(ip, Direction::Out)?).into(),
            received: (&sketches.address(ip, Direction::Into)?).into(),
            fan_out: sketches.peers(ip, Direction::Out).into(),
            fan_in: sketches.peers(ip, Direction::Into).into(),
            services: None,
        })
    }
}
