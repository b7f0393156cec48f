//! Folding: packets of the same edge in a batch become one arrival.
//!
//! Storing costs the same for an arrival of one packet and of many. In bursty traffic
//! only a few percent of the packets remain as arrivals.

use crate::arrival::Arrival;
use crate::name::Name;
use crate::secret::Secret;
use crate::{Edge, Weighted};

/// The arrivals of a batch without equal names, in order of first arrival. It keeps its
/// memory from batch to batch.
///
/// ```
/// use crane_model::Secret;
/// use crane_model::fold::Fold;
///
/// let secret = Secret::from_seed(1);
/// let mut fold = Fold::default();
/// fold.begin(2);
/// fold.add([7], secret.id(&[7]), 1, 60);
/// fold.add([7], secret.id(&[7]), 1, 1500);
/// assert_eq!(fold.arrivals().len(), 1);
/// assert_eq!((fold.arrivals()[0].packets, fold.arrivals()[0].bytes), (2, 1560));
/// ```
#[derive(Default)]
pub struct Fold<N> {
    /// A hash table with open addressing and at least four times as many slots as names.
    /// A slot holds, in four bytes, the round in which it was filled and the index of its
    /// arrival. Slots of earlier rounds count as empty, so nothing has to be cleared.
    slots: Vec<u32>,
    /// The present round, in the bits above those of an index.
    round: u32,
    /// Bits of an index.
    bits: u32,
    arrivals: Vec<Arrival<N>>,
}

impl<N: Name> Fold<N> {
    /// Begins a new batch of at most `names` names.
    pub fn begin(&mut self, names: usize) {
        self.arrivals.clear();
        let wanted = (4 * names).next_power_of_two();
        let next = self.round.checked_add(1 << self.bits);
        match next {
            Some(next) if self.slots.len() >= wanted && self.round > 0 => self.round = next,
            _ => {
                let size = wanted.max(self.slots.len());
                self.slots.clear();
                self.slots.resize(size, 0);
                // An index is smaller than the number of slots.
                self.bits = size.trailing_zeros();
                self.round = 1 << self.bits;
            }
        }
    }

    /// Adds packets of an edge whose id is known. Returns the index of its arrival.
    #[inline]
    pub fn add(&mut self, name: N, id: u64, packets: u64, bytes: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = id as usize & mask;
        loop {
            // Slots of earlier rounds are smaller than `round`.
            let Some(at) = self.slots[slot].checked_sub(self.round) else {
                let at = self.arrivals.len();
                self.slots[slot] = self.round | at as u32;
                self.arrivals.push(Arrival {
                    name,
                    id,
                    packets,
                    bytes,
                });
                return at;
            };
            let arrival = &mut self.arrivals[at as usize];
            if arrival.id == id && arrival.name == name {
                arrival.packets = arrival.packets.saturating_add(packets);
                arrival.bytes = arrival.bytes.saturating_add(bytes);
                return at as usize;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        4 * self.slots.capacity() + size_of::<Arrival<N>>() * self.arrivals.capacity()
    }

    /// The arrivals of the batch so far.
    pub fn arrivals(&self) -> &[Arrival<N>] {
        &self.arrivals
    }
}

/// Merges equal edges of a batch into one, in order of first arrival, and omits edges of
/// weight 0.
pub fn fold(batch: &[Weighted]) -> Vec<Weighted> {
    let weighted = |a: &Arrival<_>| Weighted::new(Edge::of_name(a.name), a.packets);
    let folded = arrivals(&Secret::from_seed(0), batch);
    folded.arrivals().iter().map(weighted).collect()
}

/// Like [`fold`], as arrivals for a sketch with this secret, with one byte per packet.
pub fn arrivals(secret: &Secret, batch: &[Weighted]) -> Fold<crate::name::Narrow> {
    let mut folded = Fold::default();
    folded.begin(batch.len());
    let names: Vec<_> = batch.iter().map(|w| w.edge.name()).collect();
    let mut ids = Vec::new();
    secret.ids_narrow(&names, &mut ids);
    for ((name, id), w) in names.into_iter().zip(ids).zip(batch) {
        if w.weight > 0 {
            folded.add(name, id, w.weight, w.weight);
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn folding_keeps_order_and_total() {
        let (a, b) = (Edge::new(1, 2), Edge::new(2, 1));
        let batch = [(a, 1), (b, 5), (a, 2), (b, 0)].map(|(e, w)| Weighted::new(e, w));
        assert_eq!(fold(&batch), [Weighted::new(a, 3), Weighted::new(b, 5)]);
        assert!(fold(&[Weighted::new(a, 0)]).is_empty());
    }

    #[test]
    fn every_packet_is_counted_exactly_once() {
        let secret = Secret::from_seed(1);
        let mut fold = Fold::default();
        for (round, size) in [0, 1, 7, 5000, 100, 4096].into_iter().enumerate() {
            let mut truth: BTreeMap<[u64; 1], (u64, u64)> = BTreeMap::new();
            fold.begin(size);
            for n in 0..size as u64 {
                let name = [n.wrapping_mul(0x9e37_79b9 + round as u64) % 300];
                fold.add(name, secret.id(&name), 3, n);
                let (packets, bytes) = truth.entry(name).or_default();
                *packets += 3;
                *bytes += n;
            }
            let folded = fold.arrivals().iter();
            let folded: BTreeMap<_, _> = folded.map(|a| (a.name, (a.packets, a.bytes))).collect();
            assert_eq!(fold.arrivals().len(), folded.len(), "no name twice");
            assert_eq!(folded, truth);
        }
    }
}
