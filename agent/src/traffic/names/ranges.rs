//! Ranges of addresses with one name, for lookups at the rate of new pairs.
//!
//! The addresses from the first to the last start of a range are divided into blocks of equal
//! size, a power of two. A table has one byte for each block: the number of the name that all
//! of its addresses have, or [`SEARCH`] if they have several. Only in such a block the range has
//! to be found by bisection, among those that start in the same [`GROUP`] of blocks.
//!
//! A range takes 10 to 15 bytes, and one of IPv6 22 to 27: its first address, one byte for its
//! name, 4 to 8 for blocks, and a quarter of that for groups. A prefix makes two ranges at most,
//! and fewer if prefixes beside each other have the same name, so 100,000 prefixes take 3 MB at
//! most, and 5.4 MB if all are of IPv6. With few prefixes all tables are small.

use super::address::Address;

/// Most blocks per range. With 100,000 random prefixes a lookup takes 3.2 ns; with half as many
/// blocks 4.3 ns, with twice as many not less.
const BLOCKS: usize = 8;
/// Blocks of a group.
const GROUP: usize = 16;
/// Stands in the table for a block in which the range has to be found by bisection. That is also
/// done where all addresses of a block have the name of this number.
const SEARCH: u8 = u8::MAX;

/// Ranges of all addresses in order. Ranges side by side have different names.
#[derive(PartialEq)]
pub struct Ranges<A> {
    /// The first address of each range. The first one is 0.
    starts: Vec<A>,
    names: Vec<u8>,
    /// A block has 2 to the power of `shift` addresses.
    shift: u32,
    /// Number of the first block in the table, counted from address 0. Addresses before it are
    /// looked up in the first block of the table, and addresses after the last block in the last
    /// one, so no range may start within these two, except one that starts at address 0.
    first: A,
    /// Name of each block, or [`SEARCH`].
    blocks: Vec<u8>,
    /// How many ranges start before each group of blocks, and the number of all ranges.
    groups: Vec<u32>,
}

/// A prefix: its first and last address and its name.
pub type Block<A> = (A, A, u8);

impl<A: Address> Ranges<A> {
    /// Builds the ranges of prefixes, which must be sorted by address, with a prefix before
    /// those that it contains.
    pub fn new(prefixes: impl ExactSizeIterator<Item = Block<A>>) -> Self {
        let most = 2 * prefixes.len() + 1;
        let mut starts = Starts {
            starts: Vec::with_capacity(most),
            names: Vec::with_capacity(most),
        };
        starts.begin(A::FIRST, 0);
        // Prefixes that contain the current address, the longest last.
        let mut around: Vec<Block<A>> = Vec::new();
        for block in prefixes {
            let (first, _, name) = block;
            while let Some((_, last, _)) = around.pop_if(|(_, last, _)| *last < first) {
                starts.end(last, &around);
            }
            starts.begin(first, name);
            around.push(block);
        }
        while let Some((_, last, _)) = around.pop() {
            starts.end(last, &around);
        }
        starts.index()
    }

    /// Returns the number of the name of an address.
    #[inline]
    pub fn name(&self, address: A) -> u8 {
        match self.blocks[self.block(address)] {
            SEARCH => self.search(address),
            name => name,
        }
    }

    /// Index of the block of an address.
    #[inline]
    fn block(&self, address: A) -> usize {
        address.block(self.shift, self.first, self.blocks.len() - 1)
    }

    /// Returns the number of the name of an address by bisection.
    #[cold]
    fn search(&self, address: A) -> u8 {
        let group = self.block(address) / GROUP;
        let (from, to) = (self.groups[group] as usize, self.groups[group + 1] as usize);
        let before = self.starts[from..to].partition_point(|start| *start <= address);
        // At least one range starts at or before the address, because the first starts at 0.
        self.names[from + before - 1]
    }
}

/// The starts of ranges, in order.
struct Starts<A> {
    starts: Vec<A>,
    names: Vec<u8>,
}

impl<A: Address> Starts<A> {
    /// Ends a prefix: the prefix around it continues after its last address.
    fn end(&mut self, last: A, around: &[Block<A>]) {
        if let Some(next) = last.next() {
            self.begin(next, around.last().map_or(0, |(_, _, name)| *name));
        }
    }

