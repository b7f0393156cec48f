//! The crown: a small keyed table of the heaviest edges, counted exactly.
//!
//! Buckets of eight entries; a key lives in the bucket its id names, and only
//! the lightest entry of that bucket ever has to make room. Finding, counting
//! and admitting look at one bucket: O(8), no heap, no second index. An entry
//! is a key and 16 bytes: 24 for a pair of IPv4 addresses, 48 for IPv6.

use std::num::NonZeroU64;

/// Entries of a bucket.
pub const WAYS: usize = 8;

/// Bytes that weigh as much as one packet when the lightest entry is sought,
/// so that an edge of few large packets can stay beside one of many small.
pub const BYTES_PER_PACKET: u64 = 512;

/// What is known of an edge in the crown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Its packets: those counted since it was admitted, which are exact, and
    /// those it is believed to have had before.
    pub packets: u64,
    /// Its bytes, in the same way.
    pub bytes: u64,
    /// How far the packets may be off, because of what was before.
    pub slack: u64,
}

impl Count {
    /// A count that is known from the first packet on.
    pub fn exact(packets: u64, bytes: u64) -> Self {
        Self {
            packets,
            bytes,
            slack: 0,
        }
    }

    /// How much it counts when the lightest entry has to go.
    pub fn rank(&self) -> u64 {
        self.packets.max(self.bytes / BYTES_PER_PACKET)
    }
}

/// Bits of an entry that hold its packets; the slack takes the rest.
const PACKET_BITS: u32 = 56;
const MOST_PACKETS: u64 = (1 << PACKET_BITS) - 1;

#[derive(Debug, Clone, Copy)]
struct Entry<K> {
    key: K,
    /// Code of the slack, and packets; never 0, so that an empty place weighs
    /// nothing more.
    packets: NonZeroU64,
    bytes: u64,
}

impl<K> Entry<K> {
    fn count(&self) -> Count {
        let packed = self.packets.get();
        Count {
            packets: packed & MOST_PACKETS,
            bytes: self.bytes,
            slack: slack(packed >> PACKET_BITS),
        }
    }

    fn rank(&self) -> u64 {
        let packets = self.packets.get() & MOST_PACKETS;
        packets.max(self.bytes / BYTES_PER_PACKET)
    }

