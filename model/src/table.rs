//! The table: what a sketch is before it needs layers.
//!
//! As long as all edges fit, they are simply kept, by name, with their packets
//! and bytes: answers are exact, lists are complete, and everything can be
//! poured into a larger table or into layers without loss. An entry is a name
//! and 16 bytes: 24 for a pair of IPv4 addresses, 48 for IPv6.
//!
//! Entries stand in the order of their tags, 32 bits of the id, each as near
//! behind its home as there is room. A search ends at the first larger tag, no
//! more than 255 entries from home, whatever the ids are: an entry that
//! would end up farther away makes the table full. With ids that look random
//! that never happens before 9 in 10 of the places are taken.

use crate::name::{Name, Narrow, Wide};

/// Share of the places that may be taken; beyond it searching becomes slow.
const MOST_TAKEN: f64 = 0.9;

/// How far from its home an entry may be.
const FARTHEST: usize = 255;

/// Bits of packets and of bytes in an entry.
const BITS: u32 = 48;
const LIMIT: u64 = (1 << BITS) - 1;

/// Packets and bytes of an edge, all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Total {
    /// Packets; 0 for an edge that never occurred.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry<N> {
    name: N,
    /// Tag, and the lower half of the packets.
    tag: u64,
    /// The rest of the packets, and the bytes.
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

/// Edges with names of one kind. See the head of this module.
pub struct Table<N> {
    entries: Vec<Entry<N>>,
    /// Homes are among the first so many; those behind are for what has no
    /// room at its home.
    homes: usize,
    taken: usize,
}

impl<N: Name> Table<N> {
    /// Bytes of an entry.
    pub const ENTRY: usize = size_of::<Entry<N>>();

    /// As many places as fit into `bytes`.
    pub fn new(bytes: usize) -> Self {
        let places = bytes / Self::ENTRY;
        Self {
            entries: vec![Entry::default(); places],
            homes: places - (places / 16).clamp(8, FARTHEST).min(places),
            taken: 0,
        }
    }

    /// Where the entry of a tag would be if nobody else were there.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.homes as u64) >> 32) as usize
    }

    /// The entry of a name, or else where it belongs.
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

    /// What a name has had.
    pub fn get(&self, name: &N, tag: u32) -> Total {
        match self.find(name, tag) {
            Ok(at) => self.entries[at].total(),
            Err(_) => Total::default(),
        }
    }

    /// Adds to a name; false if there is no room for it.
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

    /// Puts a new entry in, everyone behind it moves on by a place.
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

    /// The same entries in a table of `bytes`; none if they do not fit.
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

    /// Places, taken or not.
    pub fn places(&self) -> usize {
        self.entries.len()
    }

    /// All names with their tags and totals, in the order of tags.
    pub fn entries(&self) -> impl Iterator<Item = (N, u32, Total)> {
        let taken = self.entries.iter().filter(|entry| !entry.is_free());
        taken.map(|entry| (entry.name, entry.tag(), entry.total()))
    }

    /// What it weighs.
    pub fn memory_bytes(&self) -> usize {
        self.entries.len() * Self::ENTRY
    }
}

/// Names of both kinds, each in a table of its own.
pub struct Tables {
    narrow: Table<Narrow>,
    wide: Table<Wide>,
}

/// A name that tables keep.
pub trait Kept: Name {
    /// The table of names of this kind.
    fn of_kind(tables: &Tables) -> &Table<Self>;
    /// The table of names of this kind.
    fn of_kind_mut(tables: &mut Tables) -> &mut Table<Self>;
}

impl Kept for Narrow {
    fn of_kind(tables: &Tables) -> &Table<Self> {
        &tables.narrow
    }

    fn of_kind_mut(tables: &mut Tables) -> &mut Table<Self> {
        &mut tables.narrow
    }
}

impl Kept for Wide {
    fn of_kind(tables: &Tables) -> &Table<Self> {
        &tables.wide
    }

    fn of_kind_mut(tables: &mut Tables) -> &mut Table<Self> {
        &mut tables.wide
    }
}

/// Bytes that the first long names get: few sketches have any.
const FIRST_WIDE: usize = 1536;

impl Tables {
    /// Room for short names in `bytes`, none yet for long ones.
    pub fn new(bytes: usize) -> Self {
        Self {
            narrow: Table::new(bytes),
            wide: Table::new(0),
        }
    }

    /// Room for short names and for long ones, so many bytes each.
    pub fn with_room(narrow: usize, wide: usize) -> Self {
        Self {
            narrow: Table::new(narrow),
            wide: Table::new(wide),
        }
    }

    /// The table of names of this kind.
    pub fn of<N: Kept>(&self) -> &Table<N> {
        N::of_kind(self)
    }

    /// The table of names of this kind.
    pub fn of_mut<N: Kept>(&mut self) -> &mut Table<N> {
        N::of_kind_mut(self)
    }

    /// What both would weigh if the table of names of this kind were twice as
    /// large, within `most`; none if that is not enough larger to be worth it.
    pub fn doubled<N: Kept>(&self, most: usize) -> Option<usize> {
        let (own, all) = (self.of::<N>().memory_bytes(), self.memory_bytes());
        let more = own.max(FIRST_WIDE).min(most.saturating_sub(all));
        (more >= own / 8 && more >= FIRST_WIDE).then_some(all + more)
    }

    /// Makes the table of names of this kind so much larger that both weigh
    /// `bytes`; false, and nothing changes, if its entries do not fit then.
    pub fn resize<N: Kept>(&mut self, bytes: usize) -> bool {
        let others = self.memory_bytes() - self.of::<N>().memory_bytes();
        let larger = self.of::<N>().resized(bytes.saturating_sub(others));
        larger.map(|larger| *self.of_mut() = larger).is_some()
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.narrow.len() + self.wide.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many names there is room for.
    pub fn places(&self) -> usize {
        self.narrow.places() + self.wide.places()
    }

    /// Share of the places that are taken.
    pub fn fill(&self) -> f32 {
        self.len() as f32 / self.places().max(1) as f32
    }

    /// What both weigh.
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
    fn equal_tags_are_told_apart_by_name_and_searching_is_bounded() {
        let mut table = Table::<Narrow>::new(24 * 100_000);
        let stored = (0..1000).take_while(|n| table.add([*n], 77, 1, 1)).count();
        assert_eq!(
            stored,
            FARTHEST + 1,
            "more would have to stand too far away"
        );
        for n in 0..stored as u64 {
            assert_eq!(table.get(&[n], 77).packets, 1);
        }
        assert_eq!(table.get(&[5000], 77).packets, 0);
        // A neighbour would push the last of them too far.
        assert!(!table.add([9000], 76, 1, 1));
        assert!(table.add([9000], 1 << 30, 1, 1));
    }

    #[test]
    fn what_an_entry_cannot_hold_is_refused_and_changes_nothing() {
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
    fn an_entry_weighs_24_bytes_or_48() {
        assert_eq!((Table::<Narrow>::ENTRY, Table::<Wide>::ENTRY), (24, 48));
    }
}