    /// Starts a range with this name, and replaces one that starts at the same address. A range
    /// with the name of the one before it continues that one.
    fn begin(&mut self, address: A, name: u8) {
        if self.starts.last() == Some(&address) {
            self.starts.pop();
            self.names.pop();
        }
        if self.names.last() != Some(&name) {
            self.starts.push(address);
            self.names.push(name);
        }
    }

    /// Builds the table and the groups.
    fn index(mut self) -> Ranges<A> {
        self.starts.shrink_to_fit();
        self.names.shrink_to_fit();
        let Self { starts, names } = self;
        // The range that starts at 0 needs no blocks.
        let low = starts.get(1).copied().unwrap_or(A::FIRST);
        let high = starts.last().copied().unwrap_or(A::FIRST);
        let most = BLOCKS * starts.len();
        let fits = |shift: &u32| high.blocks_from(low, *shift) <= most;
        // One block for each half of the addresses is never too many.
        let shift = (0..A::BITS).find(fits).unwrap_or(A::BITS - 1);
        let mut ranges = Ranges {
            first: low.block_before(shift),
            blocks: vec![SEARCH; high.blocks_from(low, shift)],
            groups: Vec::new(),
            shift,
            starts,
            names,
        };
        ranges.fill();
        ranges
    }
}

