//! The crown: a small keyed table of the heaviest edges, counted exactly.
//!
//! Buckets of eight slots; a key lives in the bucket its hash names, and only
//! the lightest slot of that bucket ever has to make room. Finding, counting
//! and admitting look at one bucket: O(8), no heap, no second index, and the
//! table weighs just `slots × size_of::<Slot>()`.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;

/// Slots of a bucket.
const WAYS: usize = 8;

/// Bytes that weigh as much as one packet when the lightest entry is sought,
/// so that an edge of few large packets can stay beside one of many small.
const BYTES_PER_PACKET: u64 = 512;

/// What is known of an edge in the crown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets counted exactly since the edge was admitted.
    pub packets: u64,
    /// Bytes counted exactly since then.
    pub bytes: u64,
    /// Packets it is believed to have had before that.
    pub earlier_packets: u64,
    /// Bytes it is believed to have had before that.
    pub earlier_bytes: u64,
    /// Packets it can have had before that at most.
    pub earlier_limit: u64,
}

impl Count {
    /// A count that is known from the first packet on.
    pub fn exact(packets: u64, bytes: u64) -> Self {
        Self {
            packets,
            bytes,
            ..Self::default()
        }
    }

    /// Best estimate of all its packets.
    pub fn total_packets(&self) -> u64 {
        self.packets.saturating_add(self.earlier_packets)
    }

    /// Best estimate of all its bytes.
    pub fn total_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.earlier_bytes)
    }

    /// How much it counts when the lightest entry has to go.
    pub fn rank(&self) -> u64 {
        self.total_packets()
            .max(self.total_bytes() / BYTES_PER_PACKET)
    }
}

/// An edge of the crown with its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot<K> {
    /// The edge, by its real name.
    pub key: K,
    /// What is known of it.
    pub count: Count,
}

/// The table. See the head of this module.
pub struct Crown<K> {
    hasher: FixedState,
    slots: Vec<Option<Slot<K>>>,
}

impl<K: Copy + Eq + Hash> Crown<K> {
    /// A table of at least `slots` slots, rounded up to whole buckets.
    pub fn new(slots: usize, seed: u64) -> Self {
        let slots = slots.max(1).next_multiple_of(WAYS);
        Self {
            hasher: FixedState::with_seed(seed),
            slots: vec![None; slots],
        }
    }

    fn bucket(&self, key: &K) -> usize {
        let buckets = (self.slots.len() / WAYS) as u128;
        let hash = u128::from(self.hasher.hash_one(key));
        // The high part of a 64 × 64 bit product maps a hash to a bucket evenly.
        ((hash * buckets) >> 64) as usize * WAYS
    }

    fn ways(&mut self, key: &K) -> &mut [Option<Slot<K>>] {
        let at = self.bucket(key);
        &mut self.slots[at..at + WAYS]
    }

    /// Counts an arrival if the edge is here or there is room for it.
    pub fn count(&mut self, key: K, packets: u64, bytes: u64) -> bool {
        let ways = self.ways(&key);
        if let Some(slot) = ways.iter_mut().flatten().find(|slot| slot.key == key) {
            slot.count.packets = slot.count.packets.saturating_add(packets);
            slot.count.bytes = slot.count.bytes.saturating_add(bytes);
            return true;
        }
        match ways.iter_mut().find(|way| way.is_none()) {
            Some(free) => {
                *free = Some(Slot {
                    key,
                    count: Count::exact(packets, bytes),
                });
                true
            }
            None => false,
        }
    }

    /// The lightest count in the bucket of `key`: who is admitted takes its
    /// place, and has to outrank it.
    pub fn lightest(&self, key: &K) -> Count {
        let at = self.bucket(key);
        let counts = self.slots[at..at + WAYS]
            .iter()
            .map(|way| way.map_or_else(Count::default, |slot| slot.count));
        counts.min_by_key(Count::rank).unwrap_or_default()
    }

    /// Admits an edge and returns the one that had to go.
    pub fn admit(&mut self, key: K, count: Count) -> Option<Slot<K>> {
        let rank = |way: &Option<Slot<K>>| way.map_or(0, |slot| slot.count.rank());
        let lightest = self.ways(&key).iter_mut().min_by_key(|way| rank(way))?;
        lightest.replace(Slot { key, count })
    }

    /// The count of an edge, if it is here.
    pub fn get(&self, key: &K) -> Option<&Count> {
        let at = self.bucket(key);
        let mut ways = self.slots[at..at + WAYS].iter().flatten();
        ways.find(|slot| slot.key == *key).map(|slot| &slot.count)
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = &Slot<K>> {
        self.slots.iter().flatten()
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.slots.fill(None);
    }

    /// What the table weighs.
    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<Option<Slot<K>>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lightest_goes_and_the_rest_is_exact() {
        let mut crown = Crown::new(8, 0);
        for key in 0..8u32 {
            assert!(crown.count(key, 10 + u64::from(key), 100));
        }
        assert!(crown.count(3, 1, 1));
        assert!(!crown.count(99, 1, 1), "no room left");
        assert_eq!(crown.lightest(&99).packets, 10);
        let gone = crown.admit(99, Count::exact(50, 60)).unwrap();
        assert_eq!((gone.key, gone.count.packets), (0, 10));
        assert_eq!(crown.get(&3), Some(&Count::exact(14, 101)));
        assert_eq!(crown.get(&0), None);
        assert_eq!(crown.entries().count(), 8);
    }

    #[test]
    fn few_large_packets_weigh_as_much_as_many_small() {
        let large = Count::exact(10, 10 * 64_000);
        let small = Count::exact(1000, 40_000);
        assert!(large.rank() > small.rank());
    }
}
