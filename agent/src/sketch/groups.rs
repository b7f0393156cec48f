//! Exact counters for each pair of names of networks.
//!
//! A batch is folded before it is counted, and of each pair in it the names are
//! remembered: most pairs of a batch were in one of those before. What is not
//! remembered is looked up, once for each end.

use std::cmp::Reverse;
use std::sync::Arc;

use crane_model::Arrival;
use crane_model::name::{Narrow, Wide};

use super::batch::Batch;
use crate::edge::{Ends, node_of_name};
use crate::names::{Group, Names};

/// Pairs that are remembered: 64 KiB of IPv4, 160 KiB of IPv6, if there are any.
const REMEMBERED: usize = 4096;

/// The counters of one interface: 16 bytes for each pair of names.
pub struct Groups {
    names: Arc<Names>,
    /// Packets and bytes, by the number of the source's name, then the
    /// destination's.
    counts: Vec<(u64, u64)>,
    narrow: Memory<Narrow>,
    wide: Memory<Wide>,
}

/// The groups of the last pairs.
#[derive(Default)]
struct Memory<N>(Vec<(N, u16)>);

impl Groups {
    /// Nothing counted yet.
    pub fn new(names: Arc<Names>) -> Self {
        Self {
            counts: vec![(0, 0); names.count() * names.count()],
            names,
            narrow: Memory::default(),
            wide: Memory::default(),
        }
    }

    /// Counts a batch.
    pub fn count(&mut self, batch: &Batch) {
        let (names, counts) = (&self.names, &mut self.counts);
        self.narrow.count(names, counts, batch.narrow.pairs());
        self.wide.count(names, counts, batch.wide.pairs());
    }

    /// All groups that were seen, those with most packets first.
    pub fn seen(&self) -> Vec<Group> {
        let seen = (0..)
            .zip(&self.counts)
            .filter(|(_, (packets, _))| *packets > 0);
        let group = |(at, (packets, bytes)): (usize, &(u64, u64))| Group {
            src: Arc::clone(self.names.name(at / self.names.count())),
            dst: Arc::clone(self.names.name(at % self.names.count())),
            packets: *packets,
            bytes: *bytes,
        };
        let mut groups: Vec<Group> = seen.map(group).collect();
        // The sort is stable: equal ones keep the order of the configuration.
        groups.sort_by_key(|group| Reverse(group.packets));
        groups
    }

    /// The names it counts by.
    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }
}

impl<N: Ends + Default> Memory<N> {
    fn count(&mut self, names: &Names, counts: &mut [(u64, u64)], pairs: &[Arrival<N>]) {
        if self.0.is_empty() && !pairs.is_empty() {
            // A pair like any other, and true of it wherever it stands.
            let pair = N::default();
            self.0 = vec![(pair, group(names, &pair)); REMEMBERED];
        }
        for arrival in pairs {
            // Ids are keyed: no traffic can be made to push out another.
            let place = &mut self.0[arrival.id as usize % REMEMBERED];
            if place.0 != arrival.name {
                *place = (arrival.name, group(names, &arrival.name));
            }
            let (packets, bytes) = &mut counts[usize::from(place.1)];
            *packets += arrival.packets;
            *bytes += arrival.bytes;
        }
    }
}

/// The number of a pair of names; there are 65,536 at most.
fn group<N: Ends>(names: &Names, pair: &N) -> u16 {
    let number = |node: N| usize::from(names.number_of(node_of_name(node.any())));
    (number(pair.source()) * names.count() + number(pair.destination())) as u16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crane_model::Secret;

    use super::*;
    use crate::edge::{Edge, Pair};
    use crate::sketch::slot::Slot;

    /// Far more pairs than are remembered, again and again, and as many names
    /// as there can be.
    #[test]
    fn every_packet_is_counted_once_in_its_group() {
        let mut names = Names::new(255);
        for n in 0..255u8 {
            let v4 = format!("10.{n}.0.0/16").parse().unwrap();
            let v6 = format!("fd00:{n:x}::/32").parse().unwrap();
            names.give(v4, &format!("n{n}"), 0).unwrap();
            names.give(v6, &format!("n{n}"), 0).unwrap();
        }
        let names = Arc::new(names);
        let mut groups = Groups::new(Arc::clone(&names));
        let mut truth: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        let (mut batch, mut state) = (Batch::default(), 1u64);
        for _ in 0..10 {
            let mut slots = Vec::new();
            for bytes in 0..5000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let [a, b, c, d, e, ..] = (state >> 13).to_le_bytes();
                let pair = match e % 4 {
                    0 => {
                        let v6 = |n: u8, m| [0xfd00, n.into(), 0, 0, 0, 0, 0, m].into();
                        Pair::V6(v6(a, 1), v6(b, u16::from(c)))
                    }
                    // What nothing is remembered as at first.
                    1 if a == 0 => Pair::V4([0, 0, 0, 0].into(), [0, 0, 0, 0].into()),
                    _ => Pair::V4([10, a, 0, c % 8].into(), [10, b, 0, d % 8].into()),
                };
                let name = pair.name();
                Slot::write(
                    &Edge {
                        name,
                        bytes,
                        time: 0,
                    },
                    &mut slots,
                );
                let ends = (names.of(pair.src()).into(), names.of(pair.dst()).into());
                let (packets, sum) = truth.entry(ends).or_default();
                *packets += 2;
                *sum += 2 * u64::from(bytes);
            }
            batch.fold(&Secret::from_seed(1), &slots, 2);
            groups.count(&batch);
        }
        let seen = groups.seen();
        assert!(seen.is_sorted_by_key(|group| Reverse(group.packets)));
        let entry = |group: Group| {
            let ends = (group.src.to_string(), group.dst.to_string());
            (ends, (group.packets, group.bytes))
        };
        assert_eq!(
            seen.into_iter().map(entry).collect::<BTreeMap<_, _>>(),
            truth
        );
    }
}
