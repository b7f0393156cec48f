//! What can be asked of an interface, and what it answers.

use std::net::IpAddr;
use std::str::FromStr;

use clap::ValueEnum;
use crane_model::Flow;
use crane_model::fan::Peers;
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

/// An order of heavy hitters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum By {
    /// Most packets first.
    #[default]
    Packets,
    /// Most bytes first.
    Bytes,
}

/// What is asked about.
#[derive(Debug, Clone, Copy)]
pub enum About {
    /// A pair.
    Flow(Pair),
    /// What a node sends and receives.
    Node(IpAddr),
}

impl FromStr for About {
    type Err = String;

    /// Two addresses with a comma between them, or one.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let address = |text: &str| {
            text.trim().parse::<IpAddr>().map_err(|_| {
                format!(
                    "`{text}` is no address: write a pair like 10.0.0.1,10.0.0.2 \
                     or one address like 2001:db8::1"
                )
            })
        };
        let Some((src, dst)) = text.split_once(',') else {
            return address(text).map(Self::Node);
        };
        let pair = Pair::between(address(src)?, address(dst)?);
        let mixed = "no packet goes from an IPv4 to an IPv6 address or back";
        pair.map(Self::Flow).ok_or_else(|| mixed.into())
    }
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
    /// To how many others the node sends, and from how many it receives.
    pub peers: Option<[Peers; 2]>,
}

/// What a report is asked, and what a window knows of it.
#[derive(Debug)]
pub struct Asked {
    /// The question.
    pub about: About,
    /// What is known of the pair, or of the node as source and as destination.
    pub flows: Vec<Flow<()>>,
    /// To how many others the node sends, and from how many it receives.
    pub peers: Option<[Peers; 2]>,
}
