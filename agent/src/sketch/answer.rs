//! What can be asked of an interface, and what it answers.

use std::net::IpAddr;
use std::str::FromStr;

use clap::ValueEnum;
use crane_model::Flow;
use crane_model::crane::Inside;
use crane_model::fan::Peers;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Between, Endpoint};
use crate::export::snapshot::WindowView;

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
#[derive(Debug, Clone)]
pub enum About {
    /// What one sends to another.
    Flow {
        /// Who to whom.
        ends: Between,
        /// And back.
        both: bool,
    },
    /// What a node sends and receives.
    Node(IpAddr),
    /// So many of the heaviest, whatever the length of published lists.
    Lists {
        /// How many.
        top: usize,
        /// Only pairs that this node is an end of.
        with: Option<IpAddr>,
    },
    /// What the sketches look like inside.
    Inside,
}

impl FromStr for About {
    type Err = String;

    /// Two ends with a comma between them, or one address.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((src, dst)) = text.split_once(',') else {
            return text.trim().parse().map(Self::Node).map_err(|_| {
                format!(
                    "`{text}` is no address: write one like 2001:db8::1, a pair like \
                     10.0.0.1,10.0.0.2, or networks like '10.0.0.0/8,*'"
                )
            });
        };
        let ends = Between::new(src.parse::<Endpoint>()?, dst.parse()?);
        let ends = ends.ok_or("no packet goes from an IPv4 to an IPv6 address or back")?;
        Ok(Self::Flow { ends, both: false })
    }
}

/// What one interface knows.
pub struct Answer {
    /// The interface.
    pub interface: String,
    /// The window.
    pub window: WindowName,
    /// Its picture without any lists.
    pub view: Box<WindowView>,
    /// What was sent, and sent back if that was asked; or what is known of the
    /// node as source and as destination.
    pub flows: Vec<Flow<()>>,
    /// To how many others the node sends, and from how many it receives.
    pub peers: Option<[Peers; 2]>,
    /// The heaviest, if they were asked for.
    pub lists: Option<Box<WindowView>>,
    /// Sketches with what they are of, if they were asked for.
    pub inside: Vec<(&'static str, Inside)>,
}

/// What a report is asked, and what a window knows of it.
#[derive(Debug)]
pub struct Asked {
    /// The question.
    pub about: About,
    /// The same as in an [`Answer`].
    pub flows: Vec<Flow<()>>,
    /// To how many others the node sends, and from how many it receives.
    pub peers: Option<[Peers; 2]>,
}
