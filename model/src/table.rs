//! The table: the form of a sketch while all edges fit.
//!
//! All edges are kept by name, with their packets and bytes. Answers are exact, lists are
//! complete, and the entries can be moved to a larger table or to layers without loss.
//!
//! Entries are sorted by their tags, 32 bits of the id. Each is stored at its home, a
//! position proportional to its tag, or as close behind it as there is room. A search
//! ends at the first larger tag and reads at most 255 entries, whatever the ids are: if
//! an entry would have to be farther away from its home, the table counts as full. With
//! random ids that does not happen before 90 % of the slots are in use.
//!
//! **Accuracy.** Exact. Packets and bytes count up to 2^48 − 1; a larger count makes the
//! table full. **Cost.** For n edges n / 0.9 entries: 24 bytes for a pair of IPv4
//! addresses, 48 bytes for a pair of IPv6 addresses. A search reads O(1 / (1 − load))
//! entries, an insertion moves as many as follow up to the next free slot.

use crate::name::{Name, Narrow, Wide};

/// Share of the slots that may be in use. Beyond it searching becomes slow.
const MOST_TAKEN: f64 = 0.9;

/// Largest distance of an entry from its home.
const FARTHEST: usize = 255;

/// Bits of packets and of bytes in an entry.
const BITS: u32 = 48;
const LIMIT: u64 = (1 << BITS) - 1;

/// All packets and bytes of an edge, or of several edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Total {
    /// Number of packets; 0 for an edge that never occurred.
    pub packets: u64,
    /// Number of bytes of these packets.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry<N> {
    name: N,
    /// Tag, and the lower 32 bits of the packets.
    tag: u64,
    /// The upper 16 bits of the packets, and the bytes.
    bytes: u64,
}

impl<N> Entry<N> {
    fn new(name: N, tag: u32, total: Total) -> Self {
        Self {
            name,
            tag: u64::from(tag) << 32 | total.packets & u64::from(u32::MAX),
            bytes: total.packets >> 32 << BITS | total.bytes,
        }
    }

    #[inline]
    fn tag(&self) -> u32 {
        (self.tag >> 32) as u32
    }

    #[inline]
    fn total(&self) -> Total {
        Total {
            packets: self.tag & u64::from(u32::MAX) | self.bytes >> BITS << 32,
            bytes: self.bytes & LIMIT,
        }
    }

    #[inline]
    fn is_free(&self) -> bool {
        self.total().packets == 0
    }
}

/// A table of edges with names of one length.
pub struct Table<N> {
    entries: Vec<Entry<N>>,
    /// Number of home positions. The slots behind them take entries that have no room at
    /// their home.
    homes: usize,
    taken: usize,
}

impl<N: Name> Table<N> {
    /// Bytes of an entry.
    pub const ENTRY: usize = size_of::<Entry<N>>();

