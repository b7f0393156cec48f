//! The heaviest of a window, by packets and by bytes.

use std::cmp::Reverse;
use std::hash::Hash;

use crane_model::Flow;

/// Who is in the list stays there until someone outside is heavier by this
/// many percent, so that two of about the same size do not take turns.
const KEEP_PERCENT: u128 = 10;

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
        let flows: Vec<Flow<K>> = flows.collect();
        Self {
            by_packets: choose(&flows, top, |flow| flow.packets, &self.by_packets),
            by_bytes: choose(&flows, top, |flow| flow.bytes, &self.by_bytes),
        }
    }

    /// Both lists, each key once.
    pub fn union(&self) -> impl Iterator<Item = &Flow<K>> {
        let rest = self.by_bytes.iter();
        let new = rest.filter(|flow| !self.by_packets.iter().any(|seen| seen.key == flow.key));
        self.by_packets.iter().chain(new)
    }
}

fn choose<K: Copy + Eq + Ord>(
    flows: &[Flow<K>],
    top: usize,
    size: fn(&Flow<K>) -> u64,
    kept: &[Flow<K>],
) -> Vec<Flow<K>> {
    let mut flows: Vec<(u128, Flow<K>)> = flows
        .iter()
        .map(|flow| {
            let stays = kept.iter().any(|kept| kept.key == flow.key);
            let rank = u128::from(size(flow)) * (100 + if stays { KEEP_PERCENT } else { 0 });
            (rank, *flow)
        })
        .collect();
    // Equal sizes are ordered by address, so that lists are the same every time.
    if flows.len() > top {
        flows.select_nth_unstable_by_key(top, |(rank, flow)| (Reverse(*rank), flow.key));
        flows.truncate(top);
    }
    let mut chosen: Vec<Flow<K>> = flows.into_iter().map(|(_, flow)| flow).collect();
    chosen.sort_unstable_by_key(|flow| (Reverse(size(flow)), flow.key));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(sizes: &[(u32, u64)]) -> Vec<Flow<u32>> {
        let flow = |&(key, packets)| Flow {
            key,
            packets,
            bytes: packets,
            low: packets,
            high: packets,
        };
        sizes.iter().map(flow).collect()
    }

    fn keys(flows: &[Flow<u32>]) -> Vec<u32> {
        flows.iter().map(|flow| flow.key).collect()
    }

    #[test]
    fn who_is_in_stays_until_clearly_beaten() {
        let size = |flow: &Flow<u32>| flow.packets;
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