    fn add(&mut self, packets: u64, bytes: u64) {
        let slack = self.packets.get() & !MOST_PACKETS;
        let held = self.packets.get() & MOST_PACKETS;
        let sum = held.saturating_add(packets).min(MOST_PACKETS);
        self.packets = NonZeroU64::new(slack | sum).unwrap_or(self.packets);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

fn packed(count: Count) -> NonZeroU64 {
    let packets = count.packets.clamp(1, MOST_PACKETS);
    let packed = packets | slack_code(count.slack) << PACKET_BITS;
    NonZeroU64::new(packed).unwrap_or(NonZeroU64::MIN)
}

/// Slacks up to 15 as they are, larger ones rounded up to four binary digits.
fn slack_code(slack: u64) -> u64 {
    if slack < 16 {
        return slack;
    }
    let mut shift = u64::from(60 - slack.leading_zeros());
    let mut digits = slack.div_ceil(1 << shift);
    if digits == 16 {
        (shift, digits) = (shift + 1, 8);
    }
    (16 + (shift - 1) * 8 + digits - 8).min(255)
}

fn slack(code: u64) -> u64 {
    match code.checked_sub(16) {
        None => code,
        Some(above) => (8 + above % 8) << (above / 8 + 1),
    }
}

/// Which of so many buckets an id has. Ids that are alike in their first bits,
/// as witnesses are, spread as well.
fn place(id: u64, buckets: usize) -> usize {
    let at = crate::packed::codes::fold(id, 0xd6e8_feb8_6659_fd93);
    ((u128::from(at) * buckets as u128) >> 64) as usize
}

/// The table. See the head of this module.
pub struct Crown<K> {
    entries: Vec<Option<Entry<K>>>,
}

impl<K: Copy + Eq> Crown<K> {
    /// Bytes of an entry.
    pub const ENTRY: usize = size_of::<Option<Entry<K>>>();

    /// Packets and slack of a count in 64 bits.
    pub fn packed(count: &Count) -> u64 {
        packed(*count).get()
    }

    /// The count, without its bytes, that was packed.
    pub fn unpacked(packed: u64) -> Count {
        Count {
            packets: packed & MOST_PACKETS,
            bytes: 0,
            slack: slack(packed >> PACKET_BITS),
        }
    }

    /// A table of at least `entries` entries, rounded up to whole buckets.
    pub fn new(entries: usize) -> Self {
        Self {
            entries: vec![None; entries.max(1).next_multiple_of(WAYS)],
        }
    }

    /// The bucket of an id. A number of ways that the compiler knows makes
    /// straight code of what looks at all of them.
    fn bucket(&self, id: u64) -> &[Option<Entry<K>>; WAYS] {
        let buckets = self.entries.as_chunks().0;
        &buckets[place(id, buckets.len())]
    }

    fn bucket_mut(&mut self, id: u64) -> &mut [Option<Entry<K>>; WAYS] {
        let buckets = self.entries.as_chunks_mut().0;
        let at = place(id, buckets.len());
        &mut buckets[at]
    }

    /// Counts an arrival if the edge is here, and says whether it is.
    pub fn count(&mut self, id: u64, key: K, packets: u64, bytes: u64) -> bool {
        for entry in self.bucket_mut(id).iter_mut().flatten() {
            if entry.key == key {
                entry.add(packets, bytes);
                return true;
            }
        }
        false
    }

    /// No entry ranks below this, 0 while there is room: it only ever rises,
    /// and most edges are far below it.
    pub fn floor(&self) -> u64 {
        let ranks = self.entries.iter();
        let ranks = ranks.map(|way| way.map_or(0, |entry| entry.rank()));
        ranks.min().unwrap_or(0)
    }

    /// The lightest count in the bucket of `id`, 0 while there is room.
    pub fn lightest(&self, id: u64) -> Count {
        let ways = self.bucket(id).iter();
        let lightest = ways.min_by_key(|way| way.map_or(0, |entry| entry.rank()));
        let count = lightest.and_then(|way| way.map(|entry| entry.count()));
        count.unwrap_or_default()
    }

    /// Admits an edge and returns the one that had to go.
    pub fn admit(&mut self, id: u64, key: K, count: Count) -> Option<(K, Count)> {
        let rank = |way: &Option<Entry<K>>| way.map_or(0, |entry| entry.rank());
        let ways = self.bucket_mut(id).iter_mut();
        let lightest = ways.min_by_key(|way| rank(way))?;
        let gone = lightest.replace(entry(key, count));
        gone.map(|entry| (entry.key, entry.count()))
    }

    /// The count of an edge, if it is here.
    pub fn get(&self, id: u64, key: &K) -> Option<Count> {
        let mut ways = self.bucket(id).iter().flatten();
        ways.find(|entry| entry.key == *key)
            .map(|entry| entry.count())
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (K, Count)> {
        let entries = self.entries.iter().flatten();
        entries.map(|entry| (entry.key, entry.count()))
    }

    /// Places, taken or not.
    pub fn places(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.entries.fill(None);
    }

    /// What the table weighs.
    pub fn memory_bytes(&self) -> usize {
        self.entries.len() * Self::ENTRY
    }
}

fn entry<K>(key: K, count: Count) -> Entry<K> {
    Entry {
        key,
        packets: packed(count),
        bytes: count.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lightest_goes_and_the_rest_is_exact() {
        let mut crown = Crown::new(8);
        for key in 0..8u32 {
            let count = Count::exact(10 + u64::from(key), 100);
            assert!(!crown.count(1, key, 1, 1), "it is not here yet");
            assert_eq!(crown.admit(1, key, count), None);
        }
        assert_eq!(crown.floor(), 10);
        assert!(crown.count(1, 3, 1, 1));
        assert!(!crown.count(1, 99, 1, 1));
        assert_eq!(crown.lightest(1), Count::exact(10, 100));
        let gone = crown.admit(1, 99, Count::exact(50, 60)).unwrap();
        assert_eq!(gone, (0, Count::exact(10, 100)));
        assert_eq!(crown.get(1, &3), Some(Count::exact(14, 101)));
        assert_eq!(crown.get(1, &0), None);
        assert_eq!(crown.entries().count(), 8);
    }

    #[test]
    fn an_entry_of_two_ipv4_addresses_weighs_24_bytes() {
        assert_eq!(Crown::<crate::Edge>::ENTRY, 24);
        assert_eq!(Crown::<[[u8; 16]; 2]>::ENTRY, 48);
    }

    #[test]
    fn few_large_packets_weigh_as_much_as_many_small() {
        let large = Count::exact(10, 10 * 64_000);
        let small = Count::exact(1000, 40_000);
        assert!(large.rank() > small.rank());
    }

    #[test]
    fn counts_beyond_32_bits_and_their_slack_are_kept() {
        let mut crown = Crown::new(8);
        for slack in [0, 1, 15, 16, 17, 31, 100, 1000, 123_456, 1 << 33] {
            let count = Count {
                packets: 1 << 40,
                bytes: u64::MAX,
                slack,
            };
            crown.clear();
            crown.admit(1, 'k', count);
            let kept = crown.get(1, &'k').unwrap();
            assert_eq!((kept.packets, kept.bytes), (1 << 40, u64::MAX));
            assert!(
                kept.slack >= slack && kept.slack <= slack + slack / 8,
                "{slack}"
            );
        }
        crown.count(1, 'k', u64::MAX, u64::MAX);
        assert_eq!(
            crown.get(1, &'k').unwrap().packets,
            MOST_PACKETS,
            "never wraps"
        );
    }
}
