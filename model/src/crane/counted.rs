//! Counters of the edges known by name, for differences between two moments.
//!
//! The answer for an edge may change although none of its packets arrive, because an
//! estimate depends on the layers. The counters of its entry change only when its packets
//! arrive, so their difference is exact as long as the edge keeps its entry.

use super::{Crane, Store};
use crate::crown::Count;
use crate::name::{AnyName, Name, Narrow, Wide};
use crate::table::Total;

/// Packets and bytes of an edge that were counted since it has been known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Packets counted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many packets it may have had before, at most. It changes only if the edge loses
    /// its entry and gets another one.
    pub unsure: u64,
}

impl Crane {
    /// All edges that are known by name, in no particular order, with their counters.
    /// Only the entries are read, not the layers.
    pub fn counted(&self) -> impl Iterator<Item = (AnyName, Counted)> {
        let (tables, layered) = match &self.store {
            Store::Tables(tables) => (Some(tables), None),
            Store::Layered(layered) => (None, Some(layered)),
        };
        let kept = tables.into_iter().flat_map(|tables| {
            let narrow = tables.of::<Narrow>().entries().map(of_table);
            narrow.chain(tables.of::<Wide>().entries().map(of_table))
        });
        let counted = |(name, count): (AnyName, Count)| {
            let counted = Counted {
                packets: count.counted(),
                bytes: count.bytes,
                unsure: count.bound().saturating_sub(count.counted()),
            };
            (name, counted)
        };
        let layered = layered.into_iter();
        kept.chain(layered.flat_map(move |layered| layered.crown.entries().map(counted)))
    }
}

/// A table counts every edge from its first packet on.
fn of_table<N: Name>((name, _, total): (N, u32, Total)) -> (AnyName, Counted) {
    let Total { packets, bytes } = total;
    let unsure = 0;
    let counted = Counted {
        packets,
        bytes,
        unsure,
    };
    (name.any(), counted)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use super::*;
    use crate::{Allowance, Arrival, DeviceChoice, PackedWeights, Profile, Secret};

    /// The table becomes layers during the test. The differences of the counters of heavy
    /// edges are exactly the packets and bytes that arrived in between.
    #[test]
    fn differences_are_exact_while_an_edge_keeps_its_entry() {
        let device = DeviceChoice::Cpu.open().unwrap();
        let weights = Arc::new(PackedWeights::built_in().unwrap());
        let profile = Arc::new(Profile::packed(weights, &device));
        let secret = Secret::from_seed(1);
        let allowance = Allowance::alone(8 << 10, 64 << 10);
        let mut sketch = Crane::new(&profile, secret, 0, allowance).unwrap();
        let mut before: HashMap<AnyName, Counted> = HashMap::new();
        let mut compared = 0;
        for round in 0..20u64 {
            let mut batch: Vec<Arrival<Narrow>> = (0..50)
                .map(|n| Arrival::new(&secret, [n], 20 + n, 100 * n))
                .collect();
            let light =
                (0..1000).map(|n| Arrival::new(&secret, [1 << 32 | round << 16 | n], 1, 60));
            batch.extend(light);
            sketch.store(&batch).unwrap();
            let now: HashMap<AnyName, Counted> = sketch.counted().collect();
            for n in 0..50u64 {
                let name = AnyName::Narrow([n]);
                let (Some(now), Some(before)) = (now.get(&name), before.get(&name)) else {
                    continue;
                };
                if now.unsure == before.unsure {
                    compared += 1;
                    assert_eq!(now.packets - before.packets, 20 + n);
                    assert_eq!(now.bytes - before.bytes, 100 * n);
                }
            }
            before = now;
        }
        assert!(!sketch.is_exact());
        assert!(compared >= 19 * 45, "{compared}");
    }
}
