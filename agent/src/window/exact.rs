//! Exact counts of all pairs of a file, with which the sketch is compared.

use std::collections::HashMap;

use crane_model::name::Name;
use crane_model::{Arrival, Flow};

use super::Window;
use crate::traffic::batch::Pairs;
use crate::traffic::edge::Pair;

/// Packets and bytes of every pair.
#[derive(Default)]
pub struct ExactCounts {
    /// The hash of the standard map is keyed, so a capture cannot be made to cause collisions.
    pairs: HashMap<Pair, (u64, u64)>,
}

/// The exact counts of a pair, and the answer of the sketch.
pub struct Compared {
    pub packets: u64,
    pub bytes: u64,
    pub flow: Flow<Pair>,
}

impl ExactCounts {
    pub fn count(&mut self, pairs: &Pairs) {
        self.add(pairs.narrow.arrivals());
        self.add(pairs.wide.arrivals());
    }

    fn add<N: Name>(&mut self, arrivals: &[Arrival<N>]) {
        for arrival in arrivals {
            let pair = Pair::of_name(arrival.name.any());
            let (packets, bytes) = self.pairs.entry(pair).or_default();
            *packets += arrival.packets;
            *bytes += arrival.bytes;
        }
    }

    /// Compares all pairs with a window of the same packets. The order is that of addresses, so
    /// that sums of floats are reproducible.
    pub fn compare(&self, window: &Window) -> crane_model::Result<Vec<Compared>> {
        let mut pairs: Vec<(&Pair, &(u64, u64))> = self.pairs.iter().collect();
        pairs.sort_unstable();
        let compare = |(pair, &(packets, bytes)): (&Pair, &(u64, u64))| {
            Ok(Compared {
                packets,
                bytes,
                flow: window.sketches.pair(*pair)?,
            })
        };
        pairs.into_iter().map(compare).collect()
    }
}
