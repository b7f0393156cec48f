//! The heaviest keys of a window by packets and by bytes, and an upper bound for all others.
//!
//! Only keys that are known by name can be listed. There is an upper bound for keys without a name
//! ([`Unnamed`]), and one for each name. A list ends where a key without a name might be heavier.
//! If no key could be listed then, the list has the heaviest keys that are known by name and is
//! marked as incomplete.

use std::cmp::Reverse;

use crane_model::table::Total;
use crane_model::{Amount, Crane, Flow};

use super::sampling::Sampling;

/// The heaviest keys by packets and by bytes.
#[derive(Debug, Clone)]
pub struct Hitters<K> {
    pub by_packets: Ranking<K>,
    pub by_bytes: Ranking<K>,
}

/// The heaviest keys in one order, heaviest first.
#[derive(Debug, Clone)]
pub struct Ranking<K> {
    pub flows: Vec<Flow<K>>,
    /// Upper bound for every other key.
    pub others_at_most: u64,
    /// Whether heavier keys may be missing.
    pub incomplete: bool,
}

/// Bounds for keys without a name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unnamed {
    at_most: Total,
    /// A key that has no more than this may be lighter than one without a name and is not listed.
    /// Less than `at_most` if packets are sampled: then any key may have had more than was stored.
    least_listed: Total,
}

impl Unnamed {
    /// The bounds of a sketch.
    pub fn of(crane: &Crane, sampling: &Sampling) -> Self {
        let most = crane.most_unnamed();
        Self {
            at_most: sampling.most_unseen(most),
            least_listed: most,
        }
    }

    /// The bounds if every key has a name.
    pub fn none(sampling: &Sampling) -> Self {
        Self {
            at_most: sampling.most_unseen(Total::default()),
            least_listed: Total::default(),
        }
    }

    /// The same bounds if other keys that cannot be listed may have as much as `at_most`.
    pub fn or(self, at_most: Total) -> Self {
        Self {
            at_most: Total {
                packets: self.at_most.packets.max(at_most.packets),
                bytes: self.at_most.bytes.max(at_most.bytes),
            },
            ..self
        }
    }

    /// The bounds if a key without a name has no more than `most`, and all with a name are listed.
    pub fn at_most(most: Total, sampling: &Sampling) -> Self {
        Self {
            at_most: sampling.most_unseen(most),
            least_listed: Total::default(),
        }
    }

    /// The bounds for two keys without a name together.
    pub fn twice(self) -> Self {
        let twice = |total: Total| Total {
            packets: total.packets.saturating_mul(2),
            bytes: total.bytes.saturating_mul(2),
        };
        Self {
            at_most: twice(self.at_most),
            least_listed: twice(self.least_listed),
        }
    }
}

impl<K: Copy + Ord> Hitters<K> {
    /// The `top` heaviest flows of those that `each` passes to its argument. `correct` improves the
    /// selected flows before they are sorted.
    pub fn of(
        top: usize,
        unnamed: Unnamed,
        sampling: &Sampling,
        each: impl FnOnce(&mut dyn FnMut(Flow<K>)),
        correct: impl Fn(&mut [Flow<K>]),
    ) -> Self {
        let mut by_packets = Heaviest::new(top, |flow| &flow.packets, sampling);
        let mut by_bytes = Heaviest::new(top, |flow| &flow.bytes, sampling);
        each(&mut |flow| {
            by_packets.offer(&flow);
            by_bytes.offer(&flow);
        });
        let Unnamed {
            at_most,
            least_listed,
        } = unnamed;
        Self {
            by_packets: by_packets.ranking(at_most.packets, least_listed.packets, &correct),
            by_bytes: by_bytes.ranking(at_most.bytes, least_listed.bytes, &correct),
        }
    }

    /// The flows of both lists, each key once.
    pub fn union(&self) -> impl Iterator<Item = &Flow<K>> {
        let (by_packets, by_bytes) = (&self.by_packets.flows, &self.by_bytes.flows);
        let is_new = |flow: &&Flow<K>| !by_packets.iter().any(|seen| seen.key == flow.key);
        by_packets.iter().chain(by_bytes.iter().filter(is_new))
    }
}

/// Selects the heaviest of any number of flows in one pass; most of them only cost a comparison.
struct Heaviest<'a, K> {
    top: usize,
    amount: fn(&Flow<K>) -> &Amount,
    sampling: &'a Sampling,
    /// Candidates, a small multiple of `top`.
    found: Vec<Flow<K>>,
    /// Lower bound of the result: lighter flows are skipped.
    least: u64,
    /// Upper bound of the flows that were skipped.
    most_of_others: u64,
}

impl<'a, K: Copy + Ord> Heaviest<'a, K> {
    fn new(top: usize, amount: fn(&Flow<K>) -> &Amount, sampling: &'a Sampling) -> Self {
        Self {
            top,
            amount,
            sampling,
            found: Vec::new(),
            least: 0,
            most_of_others: 0,
        }
    }

