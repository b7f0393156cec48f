//! Sums over any set of edges, for instance all edges from one network to another. The
//! set need not be known when the packets are stored.
//!
//! Every stored packet is represented in one of two ways. The entries of the crown have
//! counted their packets since their admission; all other packets were offered to the
//! sample, either when they arrived or when the entry that had counted them was evicted.
//! A sum is therefore the exact count of the matching entries plus a share of all
//! remaining packets, which the sample estimates without bias. The estimated packets of
//! entries before their admission are not needed. The guaranteed lower bound is what the
//! matching entries have counted; the guaranteed upper bound is everything except what
//! the other entries have counted.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::{Crane, Layered, Store};
use crate::answer::{Amount, Flow};
use crate::crown::Count;
use crate::name::{AnyName, Narrow, Wide};
use crate::sample::{Parts, Sample, different};
use crate::table::{TableKey, Tables, Total};

impl Total {
    fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_add(other.packets),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(other.packets),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

impl Crane {
    /// All packets and bytes stored so far.
    pub fn total(&self) -> Flow<()> {
        let total = match &self.store {
            Store::Tables(tables) => all_of(tables, &|_| true),
            Store::Layered(layered) => layered.total,
        };
        Flow::exact((), total)
    }

    /// Packets and bytes of all edges for whose names `matches` returns true. Exact while
    /// the sketch is a table; afterwards estimated from the [sample](Self::with_sample).
    pub fn sum(&self, matches: &dyn Fn(AnyName) -> bool) -> Flow<()> {
        match &self.store {
            Store::Tables(tables) => Flow::exact((), all_of(tables, matches)),
            Store::Layered(layered) => {
                let groups = |name| [matches(name).then_some(()), None];
                layered.sums(&groups).of(())
            }
        }
    }

    /// Packets and bytes of groups of edges, in one pass. An edge counts in each of the
    /// groups that `groups` returns for its name, once if they are the same. Each flow is
    /// what [`sum`](Self::sum) returns for its group. The total is an upper bound for every
    /// group that is not among them.
    pub fn sums<G: Copy + Eq + Hash>(
        &self,
        groups: &dyn Fn(AnyName) -> [Option<G>; 2],
    ) -> (Vec<Flow<G>>, Total) {
        match &self.store {
            Store::Tables(tables) => {
                let mut sums = HashMap::new();
                add_entries::<Narrow, G>(tables, groups, &mut sums);
                add_entries::<Wide, G>(tables, groups, &mut sums);
                let flows = sums.into_iter();
                let flows = flows.map(|(group, total)| Flow::exact(group, total));
                (flows.collect(), Total::default())
            }
            Store::Layered(layered) => {
                let sums = layered.sums(groups);
                let counted = sums.known.keys().copied();
                let sampled = sums.sampled.groups();
                let all: HashSet<G> = counted.chain(sampled).collect();
                let flows = all.into_iter().map(|group| sums.of(group));
                (flows.collect(), sums.rest)
            }
        }
    }
}

fn all_of(tables: &Tables, matches: &dyn Fn(AnyName) -> bool) -> Total {
    sum_of::<Narrow>(tables, matches).plus(sum_of::<Wide>(tables, matches))
}

fn sum_of<N: TableKey>(tables: &Tables, matches: &dyn Fn(AnyName) -> bool) -> Total {
    let entries = tables.of::<N>().entries();
    let entries = entries.filter(|(name, _, _)| matches(name.any()));
    entries.fold(Total::default(), |sum, (_, _, total)| sum.plus(total))
}

fn add_entries<N: TableKey, G: Copy + Eq + Hash>(
    tables: &Tables,
    groups: &dyn Fn(AnyName) -> [Option<G>; 2],
    sums: &mut HashMap<G, Total>,
) {
    for (name, _, total) in tables.of::<N>().entries() {
        for group in different(groups(name.any())) {
            let sum = sums.entry(group).or_default();
            *sum = sum.plus(total);
        }
    }
}

/// Sums of groups of edges, from the crown and the sample.
struct GroupSums<G> {
    /// Packets and bytes counted by entries of the crown, by group.
    known: HashMap<G, Total>,
    /// Packets and bytes that no entry has counted, of all edges.
    rest: Total,
    /// How `rest` is divided among groups in the sample.
    sampled: Parts<G>,
}

impl<G: Copy + Eq + Hash> GroupSums<G> {
    fn of(&self, group: G) -> Flow<G> {
        let known = self.known.get(&group).copied().unwrap_or_default();
        let (packets, bytes) = self.sampled.estimate(group);
        let amount = |known: u64, rest: u64, likely: [u64; 3]| {
            let ends = (Some(known), Some(known.saturating_add(rest)));
            Amount::within(ends, likely.map(|part| known.saturating_add(part)))
        };
        Flow {
            key: group,
            packets: amount(known.packets, self.rest.packets, packets),
            bytes: amount(known.bytes, self.rest.bytes, bytes),
        }
    }
}

impl Layered {
    fn sums<G: Copy + Eq + Hash>(
        &self,
        groups: &dyn Fn(AnyName) -> [Option<G>; 2],
    ) -> GroupSums<G> {
        let counted = |count: &Count| Total {
            packets: count.counted(),
            bytes: count.bytes,
        };
        let (mut known, mut rest) = (HashMap::<G, Total>::new(), self.total);
        for (name, count) in self.crown.entries() {
            rest = rest.minus(counted(&count));
            for group in different(groups(name)) {
                let sum = known.entry(group).or_default();
                *sum = sum.plus(counted(&count));
            }
        }
        let none = Sample::new(0, 0);
        let sample = self.sample.as_ref().unwrap_or(&none);
        GroupSums {
            sampled: sample.parts(groups, rest),
            known,
            rest,
        }
    }
}
