//! Exact counters for each pair of network names.
//!
//! Names are looked up when a batch is stored, once for each end of a pair and not for each packet.

use std::cmp::Reverse;
use std::sync::Arc;

use crane_model::Arrival;

use crate::traffic::batch::Pairs;
use crate::traffic::edge::{Ends, node_of_name};
use crate::traffic::names::{Group, Names};

/// The counters of one interface: 16 bytes for each pair of names.
pub struct Groups {
    names: Arc<Names>,
    /// Packets and bytes, indexed by the numbers of the two names.
    counts: Vec<(u64, u64)>,
}

impl Groups {
    pub fn new(names: Arc<Names>) -> Self {
        Self {
            counts: vec![(0, 0); names.count() * names.count()],
            names,
        }
    }

    /// The same counters for other names. Pairs of names that no longer exist are dropped.
    pub fn renamed(&self, names: Arc<Names>) -> Self {
        let mut renamed = Self::new(names);
        let (old, new) = (&self.names, &renamed.names);
        let number = |at: usize| new.number(old.name(at)).map(usize::from);
        for (at, count) in self.counts.iter().enumerate() {
            let ends = number(at / old.count()).zip(number(at % old.count()));
            if let Some((src, dst)) = ends {
                renamed.counts[src * new.count() + dst] = *count;
            }
        }
        renamed
    }

    pub fn count(&mut self, pairs: &Pairs) {
        self.count_pairs(pairs.narrow.arrivals());
        self.count_pairs(pairs.wide.arrivals());
    }

    fn count_pairs<N: Ends>(&mut self, pairs: &[Arrival<N>]) {
        let names = &self.names;
        let number = |node: N| usize::from(names.number_of(node_of_name(node.any())));
        for pair in pairs {
            let (src, dst) = (pair.name.source(), pair.name.destination());
            let group = number(src) * names.count() + number(dst);
            let (packets, bytes) = &mut self.counts[group];
            *packets += pair.packets;
            *bytes += pair.bytes;
        }
    }

    /// All pairs of names with packets, most packets first.
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
        // The sort is stable: equal groups keep the order of the configuration.
        groups.sort_by_key(|group| Reverse(group.packets));
        groups
    }

    pub fn names(&self) -> &Arc<Names> {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crane_model::Secret;

    use super::*;
    use crate::traffic::batch::Batch;
    use crate::traffic::edge::{Edge, Pair};
    use crate::traffic::names::Prefixes;
    use crate::traffic::service::Service;
    use crate::traffic::slot::Slot;

    #[test]
    fn counters_between_names_that_remain_are_kept() {
        let names = |given: &[(&str, &str)]| {
            let mut prefixes = Prefixes::new(9);
            for (prefix, name) in given {
                prefixes.add(prefix.parse().unwrap(), name, 0);
            }
            Arc::new(prefixes.finish())
        };
        let mut groups = Groups::new(names(&[("10.0.0.0/8", "a"), ("11.0.0.0/8", "b")]));
        // other, a, b
        groups.counts = (0..9).map(|n| (n, 10 * n)).collect();
        let groups = groups.renamed(names(&[("9.0.0.0/8", "c"), ("11.0.0.0/8", "b")]));
        let seen: Vec<_> = groups
            .seen()
            .into_iter()
            .map(|group| (group.src.to_string(), group.dst.to_string(), group.packets))
            .collect();
        let seen: Vec<_> = seen.iter().map(|(a, b, n)| (&**a, &**b, *n)).collect();
        assert_eq!(seen, [("b", "b", 8), ("b", "other", 6), ("other", "b", 2)]);
    }

    /// Many pairs, each in several batches, and the largest possible number of names.
    #[test]
    fn every_packet_is_counted_once_in_its_group() {
        let mut prefixes = Prefixes::new(255);
        for n in 0..255u8 {
            let v4 = format!("10.{n}.0.0/16").parse().unwrap();
            let v6 = format!("fd00:{n:x}::/32").parse().unwrap();
            prefixes.add(v4, &format!("n{n}"), 0);
            prefixes.add(v6, &format!("n{n}"), 0);
        }
        let names = Arc::new(prefixes.finish());
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
                    _ => Pair::V4([10, a, 0, c % 8].into(), [10, b, 0, d % 8].into()),
                };
                let name = pair.name();
                Slot::write(
                    &Edge {
                        name,
                        service: Service::FRAGMENT,
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
            groups.count(&batch.pairs);
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
