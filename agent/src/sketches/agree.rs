//! Makes answers about pairs and about addresses agree. Both are counted in separate sketches. If
//! these are not exact, bounds of one sketch are applied to the other as well: a pair has had no
//! more than either of its ends, and an address no less than its pairs that are known by name. If
//! two estimates contradict each other, the one with the narrower interval is used.
//!
//! This takes a few lookups for a pair and one pass over all named pairs for addresses. So the
//! rows of lists are selected without it, and then corrected.

use std::net::IpAddr;

use crane_model::name::{AnyName, Narrow, Wide};
use crane_model::table::TableKey;
use crane_model::{Amount, Flow, Result};
use rustc_hash::FxHashMap;

use super::Sketches;
use super::fans::Direction;
use crate::traffic::edge::{Ends, Pair, node_name};

impl Sketches {
    /// Replaces these flows by the answers of the sketch of pairs, corrected by the bounds of their
    /// ends and widened for sampling.
    pub(super) fn correct_pairs(&self, flows: &mut [Flow<Pair>]) {
        self.correct_stored_pairs(flows, |flow| self.sampling.widened(flow));
    }

    /// The same without widening. `finish` is applied to each result.
    pub(super) fn correct_stored_pairs(
        &self,
        flows: &mut [Flow<Pair>],
        finish: impl Fn(Flow<Pair>) -> Flow<Pair>,
    ) {
        if self.pairs.is_exact() {
            return;
        }
        // If a sketch cannot answer, the flows stay as they are.
        let _ = self.correct_named::<Narrow>(flows, &finish);
        let _ = self.correct_named::<Wide>(flows, &finish);
    }

