//! Answers from crown and layers.
//!
//! An edge with an entry in the crown is answered from there, every other edge from the
//! layers. The exact count of a witness replaces either answer. The exception is a public
//! secret: with such a secret two edges with the same id can be made, and the witness
//! then counts the packets of both, so its count is only an upper bound.

use super::Layered;
use crate::Result;
use crate::answer::{Amount, Flow};
use crate::crown::{Count, MOST_BYTES};
use crate::layers::{BoundsKind, LayerEstimate};
use crate::name::Name;
use crate::sizes::LearntSizes;
use crate::witnesses::UncrownedWitnesses;

impl Layered {
    /// Packets and bytes of each of these edges.
    pub(super) fn flows<N: Name>(&self, names: &[N]) -> Result<Vec<Flow<N>>> {
        let found: Vec<_> = names.iter().map(|name| self.lookup(name)).collect();
        let below = found.iter().filter(|(_, count)| count.is_none());
        let below: Vec<u64> = below.map(|(id, _)| *id).collect();
        let mut estimates = self.estimates(&below)?.into_iter();
        let sizes = self.learnt_sizes()?;
        let answers = names.iter().zip(found);
        Ok(answers
            .map(|(name, (id, count))| {
                let flow = match count {
                    Some(count) => self.flow_from_crown(*name, &count),
                    None => {
                        self.flow_from_layers(*name, &estimates.next().unwrap_or_default(), sizes)
                    }
                };
                self.with_witness(flow, id)
            })
            .collect())
    }

    /// Replaces an answer by the count of the witness with this id, if there is one.
    /// Under a public secret that count is the estimate and a guaranteed upper bound, but
    /// not a guaranteed lower bound.
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

    /// If the edges of the stream have few different counts, the one between `counted`
    /// and `bound`. The layers are used only if a witness has such a count, because they
    /// then read all cells. Witnesses are hardly ever as heavy as edges of the crown.
    fn known_count(&self, counted: u64, bound: u64) -> Result<Option<u64>> {
        let counts = self.witness_counts.get_or_init(|| {
            let usable = self.witnesses.usable().iter();
            let mut counts: Vec<u64> = usable.map(|witness| witness.packets).collect();
            counts.sort_unstable();
            counts
        });
        let from = counts.partition_point(|count| *count < counted);
        if counts.get(from).is_none_or(|count| *count > bound) {
            return Ok(None);
        }
        self.layers.known_count(bound, &|| self.uncrowned())
    }

    pub(super) fn estimates(&self, ids: &[u64]) -> Result<Vec<LayerEstimate>> {
        self.layers.estimates(ids, &|| self.uncrowned())
    }

    /// Packet sizes of the edges in the layers, learnt from the witnesses.
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

    /// The answer of the crown. The packets counted since the admission are exact, those
    /// before are estimated.
    fn flow_from_crown<K>(&self, key: K, count: &Count) -> Flow<K> {
        let (counted, bound) = (count.counted(), count.bound());
        let earlier_at_most = bound - counted;
        let earlier_low = earlier_at_most.saturating_sub(self.layers.noise(earlier_at_most).high);
        let ends = self.guaranteed(counted, (bound < u64::MAX).then_some(bound));
        let known = match earlier_at_most {
            0 => None,
            // If this fails, the estimate made on admission is used.
            _ => self.known_count(counted, bound).unwrap_or_default(),
        };
        let estimate = known.unwrap_or(count.packets);
        let likely = [(counted + earlier_low).min(estimate), estimate, bound];
        let packets = Amount::within(ends, likely);

        // Packets before the admission are assumed to be as large as those counted since.
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

    /// The answer of the layers. They do not count bytes; these follow from the packets
    /// and the learnt packet sizes.
    fn flow_from_layers<K>(&self, key: K, likely: &LayerEstimate, sizes: &LearntSizes) -> Flow<K> {
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

    /// Guaranteed bounds. Both are `None` if the layers guarantee nothing.
    fn guaranteed(&self, least: u64, most: Option<u64>) -> (Option<u64>, Option<u64>) {
        match self.layers.bounds_kind() {
            BoundsKind::Guaranteed => (Some(least), most),
            BoundsKind::Likely => (None, None),
        }
    }

    /// The upper bound of each of these edges.
    pub(super) fn bounds<N: Name>(&self, names: &[N]) -> Result<Vec<u64>> {
        let found: Vec<_> = names.iter().map(|name| self.lookup(name)).collect();
        let below = found.iter().filter(|(_, count)| count.is_none());
        let below: Vec<u64> = below.map(|(id, _)| *id).collect();
        let mut bounds = self.layers.bounds(&below)?.into_iter();
        let bound = |(_, count): (u64, Option<Count>)| match count {
            Some(count) => count.bound(),
            None => bounds.next().unwrap_or_default(),
        };
        Ok(found.into_iter().map(bound).collect())
    }

    /// The id of an edge, and its count if it has an entry in the crown.
    pub(crate) fn lookup<N: Name>(&self, name: &N) -> (u64, Option<Count>) {
        let id = self.codes.id(name);
        (id, self.crown.get(self.codes.spot(id), name))
    }

    /// All edges of the crown with a name of this length.
    pub(super) fn named<N: Name>(&self) -> impl Iterator<Item = Flow<N>> {
        let entries = self.crown.entries();
        entries.filter_map(|(name, count)| {
            let flow = self.flow_from_crown(N::of(name)?, &count);
            Some(self.with_witness(flow, self.codes.id_of_any(&name)))
        })
    }

    /// The names of this length in the crown.
    pub(super) fn names<N: Name>(&self) -> impl Iterator<Item = N> {
        self.crown.entries().filter_map(|(name, _)| N::of(name))
    }

    /// The witnesses that have no entry in the crown.
    pub(crate) fn uncrowned(&self) -> UncrownedWitnesses {
        let crowned = self.crown.entries();
        let crowned = crowned.map(|(name, _)| self.codes.id_of_any(&name));
        let mut crowned: Vec<u64> = crowned.filter(|id| *id < self.witnesses.limit()).collect();
        crowned.sort_unstable();
        let usable = self.witnesses.usable().iter();
        let below = usable.filter(|witness| crowned.binary_search(&witness.id).is_err());
        UncrownedWitnesses {
            witnesses: below.copied().collect(),
            distinct: self.witnesses.distinct(),
        }
    }
}
