//! Questions about single pairs and nodes. Only the worker can answer them:
//! the sketches are its own.

use std::net::IpAddr;

use crane_model::Flow;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::edge::Pair;
use crate::lane::{Lane, Window};

/// Which window is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Which {
    /// The one that is being filled.
    Current,
    /// The last complete one.
    Last,
}

impl Which {
    /// The window that is meant where there is a last one or not; none if it
    /// was asked for and is not there.
    pub fn meant(asked: Option<Self>, has_last: bool) -> Option<Self> {
        match asked {
            Some(Self::Last) | None if has_last => Some(Self::Last),
            Some(Self::Last) => None,
            Some(Self::Current) | None => Some(Self::Current),
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

/// A question on its way to the worker.
pub struct Question {
    /// Of this interface; none for all.
    pub interface: Option<String>,
    /// In this window; none for the last complete one, or the current one
    /// until there is one.
    pub window: Option<Which>,
    /// About what.
    pub about: About,
    /// Where the answers go.
    pub reply: oneshot::Sender<crane_model::Result<Vec<Answer>>>,
}

/// What one interface knows.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The interface.
    pub interface: String,
    /// The window.
    pub window: Which,
    /// The estimates: of the pair, or of the node as source and destination.
    pub estimates: Vec<Estimate>,
}

/// An estimate and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// Packets.
    pub packets: u64,
    /// Bytes; none where not all of them were counted.
    pub bytes: Option<u64>,
    /// Bytes that were counted: no fewer than this.
    pub bytes_at_least: u64,
    /// No fewer packets than this.
    pub low: u64,
    /// No more packets than this.
    pub high: u64,
}

impl<K> From<Flow<K>> for Estimate {
    fn from(flow: Flow<K>) -> Self {
        Self {
            packets: flow.packets,
            bytes: flow.bytes,
            bytes_at_least: flow.bytes_at_least,
            low: flow.low,
            high: flow.high,
        }
    }
}

impl Question {
    /// Asks all lanes that are meant and sends their answers.
    pub fn answer(self, lanes: &[Lane]) {
        let meant = |lane: &&Lane| {
            self.interface
                .as_ref()
                .is_none_or(|name| *name == lane.name)
        };
        let answers = lanes.iter().filter(meant).filter_map(|lane| {
            let which = Which::meant(self.window, lane.last.is_some())?;
            let window = lane.last.as_ref().filter(|_| which == Which::Last);
            let window = window.unwrap_or(&lane.current);
            Some(estimate(window, self.about).map(|estimates| Answer {
                interface: lane.name.clone(),
                window: which,
                estimates,
            }))
        });
        // Who asked may have gone.
        let _ = self.reply.send(answers.collect());
    }
}

fn estimate(window: &Window, about: About) -> crane_model::Result<Vec<Estimate>> {
    Ok(match about {
        About::Flow(pair) => vec![window.sketches.pair(pair)?.into()],
        About::Node(node) => window.sketches.node(node)?.map(Into::into).to_vec(),
    })
}
