//! A batch: packets folded by pair, by source and by destination, as the
//! sketches of a window store them.

use std::time::Duration;

use crane_model::fold::Fold;
use crane_model::name::{AnyName, Narrow, Wide};
use crane_model::{Arrival, Secret};

use super::slot::Slot;
use crate::edge::Ends;

/// When a batch is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// When it is full or its first packet has waited this long.
    Linger(Duration),
    /// When it is full: the same packets always make the same batches.
    Count,
}

/// Packets folded into arrivals; keeps its memory from batch to batch.
#[derive(Default)]
pub struct Batch {
    /// Between IPv4 addresses.
    pub narrow: Folded<Narrow>,
    /// Between IPv6 addresses.
    pub wide: Folded<Wide>,
    /// Packets in the batch, each counted as often as it stands for.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time of the latest of them.
    pub latest: u64,
}

/// Packets with names of one kind.
#[derive(Default)]
pub struct Folded<N> {
    names: Vec<N>,
    lengths: Vec<u32>,
    ids: Vec<u64>,
    pairs: Fold<N>,
    sources: Fold<N>,
    destinations: Fold<N>,
    /// Ids of the ends of each pair.
    ends: [Vec<u64>; 2],
}

type MakeIds<N> = fn(&Secret, &[N], &mut Vec<u64>);

impl Batch {
    /// Folds packets, each of which stands for `scale`.
    pub fn fold(&mut self, secret: &Secret, slots: &[Slot], scale: u64) {
        self.narrow.clear();
        self.wide.clear();
        (self.packets, self.bytes, self.latest) = (0, 0, 0);
        for edge in Slot::edges(slots) {
            match edge.name {
                AnyName::Narrow(name) => self.narrow.push(name, edge.bytes),
                AnyName::Wide(name) => self.wide.push(name, edge.bytes),
            }
            self.packets += scale;
            self.bytes += u64::from(edge.bytes) * scale;
            self.latest = self.latest.max(edge.time);
        }
        self.narrow.fold(secret, Secret::ids_narrow, scale);
        self.wide.fold(secret, Secret::ids_wide, scale);
    }
}

impl<N: Ends> Folded<N> {
    fn clear(&mut self) {
        self.names.clear();
        self.lengths.clear();
    }

    fn push(&mut self, name: N, bytes: u32) {
        self.names.push(name);
        self.lengths.push(bytes);
    }

    fn fold(&mut self, secret: &Secret, make_ids: MakeIds<N>, scale: u64) {
        let Self {
            names,
            lengths,
            ids,
            pairs,
            sources,
            destinations,
            ends: [source_ids, destination_ids],
        } = self;
        make_ids(secret, names, ids);
        pairs.begin(names.len());
        for ((name, id), bytes) in names.iter().zip(&*ids).zip(lengths) {
            pairs.add(*name, *id, scale, u64::from(*bytes) * scale);
        }
        for (nodes, end, ids) in [
            (sources, N::source as fn(&N) -> N, source_ids),
            (destinations, N::destination, destination_ids),
        ] {
            let pairs = pairs.arrivals();
            names.clear();
            names.extend(pairs.iter().map(|pair| end(&pair.name)));
            make_ids(secret, names, ids);
            nodes.begin(names.len());
            for ((name, id), pair) in names.iter().zip(&*ids).zip(pairs) {
                nodes.add(*name, *id, pair.packets, pair.bytes);
            }
        }
    }

    /// By source and destination.
    pub fn pairs(&self) -> &[Arrival<N>] {
        self.pairs.arrivals()
    }

    /// The same with the ids of source and destination.
    pub fn pairs_and_ends(&self) -> impl Iterator<Item = (&Arrival<N>, [u64; 2])> {
        let [sources, destinations] = &self.ends;
        let ends = sources.iter().zip(destinations);
        let ends = ends.map(|(source, destination)| [*source, *destination]);
        self.pairs().iter().zip(ends)
    }

    /// By source.
    pub fn sources(&self) -> &[Arrival<N>] {
        self.sources.arrivals()
    }

    /// By destination.
    pub fn destinations(&self) -> &[Arrival<N>] {
        self.destinations.arrivals()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Edge, Pair};
    use std::collections::BTreeMap;
    use std::net::Ipv6Addr;

    #[test]
    fn nothing_is_lost_and_nothing_twice() {
        let mut batch = Batch::default();
        let secret = Secret::from_seed(1);
        let mut state = 1u64;
        for size in [0, 1, 7, 5000, 100, 4096] {
            let mut truth: BTreeMap<AnyName, (u64, u64)> = BTreeMap::new();
            let mut slots = Vec::new();
            for n in 0..size {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let (src, dst) = ((state >> 60) as u8, (state >> 50) as u8 / 4);
                let pair = match src % 3 {
                    0 => Pair::V6(
                        Ipv6Addr::from_bits(src.into()),
                        Ipv6Addr::from_bits(u128::from(dst) << 64),
                    ),
                    _ => Pair::V4([10, 0, 0, src].into(), [10, 0, 1, dst].into()),
                };
                let edge = Edge {
                    name: pair.name(),
                    bytes: n,
                    time: u64::from(n),
                };
                Slot::write(&edge, &mut slots);
                let (packets, bytes) = truth.entry(edge.name).or_default();
                *packets += 3;
                *bytes += 3 * u64::from(n);
            }
            batch.fold(&secret, &slots, 3);
            let narrow = batch.narrow.pairs().iter();
            let narrow = narrow.map(|a| (AnyName::Narrow(a.name), (a.packets, a.bytes)));
            let wide = batch.wide.pairs().iter();
            let wide = wide.map(|a| (AnyName::Wide(a.name), (a.packets, a.bytes)));
            let folded: Vec<_> = narrow.chain(wide).collect();
            assert_eq!(folded.len(), truth.len(), "no pair twice");
            assert_eq!(folded.into_iter().collect::<BTreeMap<_, _>>(), truth);
            assert_eq!(batch.packets, 3 * u64::from(size));
            assert_eq!(
                batch.narrow.pairs_and_ends().count(),
                batch.narrow.pairs().len()
            );
            for (pair, ends) in batch.narrow.pairs_and_ends() {
                let names = [pair.name.source(), pair.name.destination()];
                assert_eq!(ends, names.map(|name| secret.id(&name)));
            }
            for (narrow, wide) in [
                (batch.narrow.sources(), batch.wide.sources()),
                (batch.narrow.destinations(), batch.wide.destinations()),
            ] {
                let sum = |packets: fn(u64, u64) -> u64| {
                    let narrow = narrow.iter().map(|a| packets(a.packets, a.bytes));
                    let wide = wide.iter().map(|a| packets(a.packets, a.bytes));
                    narrow.sum::<u64>() + wide.sum::<u64>()
                };
                assert_eq!(sum(|packets, _| packets), batch.packets);
                assert_eq!(sum(|_, bytes| bytes), batch.bytes);
                assert!(narrow.len() <= 64, "folded again by node");
            }
            assert_eq!(batch.latest, u64::from(size.saturating_sub(1)));
        }
    }
}
