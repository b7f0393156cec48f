//! The keys with the highest rates, and their rows. They need not be among the heaviest of the
//! window.

use std::net::IpAddr;

use crane_model::Flow;

use super::{Period, Recent};
use crate::sketches::fans::Direction;
use crate::traffic::anonymise::Anonymiser;
use crate::traffic::edge::Pair;
use crate::traffic::service::Service;
use crate::window::Window;
use crate::window::conversations::{BothWays, ConversationKey};
use crate::window::estimate::Estimate;
use crate::window::keys::{AddressKey, PairKey};
use crate::window::list::Row;

/// The keys of each list with the most bytes in a [`Period`].
#[derive(Debug, Clone, Default)]
pub struct Fastest {
    pairs: Vec<Pair>,
    /// One direction of each conversation.
    conversations: Vec<Pair>,
    sources: Vec<IpAddr>,
    destinations: Vec<IpAddr>,
    services: Vec<Service>,
}

/// The rows of these keys in a window.
#[derive(Debug, Default)]
pub struct FastestRows {
    pub pairs: Vec<Row<PairKey>>,
    pub conversations: Vec<Row<ConversationKey, BothWays>>,
    pub sources: Vec<Row<AddressKey>>,
    pub destinations: Vec<Row<AddressKey>>,
    pub services: Vec<Row<Service>>,
}

impl Fastest {
    /// Adds the keys of another interface.
    pub fn extend(&mut self, others: Option<Self>) {
        let others = others.unwrap_or_default();
        add(&mut self.pairs, others.pairs);
        add(&mut self.conversations, others.conversations);
        add(&mut self.sources, others.sources);
        add(&mut self.destinations, others.destinations);
        add(&mut self.services, others.services);
    }
}

/// Adds keys that are not in the list yet.
fn add<K: PartialEq>(keys: &mut Vec<K>, others: Vec<K>) {
    for key in others {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
}

impl Recent {
    /// The `top` keys of each list with the highest rates.
    pub fn fastest(&self, top: usize, period: Period) -> Fastest {
        Fastest {
            pairs: self.pairs.fastest(top, period),
            conversations: self.fastest_conversations(top, period),
            sources: self.sources.fastest(top, period),
            destinations: self.destinations.fastest(top, period),
            services: self.services.fastest(top, period),
        }
    }
}

impl Window {
    /// The rows of these keys in this window. None if several addresses are shown as one, because
    /// such rows have no rates.
    pub fn rows_of(&self, fastest: &Fastest, anonymiser: Option<&Anonymiser>) -> FastestRows {
        let (sketches, shown) = (&self.sketches, self.shown(anonymiser));
        if shown.joins() {
            return FastestRows::default();
        }
        // Keys for which a sketch cannot answer have no rows.
        let addresses = |wanted: &[IpAddr], direction| {
            let flows = sketches.addresses(wanted, direction).into_iter();
            let row = |flow: Flow<IpAddr>| Row::new(shown.address(flow.key), (&flow).into());
            flows.map(row).collect()
        };
        let pair = |pair: &Pair| {
            let flow = sketches.pair(*pair).ok()?;
            let key = shown.pair(*pair, sketches.main_service(&[*pair]));
            Some(Row::new(key, Estimate::from(&flow)))
        };
        let conversation = |pair: &Pair| {
            let [there, back] = self.both_ways(*pair).ok()?;
            let is_one = there.key == back.key;
            let both = if is_one { there } else { there.plus(back) };
            let total = [both.packets.estimate, both.bytes.estimate];
            self.conversation(*pair, total, &shown)
        };
        let service = |service: &Service| {
            let flow = sketches.service(*service).ok()?;
            Some(Row::new(*service, Estimate::from(&flow)))
        };
        let conversations = fastest.conversations.iter();
        FastestRows {
            pairs: fastest.pairs.iter().filter_map(pair).collect(),
            conversations: conversations.filter_map(conversation).collect(),
            sources: addresses(&fastest.sources, Direction::Out),
            destinations: addresses(&fastest.destinations, Direction::Into),
            services: fastest.services.iter().filter_map(service).collect(),
        }
    }
}
