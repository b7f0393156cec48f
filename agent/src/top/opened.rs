//! What was opened from a list, and what the agent knows of it at one moment.

use std::net::IpAddr;

use super::node::{self, Node};
use super::service::{self, PairsOfService};
use crate::http::client::Agent;
use crate::text::table::Table;
use crate::text::units::Units;
use crate::traffic::question::By;
use crate::traffic::service::filter::ServiceFilter;
use crate::window::state::WindowState;

/// What was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// An address, with its peers.
    Node(IpAddr),
    /// A service, with its pairs.
    Service(ServiceFilter),
}

/// What the agent knows of it.
#[derive(Debug)]
pub enum Details {
    Node(Box<Node>),
    Service(Box<PairsOfService>),
}

impl Opened {
    /// Asks about it on one interface, or on the one that has most of it.
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

    /// What the rows are, as a title.
    pub fn title(&self, details: Option<&Details>) -> String {
        match (self, details) {
            (_, Some(Details::Node(node))) => format!("peers of {}", node.shown()),
            (Self::Node(ip), _) => format!("peers of {ip}"),
            (Self::Service(filter), _) => format!("pairs of {filter}"),
        }
    }

    /// Why there are no rows although it is known.
    pub fn why_empty(&self) -> &'static str {
        match self {
            Self::Node(_) => "none of its pairs is heavy enough to be known by name",
            Self::Service(_) => "no pair that is known by name has it",
        }
    }
}

impl Details {
    /// What has to be opened for these.
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

    /// All of it, without rows.
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