    /// An empty table of `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        let slots = bytes / Self::ENTRY;
        Self {
            entries: vec![Entry::default(); slots],
            homes: slots - (slots / 16).clamp(8, FARTHEST).min(slots),
            taken: 0,
        }
    }

    /// The position of a tag if all slots were free.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.homes as u64) >> 32) as usize
    }

    /// Reads where the entry of a tag is, so that it is in the cache when it is needed.
    #[inline]
    pub fn touch(&self, tag: u32) -> u64 {
        self.entries
            .get(self.home(tag))
            .map_or(0, |entry| entry.tag)
    }

    /// The index of the entry with this name, or the index where it would be inserted.
    #[inline]
    fn find(&self, name: &N, tag: u32) -> Result<usize, usize> {
        let home = self.home(tag);
        for (at, entry) in (home..).zip(&self.entries[home..]) {
            if entry.is_free() || entry.tag() > tag {
                return Err(at);
            }
            if entry.tag() == tag && entry.name == *name {
                return Ok(at);
            }
        }
        Err(self.entries.len())
    }

    /// The total of an edge.
    pub fn get(&self, name: &N, tag: u32) -> Total {
        match self.find(name, tag) {
            Ok(at) => self.entries[at].total(),
            Err(_) => Total::default(),
        }
    }

    /// Adds to the total of an edge. Returns false, and changes nothing, if there is no
    /// room.
    pub fn add(&mut self, name: N, tag: u32, packets: u64, bytes: u64) -> bool {
        let found = self.find(&name, tag);
        let held = found.map_or(Total::default(), |at| self.entries[at].total());
        let total = Total {
            packets: held.packets.saturating_add(packets),
            bytes: held.bytes.saturating_add(bytes),
        };
        if total.packets > LIMIT || total.bytes > LIMIT {
            return false;
        }
        let entry = Entry::new(name, tag, total);
        match found {
            Ok(at) => self.entries[at] = entry,
            Err(at) => return self.insert(at, entry),
        }
        true
    }

    /// Inserts a new entry and moves the following entries by one slot. Returns false,
    /// and changes nothing, if there is no room.
    fn insert(&mut self, at: usize, entry: Entry<N>) -> bool {
        let is_full = self.taken as f64 >= MOST_TAKEN * self.entries.len() as f64;
        if is_full || at - self.home(entry.tag()).min(at) > FARTHEST {
            return false;
        }
        let behind = self.entries[at..].iter();
        let Some(moving) = behind.clone().position(Entry::is_free) else {
            return false;
        };
        let too_far = (at + 1..)
            .zip(behind.take(moving))
            .any(|(to, entry)| to - self.home(entry.tag()) > FARTHEST);
        if too_far {
            return false;
        }
        self.entries.copy_within(at..at + moving, at + 1);
        self.entries[at] = entry;
        self.taken += 1;
        true
    }

    /// The same entries in a table of `bytes` bytes. Returns `None` if they do not fit.
    pub fn resized(&self, bytes: usize) -> Option<Self> {
        let mut larger = Self::new(bytes);
        let mut free = 0;
        for entry in self.entries.iter().filter(|entry| !entry.is_free()) {
            let home = larger.home(entry.tag());
            let at = home.max(free);
            if at - home > FARTHEST || at >= larger.entries.len() {
                return None;
            }
            larger.entries[at] = *entry;
            free = at + 1;
        }
        larger.taken = self.taken;
        Some(larger)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Number of slots, in use or free.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// All names with their tags and totals, in the order of tags.
    pub fn entries(&self) -> impl Iterator<Item = (N, u32, Total)> {
        let taken = self.entries.iter().filter(|entry| !entry.is_free());
        taken.map(|entry| (entry.name, entry.tag(), entry.total()))
    }

    /// Bytes of all slots.
    pub fn memory_bytes(&self) -> usize {
        self.entries.len() * Self::ENTRY
    }
}

/// Two tables, one for each length of names.
pub struct Tables {
    narrow: Table<Narrow>,
    wide: Table<Wide>,
}

/// A name that can be stored in [`Tables`].
pub trait TableKey: Name {
    /// The table for names of this length.
    fn of_kind(tables: &Tables) -> &Table<Self>;
    /// The table for names of this length, mutable.
    fn of_kind_mut(tables: &mut Tables) -> &mut Table<Self>;
}

impl TableKey for Narrow {
    fn of_kind(tables: &Tables) -> &Table<Self> {
        &tables.narrow
    }

    fn of_kind_mut(tables: &mut Tables) -> &mut Table<Self> {
        &mut tables.narrow
    }
}

impl TableKey for Wide {
    fn of_kind(tables: &Tables) -> &Table<Self> {
        &tables.wide
    }

    fn of_kind_mut(tables: &mut Tables) -> &mut Table<Self> {
        &mut tables.wide
    }
}

/// Bytes of the first table for long names. Few sketches have any long names.
const FIRST_WIDE: usize = 1536;

impl Tables {
    /// A table of `bytes` bytes for short names, and none yet for long names.
    pub fn new(bytes: usize) -> Self {
        Self {
            narrow: Table::new(bytes),
            wide: Table::new(0),
        }
    }

    /// Tables for short and for long names of so many bytes each.
    pub fn with_bytes(narrow: usize, wide: usize) -> Self {
        Self {
            narrow: Table::new(narrow),
            wide: Table::new(wide),
        }
    }

    /// The table for names of this length.
    pub fn of<N: TableKey>(&self) -> &Table<N> {
        N::of_kind(self)
    }

    /// The table for names of this length, mutable.
    pub fn of_mut<N: TableKey>(&mut self) -> &mut Table<N> {
        N::of_kind_mut(self)
    }