    fn correct_named<N: Ends + TableKey>(
        &self,
        flows: &mut [Flow<Pair>],
        finish: &impl Fn(Flow<Pair>) -> Flow<Pair>,
    ) -> Result<()> {
        let name = |flow: &Flow<Pair>| N::of(flow.key.name());
        let names: Vec<N> = flows.iter().filter_map(name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let sources: Vec<N> = names.iter().map(Ends::source).collect();
        let destinations: Vec<N> = names.iter().map(Ends::destination).collect();
        let pairs = self.pairs.flows(&names)?;
        let sources = self.sources.flows(&sources)?;
        let destinations = self.destinations.flows(&destinations)?;
        let ends = pairs.into_iter().zip(sources.iter().zip(&destinations));
        let of_this_length = flows.iter_mut().filter(|flow| name(flow).is_some());
        for (flow, (pair, (source, destination))) in of_this_length.zip(ends) {
            let pair = below(below(pair, source), destination);
            *flow = finish(pair.rename(|_| flow.key));
        }
        Ok(())
    }

    /// Replaces these flows by the answers of the sketch of addresses, corrected by the bounds of
    /// their pairs and widened for sampling.
    pub(super) fn correct_addresses(&self, flows: &mut [Flow<IpAddr>], direction: Direction) {
        self.correct_stored_addresses(flows, direction, |flow| self.sampling.widened(flow));
    }

    /// The same without widening. `finish` is applied to each result.
    pub(super) fn correct_stored_addresses(
        &self,
        flows: &mut [Flow<IpAddr>],
        direction: Direction,
        finish: impl Fn(Flow<IpAddr>) -> Flow<IpAddr>,
    ) {
        let [crane, _] = self.nodes(direction);
        if crane.is_exact() {
            return;
        }
        let _ = self.correct_ends::<Narrow>(flows, direction, &finish);
        let _ = self.correct_ends::<Wide>(flows, direction, &finish);
    }

    fn correct_ends<N: Ends + TableKey>(
        &self,
        flows: &mut [Flow<IpAddr>],
        direction: Direction,
        finish: &impl Fn(Flow<IpAddr>) -> Flow<IpAddr>,
    ) -> Result<()> {
        let name = |flow: &Flow<IpAddr>| N::of(node_name(flow.key));
        let names: Vec<N> = flows.iter().filter_map(name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let [crane, _] = self.nodes(direction);
        let own = crane.flows(&names)?;
        let mut known: FxHashMap<AnyName, Raised> = FxHashMap::default();
        for flow in &own {
            known.insert(flow.key.any(), Raised::new(flow));
        }
        let end = |pair: &N| match direction {
            Direction::Out => pair.source().any(),
            Direction::Into => pair.destination().any(),
        };
        for pair in self.pairs.names::<N>() {
            if let Some(raised) = known.get_mut(&end(&pair)) {
                raised.add(&self.pairs.flow(pair)?);
            }
        }
        let of_this_length = flows.iter_mut().filter(|flow| name(flow).is_some());
        for (flow, own) in of_this_length.zip(own) {
            if let Some(raised) = known.get(&own.key.any()) {
                *flow = finish(raised.apply(&own).rename(|_| flow.key));
            }
        }
        Ok(())
    }
}

/// Width of the interval.
fn width(amount: &Amount) -> u64 {
    amount.high - amount.low
}

/// Limits a pair to the traffic of one of its ends.
fn below<K, L>(pair: Flow<K>, end: &Flow<L>) -> Flow<K> {
    let amount = |pair: Amount, end: &Amount| {
        let most = match (pair.at_most, end.at_most) {
            (Some(pair), Some(end)) => Some(pair.min(end)),
            (pair, end) => pair.or(end),
        };
        let estimate = match width(end) < width(&pair) {
            true => pair.estimate.min(end.estimate),
            false => pair.estimate,
        };
        Amount::within((pair.at_least, most), [pair.low, estimate, pair.high])
    };
    Flow {
        packets: amount(pair.packets, &end.packets),
        bytes: amount(pair.bytes, &end.bytes),
        key: pair.key,
    }
}

/// Bounds for an address that follow from its pairs.
struct Raised {
    /// Widths of the intervals of the address, in packets and in bytes.
    widths: [u64; 2],
    /// Sums of the guaranteed lower bounds of its pairs.
    at_least: [u64; 2],
    /// The largest estimates of pairs whose interval is not wider than that of the address.
    largest: [u64; 2],
}

impl Raised {
    fn new<K>(own: &Flow<K>) -> Self {
        Self {
            widths: [width(&own.packets), width(&own.bytes)],
            at_least: [0; 2],
            largest: [0; 2],
        }
    }

    fn add<K>(&mut self, pair: &Flow<K>) {
        for (at, amount) in [&pair.packets, &pair.bytes].into_iter().enumerate() {
            let least = amount.at_least.unwrap_or(0);
            self.at_least[at] = self.at_least[at].saturating_add(least);
            if width(amount) <= self.widths[at] {
                self.largest[at] = self.largest[at].max(amount.estimate);
            }
        }
    }

    fn apply<K: Copy>(&self, own: &Flow<K>) -> Flow<K> {
        let amount = |at: usize, own: &Amount| {
            let least = own.at_least.map(|least| least.max(self.at_least[at]));
            let estimate = own.estimate.max(self.largest[at]);
            Amount::within((least, own.at_most), [own.low, estimate, own.high])
        };
        Flow {
            key: own.key,
            packets: amount(0, &own.packets),
            bytes: amount(1, &own.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(likely: [u64; 3], at_least: u64, at_most: u64) -> Flow<()> {
        let amount = |times: u64| {
            let ends = (Some(times * at_least), Some(times * at_most));
            Amount::within(ends, likely.map(|number| times * number))
        };
        Flow {
            key: (),
            packets: amount(1),
            bytes: amount(100),
        }
    }

    #[test]
    fn a_pair_has_no_more_than_its_ends() {
        let pair = flow([1, 3, 3], 1, 3);
        let sure = below(pair, &flow([1, 1, 1], 0, 2));
        assert_eq!((sure.packets.estimate, sure.packets.at_most), (1, Some(2)));
        assert_eq!((sure.bytes.estimate, sure.bytes.at_most), (100, Some(200)));
        let unsure = below(pair, &flow([0, 1, 9], 0, 9));
        assert_eq!(unsure, pair, "the interval of the end is wider");
    }

    #[test]
    fn an_address_has_no_less_than_its_pairs() {
        let own = flow([1, 1, 2146], 0, 2146);
        let mut raised = Raised::new(&own);
        raised.add(&flow([700, 773, 2146], 380, 2146));
        raised.add(&flow([5, 5, 5], 5, 5));
        let sure = raised.apply(&own).packets;
        assert_eq!(
            (sure.at_least, sure.low, sure.estimate),
            (Some(385), 385, 773)
        );
        // The guaranteed upper bound of 3 holds, whatever the estimates of its pairs are.
        let own = flow([1, 1, 3], 0, 3);
        let mut raised = Raised::new(&own);
        raised.add(&flow([1, 8, 20], 1, 20));
        let sure = raised.apply(&own).packets;
        assert_eq!((sure.at_least, sure.estimate), (Some(1), 1));
    }
}
