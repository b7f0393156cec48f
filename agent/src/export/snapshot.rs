//! What readers see: an immutable picture of all interfaces, swapped whole.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use crane_model::Flow;

use super::fans::FanLists;
use super::hitters::Hitters;
use crate::edge::Pair;
use crate::names::{Group, Names};
use crate::service::Service;
use crate::tally::Tally;

/// All interfaces at one moment.
pub struct Snapshot {
    /// In the order they were opened.
    pub interfaces: Vec<Arc<InterfaceView>>,
    /// Names of networks, if there are any.
    pub names: Option<Arc<Names>>,
    /// When it was published.
    pub published: Instant,
}

/// One interface at one moment.
pub struct InterfaceView {
    /// Name of the interface or file.
    pub name: String,
    /// Its books; these are always current.
    pub tally: Arc<Tally>,
    /// Whether it was a file, which has been read.
    pub ended: bool,
    /// Mean load of each layer, bottom first.
    pub loads: Vec<f32>,
    /// Layers added since the start.
    pub expansions: usize,
    /// Bytes of its sketches.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// What was sent between networks since the start, if they have names.
    pub groups: Option<Vec<Group>>,
    /// The window that is being filled.
    pub current: WindowView,
    /// The last one that is complete.
    pub last: Option<Arc<WindowView>>,
    /// What is exported.
    pub exported: Exported,
}

/// Until when a window has lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Its end: it is over.
    End,
    /// Now: it is live, and began then.
    Now(Instant),
    /// Its latest packet: it is a file's.
    Latest,
}

/// A window at one moment.
pub struct WindowView {
    /// When it began, in nanoseconds since 1970; none if nothing came yet.
    pub start: Option<u64>,
    /// When it ends or ended; none if it never does.
    pub end: Option<u64>,
    /// Until when it has lasted.
    pub until: Until,
    /// Time of its latest packet, if it is a file's.
    pub latest: u64,
    /// For how long no agent ran while it lasted, in nanoseconds.
    pub unseen: u64,
    /// Packets, scaled if sampled.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many pairs there are, estimated unless exact; none if nothing tells.
    pub distinct: Option<u64>,
    /// Whether every pair and node is counted exactly.
    pub exact: bool,
    /// The heaviest pairs.
    pub pairs: Hitters<Pair>,
    /// The heaviest senders.
    pub sources: Hitters<IpAddr>,
    /// The heaviest receivers.
    pub destinations: Hitters<IpAddr>,
    /// The heaviest services.
    pub services: Hitters<Service>,
    /// The main service of each heavy pair, as far as it is known.
    pub main_services: BTreeMap<Pair, Service>,
    /// Who talks with most others.
    pub fans: FanLists,
}

/// Lists that change no more often than they have to.
#[derive(Default, Clone)]
pub struct Exported {
    /// The heaviest pairs.
    pub pairs: Hitters<Pair>,
    /// The heaviest senders.
    pub sources: Hitters<IpAddr>,
    /// The heaviest receivers.
    pub destinations: Hitters<IpAddr>,
    /// The heaviest services.
    pub services: Hitters<Service>,
    /// Who talks with most others.
    pub fans: FanLists,
    /// Estimates for the watch list.
    pub watched: Vec<Flow<Pair>>,
}

impl InterfaceView {
    /// The window that answers are about unless asked otherwise.
    pub fn answering(&self) -> &WindowView {
        self.last.as_deref().unwrap_or(&self.current)
    }
}

impl WindowView {
    /// Whether it is over.
    pub fn is_complete(&self) -> bool {
        self.until == Until::End
    }

    /// How long it was, or is so far, in seconds.
    pub fn seconds(&self) -> f64 {
        let end = self.end.unwrap_or(u64::MAX);
        let until = match self.until {
            Until::End => end,
            Until::Now(began) => return began.elapsed().as_secs_f64(),
            // A stray is later than its window.
            Until::Latest => self.latest.min(end),
        };
        self.start
            .map_or(0.0, |start| until.saturating_sub(start) as f64 / 1e9)
    }
}
