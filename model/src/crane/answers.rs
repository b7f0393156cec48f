//! Answers of crown and layers. The crown counts by itself; only who is not
//! there is looked for in the layers. Witnesses are known exactly, wherever
//! they are, unless anyone may know the secret: then two edges can have been made
//! to have one id, and a witness has counted the packets of both.

use super::Layered;
use crate::Result;
use crate::answer::{Amount, Flow};
use crate::crown::{Count, MOST_BYTES};
use crate::layers::{Bounds, Likely};
use crate::name::Name;
use crate::sizes::LearntSizes;
use crate::witnesses::UncrownedWitnesses;

impl Layered {
    /// What is known of each of these edges.
    pub(super) fn flows<N: Name>(&self, names: &[N]) -> Result<Vec<Flow<N>>> {
        let places: Vec<_> = names.iter().map(|name| self.place(name)).collect();
        let below = places.iter().filter(|(_, count)| count.is_none());
        let below: Vec<u64> = below.map(|(id, _)| *id).collect();
        let mut estimates = self.estimates(&below)?.into_iter();
        let sizes = self.learnt_sizes()?;
        let answers = names.iter().zip(places);
        Ok(answers
            .map(|(name, (id, count))| {
                let flow = match count {
                    Some(count) => self.of_crown(*name, &count),
                    None => self.of_layers(*name, &estimates.next().unwrap_or_default(), sizes),
                };
                self.with_witness(flow, id)
            })
            .collect())
    }

    /// The same with what a witness says of the edge, if it is one. Under a public
    /// secret the witness is believed, but it guarantees only that the edge has had
    /// no more.
    fn with_witness<K>(&self, flow: Flow<K>, id: u64) -> Flow<K> {
        let Some(total) = self.witnesses.total(id) else {
            return flow;
        };
        if !self.codes.is_public() {
            return Flow::exact(flow.key, total);
        }
        let amount = |known: Amount, total: u64| {
            let at_most = known.at_most.map_or(total, |most| most.min(total));
            Amount::within((known.at_least, Some(at_most)), [total; 3])
        };
        Flow {
            packets: amount(flow.packets, total.packets),
            bytes: amount(flow.bytes, total.bytes),
            key: flow.key,
        }
    }

    /// The count between these that edges have, where all have one of few. Asked
    /// of the layers only if a witness has such a one: hardly any is as heavy as
    /// the crown, and to ask takes a look at all cells.
    fn known_count(&self, counted: u64, bound: u64) -> Result<Option<u64>> {
        let counts = self.witness_counts.get_or_init(|| {
            let heard = self.witnesses.heard().iter();
            let mut counts: Vec<u64> = heard.map(|witness| witness.packets).collect();
            counts.sort_unstable();
            counts
        });
        let from = counts.partition_point(|count| *count < counted);
        if counts.get(from).is_none_or(|count| *count > bound) {
            return Ok(None);
        }
        self.layers.known_count(bound, &|| self.uncrowned())
    }

    pub(super) fn estimates(&self, ids: &[u64]) -> Result<Vec<Likely>> {
        self.layers.estimates(ids, &|| self.uncrowned())
    }

    /// What packets of the layers weigh.
    fn learnt_sizes(&self) -> Result<&LearntSizes> {
        if let Some(sizes) = self.learnt_sizes.get() {
            return Ok(sizes);
        }
        let UncrownedWitnesses { witnesses, .. } = self.uncrowned();
        let ids: Vec<u64> = witnesses.iter().map(|witness| witness.id).collect();
        let estimates = self.estimates(&ids)?;
        let weighed = estimates.iter().zip(&witnesses);
        let weighed = weighed.map(|(likely, witness)| (likely.packets[1], witness.bytes));
        let sizes = LearntSizes::new(weighed.collect(), self.sizes);
        Ok(self.learnt_sizes.get_or_init(|| sizes))
    }

