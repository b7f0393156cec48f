//! Sums over edges that nobody thought of before: all from one network to
//! another.
//!
//! Every packet that was stored is known in one of two ways. Entries of the crown
//! have counted theirs since they were admitted; all others were offered to the
//! sample when they came, or when the entry that had counted them had to go. So
//! a sum is what entries have counted, exactly, and a part of all the rest, which
//! the sample estimates without bias; what crown and layers believe an entry had
//! before is not needed. No less than what entries inside have counted, and no
//! more than everything but what entries outside have, is certain.

use super::{Crane, Layered, Store};
use crate::answer::{Amount, Flow};
use crate::crown::Count;
use crate::name::{AnyName, Narrow, Wide};
use crate::sample::Sample;
use crate::table::{Kept, Tables, Total};

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
    /// All that was stored.
    pub fn total(&self) -> Flow<()> {
        let total = match &self.store {
            Store::Tables(tables) => all_of(tables, &|_| true),
            Store::Layered(layered) => layered.total,
        };
        Flow::exact((), total)
    }

    /// What all edges have had together whose names are `inside`; exact while all
    /// of them are known, and an estimate by a [sample](Self::with_sample)
    /// afterwards.
    pub fn sum(&self, inside: &dyn Fn(AnyName) -> bool) -> Flow<()> {
        match &self.store {
            Store::Tables(tables) => Flow::exact((), all_of(tables, inside)),
            Store::Layered(layered) => layered.sum(inside),
        }
    }
}

fn all_of(tables: &Tables, inside: &dyn Fn(AnyName) -> bool) -> Total {
    sum_of::<Narrow>(tables, inside).plus(sum_of::<Wide>(tables, inside))
}

fn sum_of<N: Kept>(tables: &Tables, inside: &dyn Fn(AnyName) -> bool) -> Total {
    let entries = tables.of::<N>().entries();
    let entries = entries.filter(|(name, _, _)| inside(name.any()));
    entries.fold(Total::default(), |sum, (_, _, total)| sum.plus(total))
}

impl Layered {
    fn sum(&self, inside: &dyn Fn(AnyName) -> bool) -> Flow<()> {
        let counted = |count: &Count| Total {
            packets: count.counted(),
            bytes: count.bytes,
        };
        let (mut known, mut rest) = (Total::default(), self.total);
        for (name, count) in self.crown.entries() {
            rest = rest.minus(counted(&count));
            if inside(name) {
                known = known.plus(counted(&count));
            }
        }
        let none = Sample::new(0, 0);
        let sample = self.sample.as_ref().unwrap_or(&none);
        let (packets, bytes) = sample.inside(inside, rest);
        let amount = |known: u64, rest: u64, likely: [u64; 3]| {
            let ends = (Some(known), Some(known.saturating_add(rest)));
            Amount::within(ends, likely.map(|part| known.saturating_add(part)))
        };
        Flow {
            key: (),
            packets: amount(known.packets, rest.packets, packets),
            bytes: amount(known.bytes, rest.bytes, bytes),
        }
    }
}
