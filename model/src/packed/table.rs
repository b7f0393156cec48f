//! The table: what a sketch is before it needs layers.
//!
//! As long as all edges fit, they are simply kept: 32 bits of the id and a
//! 16-bit count, 6 bytes each, in one array with linear probing. Answers are
//! exact, and the ids allow to pour everything into a larger table, or into
//! layers, without loss. Two edges in 2^32 share their 32 bits; they share
//! their cells in the layers, too.

/// Share of places that may be taken; beyond it probing becomes slow.
const MOST_TAKEN: f64 = 0.92;

/// Bytes of an entry: id and count.
const ENTRY: usize = 6;

/// The largest count an entry holds.
const LIMIT: u64 = u16::MAX as u64;

/// Edges with exact counts.
pub struct Table {
    entries: Vec<[u8; ENTRY]>,
    taken: usize,
}

fn unpack([a, b, c, d, low, high]: [u8; ENTRY]) -> (u32, u64) {
    let count = u16::from_le_bytes([low, high]);
    (u32::from_le_bytes([a, b, c, d]), count.into())
}

fn pack(id: u32, count: u64) -> [u8; ENTRY] {
    let [a, b, c, d] = id.to_le_bytes();
    let [low, high] = (count as u16).to_le_bytes();
    [a, b, c, d, low, high]
}

impl Table {
    /// As many places as fit into `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self {
            entries: vec![[0; ENTRY]; (bytes / ENTRY).max(1)],
            taken: 0,
        }
    }

    /// Bytes that a table for so many edges needs.
    pub fn bytes_for(edges: f64) -> usize {
        (edges / MOST_TAKEN) as usize * ENTRY
    }

    /// The entry of an id, or the free place where it would be.
    fn find(&self, id: u32) -> usize {
        let places = self.entries.len();
        let mut at = ((u64::from(id) * places as u64) >> 32) as usize;
        loop {
            let (found, count) = unpack(self.entries[at]);
            if count == 0 || found == id {
                return at;
            }
            at = if at + 1 == places { 0 } else { at + 1 };
        }
    }

    /// The count of an id.
    pub fn get(&self, id: u32) -> u64 {
        unpack(self.entries[self.find(id)]).1
    }

    /// Sets the count of an id; false if there is no room for it.
    pub fn set(&mut self, id: u32, count: u64) -> bool {
        let at = self.find(id);
        let is_new = unpack(self.entries[at]).1 == 0;
        if count > LIMIT || (is_new && self.is_full()) {
            return false;
        }
        self.taken += usize::from(is_new && count > 0);
        self.entries[at] = pack(id, count);
        true
    }

    /// Whether no new id finds room.
    pub fn is_full(&self) -> bool {
        self.taken as f64 >= MOST_TAKEN * self.entries.len() as f64 - 1.0
    }

    /// Share of its places that are taken.
    pub fn fill(&self) -> f32 {
        self.taken as f32 / self.entries.len() as f32
    }

    /// All ids with their counts.
    pub fn entries(&self) -> impl Iterator<Item = (u32, u64)> {
        let entries = self.entries.iter().map(|entry| unpack(*entry));
        entries.filter(|(_, count)| *count > 0)
    }

    /// What it weighs.
    pub fn memory_bytes(&self) -> usize {
        self.entries.len() * ENTRY
    }

    /// All places, as they are.
    pub fn to_bytes(&self) -> &[u8] {
        self.entries.as_flattened()
    }

    /// Takes its places off the front of a saved state.
    pub fn load(&mut self, state: &mut &[u8]) -> bool {
        let Some((mine, rest)) = state.split_at_checked(self.memory_bytes()) else {
            return false;
        };
        self.entries = mine.as_chunks().0.to_vec();
        self.taken = self.entries().count();
        *state = rest;
        // Probing ends at a free place: there has to be one.
        self.taken < self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_exact_until_it_is_full_and_says_so() {
        let mut table = Table::new(6000);
        let id = |n: u32| n.wrapping_mul(0x9e37_79b9);
        let mut stored = 0;
        while table.set(id(stored), u64::from(stored) + 1) {
            stored += 1;
        }
        assert!((900..930).contains(&stored), "{stored} of 1000");
        assert!(table.is_full());
        for n in 0..stored {
            assert_eq!(table.get(id(n)), u64::from(n) + 1);
        }
        assert_eq!(table.get(id(5000)), 0);
        assert!(table.set(id(3), LIMIT), "known ids still fit");
        assert!(!table.set(id(3), LIMIT + 1), "counts do not wrap");
        assert_eq!(table.entries().count(), stored as usize);
    }
}