    /// What the crown says: what it counted is certain, what was before is not.
    fn of_crown<K>(&self, key: K, count: &Count) -> Flow<K> {
        let (counted, bound) = (count.counted(), count.bound());
        let earlier_at_most = bound - counted;
        let earlier_low = earlier_at_most.saturating_sub(self.layers.noise(earlier_at_most).high);
        let ends = self.guaranteed(counted, (bound < u64::MAX).then_some(bound));
        let known = match earlier_at_most {
            0 => None,
            // Without an answer, what was believed on admission is one.
            _ => self.known_count(counted, bound).unwrap_or_default(),
        };
        let estimate = known.unwrap_or(count.packets);
        let likely = [(counted + earlier_low).min(estimate), estimate, bound];
        let packets = Amount::within(ends, likely);

        // Packets before are taken for as large as those that were counted.
        let (smallest, largest) = (self.sizes.least.min(self.sizes.most), self.sizes.most);
        let mean = count.mean_bytes().clamp(smallest as f64, largest as f64);
        let all_counted = count.bytes < MOST_BYTES;
        let earlier_bytes = |packets: u64, size: f64| (packets as f64 * size) as u64;
        let most = ends
            .1
            .and_then(|_| earlier_at_most.checked_mul(self.sizes.most));
        let most = most.filter(|_| all_counted);
        let ends = self.guaranteed(count.bytes, most.map(|most| count.bytes + most));
        let likely = [
            earlier_bytes(packets.low - counted, smallest as f64),
            earlier_bytes(packets.estimate - counted, mean),
            earlier_bytes(earlier_at_most, largest as f64),
        ];
        let bytes = likely.map(|earlier| count.bytes.saturating_add(earlier));
        Flow {
            key,
            packets,
            bytes: Amount::within(ends, bytes),
        }
    }

    /// What layers say. Of bytes they know nothing, but what packets weigh.
    fn of_layers<K>(&self, key: K, likely: &Likely, sizes: &LearntSizes) -> Flow<K> {
        let packets = Amount::within(self.guaranteed(0, likely.at_most), likely.packets);
        let (least, most) = self.sizes.ends(0, likely.at_most);
        let size = sizes.of(packets.estimate);
        let bytes = |packets: u64, size: f64| (packets as f64 * size) as u64;
        let likely = [
            match packets.low {
                0 => 0,
                _ => bytes(packets.estimate, size.low),
            },
            bytes(packets.estimate, size.middle),
            bytes(packets.estimate.max(1), size.high),
        ];
        Flow {
            key,
            packets,
            bytes: Amount::within(self.guaranteed(least, most), likely),
        }
    }

    /// Ends that are certain, where layers guarantee any.
    fn guaranteed(&self, least: u64, most: Option<u64>) -> (Option<u64>, Option<u64>) {
        match self.layers.worth() {
            Bounds::Guaranteed => (Some(least), most),
            Bounds::Likely => (None, None),
        }
    }

    /// The upper bound of each of these edges.
    pub(super) fn bounds<N: Name>(&self, names: &[N]) -> Result<Vec<u64>> {
        let places: Vec<_> = names.iter().map(|name| self.place(name)).collect();
        let below = places.iter().filter(|(_, count)| count.is_none());
        let below: Vec<u64> = below.map(|(id, _)| *id).collect();
        let mut bounds = self.layers.bounds(&below)?.into_iter();
        let bound = |(_, count): (u64, Option<Count>)| match count {
            Some(count) => count.bound(),
            None => bounds.next().unwrap_or_default(),
        };
        Ok(places.into_iter().map(bound).collect())
    }

    /// The id of an edge, and what the crown has of it.
    pub(crate) fn place<N: Name>(&self, name: &N) -> (u64, Option<Count>) {
        let id = self.codes.id(name);
        (id, self.crown.get(self.codes.spot(id), name))
    }

    /// All edges of the crown that have a name of this kind.
    pub(super) fn named<N: Name>(&self) -> impl Iterator<Item = Flow<N>> {
        let entries = self.crown.entries();
        entries.filter_map(|(name, count)| {
            let flow = self.of_crown(N::of(name)?, &count);
            Some(self.with_witness(flow, self.codes.id_of_any(&name)))
        })
    }

    /// The names of this kind in the crown.
    pub(super) fn names<N: Name>(&self) -> impl Iterator<Item = N> {
        self.crown.entries().filter_map(|(name, _)| N::of(name))
    }

    /// The witnesses that only the layers know.
    pub(crate) fn uncrowned(&self) -> UncrownedWitnesses {
        let crowned = self.crown.entries();
        let crowned = crowned.map(|(name, _)| self.codes.id_of_any(&name));
        let mut crowned: Vec<u64> = crowned.filter(|id| *id < self.witnesses.limit()).collect();
        crowned.sort_unstable();
        let heard = self.witnesses.heard().iter();
        let below = heard.filter(|witness| crowned.binary_search(&witness.id).is_err());
        UncrownedWitnesses {
            witnesses: below.copied().collect(),
            distinct: self.witnesses.distinct(),
        }
    }
}