    #[inline]
    fn offer(&mut self, flow: &Flow<K>) {
        let amount = (self.amount)(flow);
        if amount.estimate < self.least {
            self.most_of_others = self.most_of_others.max(self.sampling.most_of(amount));
            return;
        }
        self.found.push(*flow);
        if self.found.len() >= 4 * self.top + 64 {
            self.cut();
        }
    }

    /// Heaviest first. Of equal estimates the one with the higher upper bound comes first, then the
    /// lower address, so that lists are reproducible.
    fn order(amount: &Amount, key: K) -> (Reverse<u64>, Reverse<u64>, K) {
        let most = amount.at_most.unwrap_or(u64::MAX);
        (Reverse(amount.estimate), Reverse(most), key)
    }

    /// Keeps only the heaviest.
    fn cut(&mut self) {
        if self.found.len() <= self.top {
            return;
        }
        let amount = self.amount;
        let order = |flow: &Flow<K>| Self::order(amount(flow), flow.key);
        self.found.select_nth_unstable_by_key(self.top, order);
        for flow in self.found.drain(self.top..) {
            let most = self.sampling.most_of(amount(&flow));
            self.most_of_others = self.most_of_others.max(most);
        }
        let sizes = self.found.iter().map(|flow| amount(flow).estimate);
        self.least = sizes.min().unwrap_or(0);
    }

    /// The list. Keys without a name have at most `unnamed`. Keys that can have no more than
    /// `least_listed` are not listed.
    fn ranking(
        mut self,
        unnamed: u64,
        least_listed: u64,
        correct: &impl Fn(&mut [Flow<K>]),
    ) -> Ranking<K> {
        self.cut();
        let amount = self.amount;
        let mut flows = self.found;
        correct(&mut flows);
        flows.sort_unstable_by_key(|flow| Self::order(amount(flow), flow.key));
        let most = |flow: &Flow<K>| self.sampling.most_of(amount(flow));
        let mut others_at_most = unnamed.max(self.most_of_others);
        let is_certain = |flow: &Flow<K>| most(flow) > least_listed;
        let incomplete = !flows.is_empty() && !flows.iter().any(is_certain);
        if !incomplete {
            let dropped = flows.iter().filter(|flow| !is_certain(flow));
            others_at_most = others_at_most.max(dropped.map(most).max().unwrap_or(0));
            flows.retain(is_certain);
        }
        Ranking {
            flows,
            others_at_most,
            incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(sizes: &[(u32, u64)]) -> Vec<Flow<u32>> {
        let flow = |&(key, packets)| Flow {
            key,
            packets: Amount::exact(packets),
            bytes: Amount::exact(packets),
        };
        sizes.iter().map(flow).collect()
    }

    fn heaviest(flows: &[Flow<u32>], top: usize, unnamed: u64) -> Ranking<u32> {
        let total = Total {
            packets: unnamed,
            bytes: 0,
        };
        let unnamed = Unnamed {
            at_most: total,
            least_listed: total,
        };
        let sampling = Sampling::none();
        let each = |offer: &mut dyn FnMut(Flow<u32>)| flows.iter().copied().for_each(offer);
        Hitters::of(top, unnamed, &sampling, each, |_| {}).by_packets
    }

    fn keys(ranking: &Ranking<u32>) -> Vec<u32> {
        ranking.flows.iter().map(|flow| flow.key).collect()
    }

    #[test]
    fn one_pass_finds_the_same_as_sorting_all() {
        let mut sizes: Vec<(u32, u64)> = (0..5000u32)
            .map(|n| (n, u64::from(n.wrapping_mul(2_654_435_761) >> 25)))
            .collect();
        let found = heaviest(&flows(&sizes), 30, 0);
        sizes.sort_by_key(|(key, size)| (Reverse(*size), *key));
        let sorted: Vec<u32> = sizes.iter().take(30).map(|(key, _)| *key).collect();
        assert_eq!(keys(&found), sorted);
        assert_eq!(found.others_at_most, sizes[30].1);
    }

    #[test]
    fn a_list_ends_where_a_key_without_a_name_might_be_heavier() {
        let sizes = [(1, 100), (2, 50), (3, 20), (4, 10)];
        let found = heaviest(&flows(&sizes), 3, 30);
        assert_eq!((keys(&found), found.others_at_most), (vec![1, 2], 30));
        assert!(!found.incomplete);
        let found = heaviest(&flows(&sizes), 3, 1000);
        assert_eq!((keys(&found), found.others_at_most), (vec![1, 2, 3], 1000));
        assert!(found.incomplete, "only the heaviest known keys");
        assert!(!heaviest(&[], 3, 1000).incomplete);
    }
}
