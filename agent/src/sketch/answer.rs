//! What can be asked of an interface, and what it answers.

use std::net::IpAddr;

use clap::ValueEnum;
use crane_model::Flow;
use serde::{Deserialize, Serialize};

use crate::edge::Pair;

/// Which window is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum WindowName {
    /// The one that is being filled.
    Current,
    /// The last complete one.
    Last,
}

impl WindowName {
    /// The window that is meant where there is a last one or not; none if it
    /// was asked for and is not there.
    pub fn meant(asked: Option<Self>, has_last: bool) -> Option<Self> {
        match asked {
            Some(Self::Last) | None if has_last => Some(Self::Last),
            Some(Self::Last) => None,
            Some(Self::Current) | None => Some(Self::Current),
        }
    }

    /// As it is asked for and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Last => "last",
        }
    }
}

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub enum About {
    /// A pair.
    Flow(Pair),
    /// What a node sends and receives.
    Node(IpAddr),
}

/// What one interface knows.
#[derive(Debug)]
pub struct Answer {
    /// The interface.
    pub interface: String,
    /// The window.
    pub window: WindowName,
    /// What is known of the pair, or of the node as source and as destination.
    pub flows: Vec<Flow<()>>,
}
