//! What can be opened from a list, and the answer of the agent about it.

use std::net::IpAddr;

use super::node::{self, Node};
use super::service::{self, PairsOfService};
use crate::http::client::Agent;
use crate::text::table::Table;
use crate::text::units::Units;
use crate::traffic::question::By;
use crate::traffic::service::filter::ServiceFilter;
use crate::window::state::WindowState;

/// What can be opened from a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// An address, with its peers.
    Node(IpAddr),
    /// A service, with its pairs.
    Service(ServiceFilter),
}

/// The answer of the agent about it.
#[derive(Debug)]
pub enum Details {
    Node(Box<Node>),
    Service(Box<PairsOfService>),
}

impl Opened {
    /// Asks the agent about it on one interface, or on the one with the most bytes of it.
    pub fn ask(
        &self,
        agent: &Agent,
        by: By,
        common: &[(&'static str, String)],
    ) -> anyhow::Result<Details> {
        Ok(match self {
            Self::Node(ip) => Details::Node(Box::new(node::ask(agent, *ip, by, common)?)),
            Self::Service(filter) => {
                let pairs = service::ask(agent, filter, by, common)?;
                Details::Service(Box::new(pairs))
            }
        })
    }

    /// Title of the rows.
    pub fn title(&self, details: Option<&Details>) -> String {
        match (self, details) {
            (_, Some(Details::Node(node))) => format!("peers of {}", node.shown()),
            (Self::Node(ip), _) => format!("peers of {ip}"),
            (Self::Service(filter), _) => format!("pairs of {filter}"),
        }
    }

    /// Why an answer has no rows.
    pub fn why_empty(&self) -> &'static str {
        match self {
            Self::Node(_) => "none of its pairs is heavy enough to be known by name",
            Self::Service(_) => "no pair that is known by name has it",
        }
    }
}

impl Details {
    /// What has to be opened to get these details.
    pub fn opened(&self) -> Opened {
        match self {
            Self::Node(node) => Opened::Node(node.ip),
            Self::Service(pairs) => Opened::Service(pairs.filter.clone()),
        }
    }

    pub fn interface(&self) -> &str {
        match self {
            Self::Node(node) => &node.interface,
            Self::Service(pairs) => &pairs.interface,
        }
    }

    /// The window at the moment of the answer.
    pub fn state(&self) -> &WindowState {
        match self {
            Self::Node(node) => &node.state,
            Self::Service(pairs) => &pairs.state,
        }
    }

    /// The answer in words, without the rows.
    pub fn in_words(&self, units: Units) -> Vec<String> {
        match self {
            Self::Node(node) => node::in_words(node, units),
            Self::Service(pairs) => service::in_words(pairs, units),
        }
    }

    pub fn table(&self, units: Units) -> Table {
        match self {
            Self::Node(node) => node::table(node, units),
            Self::Service(pairs) => service::table(pairs, units),
        }
    }
}