    /// Bytes of both tables if the table for names of this length were twice as large,
    /// limited to `most`. Returns `None` if the limit leaves too little to be worth a
    /// move.
    pub fn doubled<N: TableKey>(&self, most: usize) -> Option<usize> {
        let (own, all) = (self.of::<N>().memory_bytes(), self.memory_bytes());
        let more = own.max(FIRST_WIDE).min(most.saturating_sub(all));
        (more >= own / 8 && more >= FIRST_WIDE).then_some(all + more)
    }

    /// Enlarges the table for names of this length so that both have `bytes` bytes.
    /// Returns false, and changes nothing, if its entries would not fit.
    pub fn resize<N: TableKey>(&mut self, bytes: usize) -> bool {
        let others = self.memory_bytes() - self.of::<N>().memory_bytes();
        let larger = self.of::<N>().resized(bytes.saturating_sub(others));
        larger.map(|larger| *self.of_mut() = larger).is_some()
    }

    /// Number of names of either length.
    pub fn len(&self) -> usize {
        self.narrow.len() + self.wide.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of slots of both tables.
    pub fn capacity(&self) -> usize {
        self.narrow.capacity() + self.wide.capacity()
    }

    /// Share of the slots that are in use.
    pub fn fill(&self) -> f32 {
        self.len() as f32 / self.capacity().max(1) as f32
    }

    /// Bytes of both tables.
    pub fn memory_bytes(&self) -> usize {
        self.narrow.memory_bytes() + self.wide.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(n: u64) -> u32 {
        (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    fn fill<N: Name>(table: &mut Table<N>, name: impl Fn(u64) -> N) -> u64 {
        (0..)
            .take_while(|n| table.add(name(*n), tag(*n), 1 + n % 7, 100 * n))
            .count() as u64
    }

    #[test]
    fn a_table_is_exact_until_it_is_full_and_then_grows() {
        let mut table = Table::<Narrow>::new(24 * 10_000);
        let stored = fill(&mut table, |n| [n]);
        assert!((8900..=9000).contains(&stored), "{stored} of 10000");
        let check = |table: &Table<Narrow>| {
            for n in 0..stored {
                let (packets, bytes) = (1 + n % 7, 100 * n);
                assert_eq!(table.get(&[n], tag(n)), Total { packets, bytes });
            }
            assert_eq!(table.get(&[stored], tag(stored)), Total::default());
            assert_eq!(table.entries().count() as u64, stored);
            let tags: Vec<u32> = table.entries().map(|(_, tag, _)| tag).collect();
            assert!(tags.is_sorted());
        };
        check(&table);
        assert!(table.add([3], tag(3), 5, 0), "known names still fit");
        assert_eq!(table.get(&[3], tag(3)).packets, 9);
        let mut larger = table.resized(24 * 20_000).unwrap();
        assert!(larger.add([stored], tag(stored), 1, 1));
        assert!(table.resized(24 * 5000).is_none());
        let mut wide = Table::<Wide>::new(48 * 1000);
        assert!(fill(&mut wide, |n| [1, n, 2, 3]) > 850);
    }

    #[test]
    fn equal_tags_are_distinguished_by_name_and_searching_is_bounded() {
        let mut table = Table::<Narrow>::new(24 * 100_000);
        let stored = (0..1000).take_while(|n| table.add([*n], 77, 1, 1)).count();
        assert_eq!(
            stored,
            FARTHEST + 1,
            "more would be too far from their home"
        );
        for n in 0..stored as u64 {
            assert_eq!(table.get(&[n], 77).packets, 1);
        }
        assert_eq!(table.get(&[5000], 77).packets, 0);
        // An entry before them would move the last one too far from its home.
        assert!(!table.add([9000], 76, 1, 1));
        assert!(table.add([9000], 1 << 30, 1, 1));
    }

    #[test]
    fn a_count_beyond_the_limit_is_refused_and_changes_nothing() {
        let mut table = Table::<Narrow>::new(2400);
        assert!(table.add([1], 1, LIMIT, LIMIT));
        let all = Total {
            packets: LIMIT,
            bytes: LIMIT,
        };
        assert_eq!(table.get(&[1], 1), all);
        assert!(!table.add([1], 1, 1, 0) && !table.add([1], 1, 0, 1));
        assert_eq!(table.get(&[1], 1), all);
    }

    #[test]
    fn an_entry_takes_24_or_48_bytes() {
        assert_eq!((Table::<Narrow>::ENTRY, Table::<Wide>::ENTRY), (24, 48));
    }
}