impl<A: Address> Ranges<A> {
    /// Fills the table and the groups.
    fn fill(&mut self) {
        let count = self.blocks.len();
        self.groups.reserve_exact(count.div_ceil(GROUP) + 1);
        for (at, (start, name)) in self.starts.iter().zip(&self.names).enumerate() {
            let block = self.block(*start);
            while self.groups.len() * GROUP <= block {
                self.groups.push(at as u32);
            }
            let next = self.starts.get(at + 1);
            let next = next.map_or(count, |next| self.block(*next));
            // The block in which a range starts has one name only if the range starts at its
            // first address and the next range in another block.
            let whole = block + usize::from(!start.begins_block(self.shift));
            if let Some(blocks) = self.blocks.get_mut(whole..next) {
                blocks.fill(*name);
            }
        }
        while self.groups.len() <= count.div_ceil(GROUP) {
            self.groups.push(self.starts.len() as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Prefix = (u128, u8, u8);

    /// Ranges of prefixes: first address, length, name.
    fn ranges<A: Address>(prefixes: &[Prefix]) -> Ranges<A> {
        let mut prefixes = prefixes.to_vec();
        prefixes.sort_by_key(|(first, length, _)| (*first, *length));
        Ranges::new(prefixes.iter().map(|(first, length, name)| {
            let first = A::of(*first);
            (first, first.last(*length), *name)
        }))
    }

    /// Name of the longest prefix that contains an address, by a search through all.
    fn longest(prefixes: &[Prefix], bits: u32, address: u128) -> u8 {
        let contains = |(first, length, _): &&Prefix| {
            let host = bits - u32::from(*length);
            first.checked_shr(host) == address.checked_shr(host)
        };
        let longest = prefixes.iter().filter(contains);
        longest
            .max_by_key(|(_, length, _)| *length)
            .map_or(0, |(_, _, name)| *name)
    }

    fn random(state: &mut u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *state >> 33
    }

    /// Compares lookups with a search through all prefixes, at the ends of each prefix and
    /// beside them, at the first and last of all addresses, and at random ones.
    fn check<A: Address>(state: &mut u64, prefixes: &[Prefix]) {
        let ranges = ranges::<A>(prefixes);
        let all = u128::MAX >> (128 - A::BITS);
        let mut addresses = vec![0, 1, all / 2, all / 2 + 1, all - 1, all];
        for (first, length, _) in prefixes {
            let last = first | all.checked_shr((*length).into()).unwrap_or(0);
            for end in [*first, last] {
                addresses.extend([end.wrapping_sub(1) & all, end, end.wrapping_add(1) & all]);
            }
            let within = u128::from(random(state)) * u128::from(random(state)) * 0x1_0001;
            addresses.push(first | within & (last - first));
        }
        for address in addresses {
            let name = longest(prefixes, A::BITS, address);
            assert_eq!(ranges.name(A::of(address)), name, "{address:#x}");
        }
        for (at, start) in ranges.starts.iter().enumerate().skip(1) {
            assert!(ranges.starts[at - 1] < *start);
            assert_ne!(ranges.names[at - 1], ranges.names[at]);
        }
        assert!(ranges.blocks.len() <= BLOCKS * ranges.starts.len());
    }

    /// Random prefixes of all lengths: far from each other, within each other, side by side.
    fn random_prefixes<A: Address>(state: &mut u64) -> Vec<Prefix> {
        let all = u128::MAX >> (128 - A::BITS);
        let names = [2, 8, 256][random(state) as usize % 3];
        let mut prefixes: Vec<Prefix> = Vec::new();
        for _ in 0..random(state) % 60 {
            let anywhere =
                (0..5).fold(0, |bits: u128, _| bits << 31 ^ u128::from(random(state))) & all;
            let length = (random(state) % u64::from(A::BITS + 1)) as u8;
            let before = prefixes.get(random(state) as usize % prefixes.len().max(1));
            let (first, length) = match (random(state) % 6, before) {
                (0, _) => (anywhere, length),
                (1, _) => (anywhere, [0, A::BITS as u8][length as usize % 2]),
                (2, _) => ([0, all][length as usize % 2], length),
                // After or before another one, of the same length.
                (3, Some((first, length, _))) => {
                    let size = (all >> 1).checked_shr(u32::from(*length) - u32::from(*length > 0));
                    let size = size.unwrap_or(0).wrapping_add(u128::from(*length > 0));
                    (first.wrapping_add(size) & all, *length)
                }
                (4, Some((first, length, _))) => (first.wrapping_sub(1) & all, *length),
                // Within another one.
                (_, Some((first, before, _))) => {
                    let within = anywhere.checked_shr((*before).into()).unwrap_or(0);
                    (first ^ within, length.max(*before))
                }
                (_, None) => (anywhere, length),
            };
            let host = all.checked_shr(length.into()).unwrap_or(0);
            let first = first & all & !host;
            if prefixes.iter().all(|(a, b, _)| (*a, *b) != (first, length)) {
                prefixes.push((first, length, (random(state) % names) as u8));
            }
        }
        prefixes
    }

    #[test]
    fn a_lookup_finds_the_longest_of_random_prefixes() {
        let state = &mut 1;
        for _ in 0..150 {
            let (v4, v6) = (
                random_prefixes::<u32>(state),
                random_prefixes::<u128>(state),
            );
            check::<u32>(state, &v4);
            check::<u128>(state, &v6);
        }
    }

    #[test]
    fn the_ends_of_all_addresses_belong_to_their_prefixes() {
        let state = &mut 2;
        for bits in [32, 128] {
            let all = u128::MAX >> (128 - bits);
            let length = bits as u8;
            for prefixes in [
                vec![],
                vec![(0, 0, 7)],
                vec![(0, 0, 255)],
                vec![(0, length, 1)],
                vec![(all, length, 1)],
                vec![(0, length, 1), (all, length, 2), (0, 0, 3)],
                vec![(all / 2 + 1, 1, 1)],
                vec![(0, 1, 1)],
                vec![(0, 1, 1), (all / 2 + 1, 1, 2)],
                vec![(0, 1, 1), (all / 2 + 1, 1, 1)],
                vec![(all / 2 + 1, length, 1), (all / 2, length, 255)],
                // Two hosts within one of two networks side by side.
                vec![(8, length - 1, 1), (10, length - 1, 2), (9, length, 3)],
            ] {
                match bits {
                    32 => check::<u32>(state, &prefixes),
                    _ => check::<u128>(state, &prefixes),
                }
            }
        }
    }

    #[test]
    fn few_prefixes_take_little_memory() {
        let ranges = ranges::<u32>(&[(0x0a00_0000, 8, 1), (0xc0a8_0000, 16, 2)]);
        assert_eq!(ranges.starts.len(), 5);
        assert!(ranges.blocks.len() <= 5 * BLOCKS);
        assert!(ranges.groups.len() <= 6);
    }
}
