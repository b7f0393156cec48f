//! Folding: packets of the same pair become one arrival before they meet the
//! sketch. Of bursty traffic a few percent are left.

use std::hash::{BuildHasher, Hash};
use std::net::Ipv6Addr;

use crane_model::Arrival;
use foldhash::fast::RandomState;

use crate::edge::{Edge, Pair};

/// Packets folded into arrivals; keeps its memory from batch to batch.
#[derive(Default)]
pub struct Batch {
    pairs: Folded<Pair>,
    sources: Folded<Ipv6Addr>,
    destinations: Folded<Ipv6Addr>,
    /// Packets in the batch, each counted as often as it stands for.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time of the latest of them.
    pub latest: u64,
}

impl Batch {
    /// Folds packets, each of which stands for `scale`.
    pub fn fold(&mut self, edges: &[Edge], scale: u64) {
        self.pairs.clear(edges.len());
        (self.packets, self.bytes, self.latest) = (0, 0, 0);
        // Bursts: the pair is often that of the packet before.
        let (mut last, mut at) = (None, 0);
        for edge in edges {
            if last != Some(edge.pair) {
                at = self.pairs.place(edge.pair);
                last = Some(edge.pair);
            }
            let bytes = u64::from(edge.bytes) * scale;
            self.pairs.arrivals[at].packets += scale;
            self.pairs.arrivals[at].bytes += bytes;
            self.bytes += bytes;
            self.latest = self.latest.max(edge.time);
        }
        self.packets = edges.len() as u64 * scale;
        self.sources.clear(self.pairs.arrivals.len());
        self.destinations.clear(self.pairs.arrivals.len());
        for pair in &self.pairs.arrivals {
            self.sources.add(pair.key.src, pair);
            self.destinations.add(pair.key.dst, pair);
        }
    }

    /// By source and destination.
    pub fn pairs(&self) -> &[Arrival<Pair>] {
        &self.pairs.arrivals
    }

    /// By source.
    pub fn sources(&self) -> &[Arrival<Ipv6Addr>] {
        &self.sources.arrivals
    }

    /// By destination.
    pub fn destinations(&self) -> &[Arrival<Ipv6Addr>] {
        &self.destinations.arrivals
    }
}

/// Arrivals without equal keys, in order of first arrival.
struct Folded<K> {
    hasher: RandomState,
    /// Open addressing, twice as many slots as keys at most: the round a slot
    /// was filled in, and where its arrival is. Old rounds count as empty, so
    /// nothing has to be cleared.
    slots: Vec<(u32, u32)>,
    round: u32,
    arrivals: Vec<Arrival<K>>,
}

impl<K> Default for Folded<K> {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            slots: Vec::new(),
            round: 0,
            arrivals: Vec::new(),
        }
    }
}

impl<K: Copy + Eq + Hash> Folded<K> {
    /// Begins a new round of at most `keys` keys.
    fn clear(&mut self, keys: usize) {
        self.arrivals.clear();
        self.round = self.round.wrapping_add(1);
        let wanted = (2 * keys).next_power_of_two();
        if self.round == 0 || self.slots.len() < wanted {
            let size = wanted.max(self.slots.len());
            self.slots.clear();
            self.slots.resize(size, (0, 0));
            self.round = 1;
        }
    }

    /// Where the arrival of `key` is; made if there is none.
    #[inline]
    fn place(&mut self, key: K) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.hasher.hash_one(key) as usize & mask;
        loop {
            let (round, at) = self.slots[slot];
            if round != self.round {
                let at = self.arrivals.len();
                self.slots[slot] = (self.round, at as u32);
                self.arrivals.push(Arrival {
                    key,
                    packets: 0,
                    bytes: 0,
                });
                return at;
            }
            if self.arrivals[at as usize].key == key {
                return at as usize;
            }
            slot = (slot + 1) & mask;
        }
    }
}

impl Folded<Ipv6Addr> {
    fn add(&mut self, node: Ipv6Addr, pair: &Arrival<Pair>) {
        let at = self.place(node);
        self.arrivals[at].packets += pair.packets;
        self.arrivals[at].bytes += pair.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn nothing_is_lost_and_nothing_twice() {
        let mut batch = Batch::default();
        let mut state = 1u64;
        for size in [0, 1, 7, 5000, 100, 4096] {
            let edges: Vec<Edge> = (0..size)
                .map(|n| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let (src, dst) = ((state >> 60) as u8, (state >> 50) as u8 / 4);
                    let pair = Pair::new([10, 0, 0, src], [10, 0, 1, dst]);
                    Edge {
                        pair,
                        bytes: n,
                        time: u64::from(n),
                    }
                })
                .collect();
            batch.fold(&edges, 3);
            let mut truth: BTreeMap<Pair, (u64, u64)> = BTreeMap::new();
            for edge in &edges {
                let (packets, bytes) = truth.entry(edge.pair).or_default();
                *packets += 3;
                *bytes += 3 * u64::from(edge.bytes);
            }
            let folded = batch.pairs().iter();
            let folded: BTreeMap<_, _> = folded.map(|a| (a.key, (a.packets, a.bytes))).collect();
            assert_eq!(batch.pairs().len(), folded.len(), "no pair twice");
            assert_eq!(folded, truth);
            assert_eq!(batch.packets, 3 * u64::from(size));
            for nodes in [batch.sources(), batch.destinations()] {
                assert_eq!(nodes.iter().map(|a| a.packets).sum::<u64>(), batch.packets);
                assert_eq!(nodes.iter().map(|a| a.bytes).sum::<u64>(), batch.bytes);
            }
            assert_eq!(batch.latest, u64::from(size.saturating_sub(1)));
        }
    }
}
