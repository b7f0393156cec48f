//! What is known of an interface when it has ended.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crane_model::crane::Inside;
use crane_model::table::Total;

use super::answer::Asked;
use super::conversations::Conversation;
use super::past::{Compared, PastWindow};
use super::sampling::Sampling;
use crate::edge::Pair;
use crate::export::fans::FanLists;
use crate::export::hitters::Hitters;
use crate::names::{Group, Names};
use crate::service::Service;
use crate::tally::Tally;

/// The end of an interface or file. The sketch is that of all its packets, or of
/// the last window where no other is kept.
pub struct Summary {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Layers of the sketch.
    pub layers: usize,
    /// Layers added on the way.
    pub expansions: usize,
    /// Bytes of all sketches.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// Whether every pair and node was counted exactly.
    pub exact: bool,
    /// How many pairs there are, estimated unless exact; none if nothing tells.
    pub pairs: Option<u64>,
    /// What was left out of it.
    pub sampling: Sampling,
    /// No pair has more packets, or bytes, that is not in the list by these.
    pub most_unlisted: Total,
    /// Packets that were stored, scaled if sampled.
    pub stored_packets: u64,
    /// Their bytes.
    pub stored_bytes: u64,
    /// The heaviest pairs, as far as none is missing; so all lists.
    pub top: Hitters<Pair>,
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
    /// What the sketches look like inside, if that was wanted.
    pub inside: Vec<(&'static str, Inside)>,
    /// The heaviest conversations, if they were wanted.
    pub conversations: Vec<Conversation>,
    /// What was asked.
    pub asked: Vec<Asked>,
    /// Names of networks, if there are any.
    pub names: Option<Arc<Names>>,
    /// What was sent between them, exactly.
    pub groups: Option<Vec<Group>>,
    /// Windows that are over, if they were kept.
    pub windows: Vec<PastWindow>,
    /// All pairs beside their exact counts, if those were wanted.
    pub compared: Option<Vec<Compared>>,
}

impl Summary {
    /// The same with lists of `top` entries at most.
    pub fn shorten(&mut self, top: usize) {
        let Total { packets, bytes } = &mut self.most_unlisted;
        for flow in self.top.by_packets.iter().skip(top) {
            *packets = self.sampling.most_of(&flow.packets).max(*packets);
        }
        for flow in self.top.by_bytes.iter().skip(top) {
            *bytes = self.sampling.most_of(&flow.bytes).max(*bytes);
        }
        self.top.shorten(top);
        self.sources.shorten(top);
        self.destinations.shorten(top);
        self.services.shorten(top);
        self.fans.shorten(top);
        self.conversations.truncate(top);
    }
}
