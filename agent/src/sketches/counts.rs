//! Counts of all keys that are known by name in a window, at one moment. Rates of the last
//! seconds are differences of two such counts.

use std::net::IpAddr;

use crane_model::Crane;
use crane_model::crane::Counted;
use crane_model::name::AnyName;

use super::Sketches;
use crate::traffic::edge::{Pair, node_of_name};
use crate::traffic::service::Service;

/// Counts of all keys that are known by name.
#[derive(Debug, Clone, Default)]
pub struct NamedCounts {
    pub pairs: Named<Pair>,
    pub sources: Named<IpAddr>,
    pub destinations: Named<IpAddr>,
    pub services: Named<Service>,
}

/// Counts of all keys of one kind that are known by name, in the order of keys after
/// [`Self::sort`].
#[derive(Debug, Clone)]
pub struct Named<K> {
    pub counts: Vec<(K, Counted)>,
    /// Upper bound of the packets of any other key; 0 if there is no other.
    pub others_at_most: u64,
}

impl<K> Default for Named<K> {
    fn default() -> Self {
        Self {
            counts: Vec::new(),
            others_at_most: 0,
        }
    }
}

impl<K: Ord> Named<K> {
    fn of(crane: &Crane, key: fn(AnyName) -> K) -> Self {
        let counted = crane.counted();
        Self {
            counts: counted.map(|(name, count)| (key(name), count)).collect(),
            others_at_most: crane.most_unnamed().packets,
        }
    }

    /// Sorts by key, which [`Self::get`] needs.
    pub fn sort(&mut self) {
        self.counts
            .sort_unstable_by(|one, other| one.0.cmp(&other.0));
    }

    pub fn get(&self, key: &K) -> Option<&Counted> {
        let at = self.counts.binary_search_by(|(known, _)| known.cmp(key));
        at.ok().map(|at| &self.counts[at].1)
    }

    /// Whether all keys that occurred are known by name.
    pub fn has_all(&self) -> bool {
        self.others_at_most == 0
    }
}

impl NamedCounts {
    /// Sorts all counts by key.
    pub fn sort(&mut self) {
        self.pairs.sort();
        self.sources.sort();
        self.destinations.sort();
        self.services.sort();
    }
}

impl Sketches {
    /// The counts so far, in no particular order: the worker has no time to sort them.
    pub fn counts(&self) -> NamedCounts {
        let service = |name: AnyName| match name {
            AnyName::Narrow([code]) | AnyName::Wide([code, ..]) => Service::of_code(code as u32),
        };
        NamedCounts {
            pairs: Named::of(&self.pairs, Pair::of_name),
            sources: Named::of(&self.sources, node_of_name),
            destinations: Named::of(&self.destinations, node_of_name),
            services: Named::of(&self.services, service),
        }
    }
}
