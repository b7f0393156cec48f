//! The heaviest of a window, by packets and by bytes.

use std::cmp::Reverse;
use std::hash::Hash;

use crane_model::{Amount, Flow};

/// Who is in the list stays there until someone outside is heavier by this
/// many percent, so that two of about the same size do not take turns.
pub(super) const KEEP_PERCENT: u128 = 10;

/// The heaviest by packets and by bytes, heaviest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Hitters<K> {
    /// By packets.
    pub by_packets: Vec<Flow<K>>,
    /// By bytes.
    pub by_bytes: Vec<Flow<K>>,
}

impl<K> Default for Hitters<K> {
    fn default() -> Self {
        Self {
            by_packets: Vec::new(),
            by_bytes: Vec::new(),
        }
    }
}

impl<K: Copy + Eq + Hash + Ord> Hitters<K> {
    /// The `top` heaviest of these by each measure.
    pub fn of(flows: impl Iterator<Item = Flow<K>>, top: usize) -> Self {
        Self::default().follow(flows, top)
    }

    /// The `top` heaviest of these, where those who are in this list have an
    /// advantage.
    pub fn follow(&self, flows: impl Iterator<Item = Flow<K>>, top: usize) -> Self {
        let mut by_packets = Best::new(top, |flow| &flow.packets, &self.by_packets);
        let mut by_bytes = Best::new(top, |flow| &flow.bytes, &self.by_bytes);
        // Not a loop: chained iterators are then passed through without copies.
        flows.for_each(|flow| {
            by_packets.offer(&flow);
            by_bytes.offer(&flow);
        });
        Self {
            by_packets: by_packets.sorted(),
            by_bytes: by_bytes.sorted(),
        }
    }

    /// Leaves the `top` heaviest.
    pub fn shorten(&mut self, top: usize) {
        self.by_packets.truncate(top);
        self.by_bytes.truncate(top);
    }

    /// Both lists, each key once.
    pub fn union(&self) -> impl Iterator<Item = &Flow<K>> {
        let rest = self.by_bytes.iter();
        let new = rest.filter(|flow| !self.by_packets.iter().any(|seen| seen.key == flow.key));
        self.by_packets.iter().chain(new)
    }
}

/// The heaviest of any number of flows, in one pass: most of them are compared
/// with one number and forgotten.
struct Best<K> {
    top: usize,
    amount: fn(&Flow<K>) -> &Amount,
    /// In order, to be searched.
    kept: Vec<K>,
    /// With their ranks, no more than a few times as many as are wanted.
    found: Vec<(u128, Flow<K>)>,
    /// Who ranks below this is none of them.
    least: u128,
}

impl<K: Copy + Eq + Ord> Best<K> {
    fn new(top: usize, amount: fn(&Flow<K>) -> &Amount, kept: &[Flow<K>]) -> Self {
        let mut kept: Vec<K> = kept.iter().map(|flow| flow.key).collect();
        kept.sort_unstable();
        Self {
            top,
            amount,
            kept,
            found: Vec::new(),
            least: 0,
        }
    }

    #[inline]
    fn offer(&mut self, flow: &Flow<K>) {
        let size = u128::from((self.amount)(flow).estimate);
        if size * (100 + KEEP_PERCENT) < self.least {
            return;
        }
        let stays = self.kept.binary_search(&flow.key).is_ok();
        let rank = size * (100 + if stays { KEEP_PERCENT } else { 0 });
        if rank < self.least {
            return;
        }
        self.found.push((rank, *flow));
        if self.found.len() >= 4 * self.top + 64 {
            self.cut();
        }
    }

    /// Forgets all but the heaviest. Of equal sizes those come first that may have
    /// more, then they are ordered by address, so that lists are the same every time.
    fn cut(&mut self) {
        if self.found.len() <= self.top {
            return;
        }
        let amount = self.amount;
        let order = |(rank, flow): &(u128, Flow<K>)| {
            (
                Reverse(*rank),
                Reverse(amount(flow).at_most.unwrap_or(u64::MAX)),
                flow.key,
            )
        };
        self.found.select_nth_unstable_by_key(self.top, order);
        self.found.truncate(self.top);
        let ranks = self.found.iter().map(|(rank, _)| *rank);
        self.least = ranks.min().unwrap_or(0);
    }

    fn sorted(mut self) -> Vec<Flow<K>> {
        self.cut();
        let mut chosen: Vec<Flow<K>> = self.found.into_iter().map(|(_, flow)| flow).collect();
        chosen.sort_unstable_by_key(|flow| {
            let amount = (self.amount)(flow);
            (
                Reverse(amount.estimate),
                Reverse(amount.at_most.unwrap_or(u64::MAX)),
                flow.key,
            )
        });
        chosen
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

    fn choose(
        flows: &[Flow<u32>],
        top: usize,
        amount: fn(&Flow<u32>) -> &Amount,
        kept: &[Flow<u32>],
    ) -> Vec<Flow<u32>> {
        let mut best = Best::new(top, amount, kept);
        flows.iter().for_each(|flow| best.offer(flow));
        best.sorted()
    }

    #[test]
    fn one_pass_finds_the_same_as_sorting_all() {
        let mut sizes: Vec<(u32, u64)> = (0..5000u32)
            .map(|n| (n, u64::from(n.wrapping_mul(2_654_435_761) >> 25)))
            .collect();
        let found = choose(&flows(&sizes), 30, |flow| &flow.packets, &[]);
        sizes.sort_by_key(|(key, size)| (Reverse(*size), *key));
        let sorted: Vec<u32> = sizes.iter().take(30).map(|(key, _)| *key).collect();
        assert_eq!(keys(&found), sorted);
    }

    fn keys(flows: &[Flow<u32>]) -> Vec<u32> {
        flows.iter().map(|flow| flow.key).collect()
    }

    #[test]
    fn who_is_in_stays_until_clearly_beaten() {
        let size: fn(&Flow<u32>) -> &Amount = |flow| &flow.packets;
        let first = choose(&flows(&[(1, 1000), (2, 900), (3, 890)]), 2, size, &[]);
        assert_eq!(keys(&first), [1, 2]);
        let close = choose(&flows(&[(1, 1000), (2, 900), (3, 950)]), 2, size, &first);
        assert_eq!(keys(&close), [1, 2], "3 is ahead by less than 10 %");
        let clear = choose(&flows(&[(1, 1000), (2, 900), (3, 2000)]), 2, size, &close);
        assert_eq!(keys(&clear), [3, 1]);
        assert_eq!(
            keys(&choose(&flows(&[(7, 5), (3, 5), (5, 5)]), 2, size, &[])),
            [3, 5]
        );
    }
}
