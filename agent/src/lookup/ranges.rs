//! Ranges of addresses, each with a number, in the order of addresses.
//!
//! An IPv4 range takes 8 bytes, an IPv6 range 20. An IPv4 address is looked up by its first
//! 16 bits and then by bisection, an IPv6 address by bisection alone.

use std::net::IpAddr;

/// The number of addresses that are in no range.
const NONE: u32 = u32::MAX;

/// Ranges of IPv4 and of IPv6 addresses.
#[derive(Debug, Default, PartialEq)]
pub struct Ranges {
    v4: Starts<u32>,
    /// Index of the first IPv4 range at or after each value of the first 16 bits, and the
    /// number of ranges.
    index: Vec<u32>,
    v6: Starts<u128>,
}

/// Ranges of one kind of address. Each ends where the next one begins.
#[derive(Debug, Default, PartialEq)]
struct Starts<A> {
    starts: Vec<A>,
    numbers: Vec<u32>,
}

impl<A: Copy + Ord> Starts<A> {
    /// Starts a range. A range continues the one before if both have the same number.
    fn begin(&mut self, start: A, number: u32) {
        if self.numbers.last() != Some(&number) {
            self.starts.push(start);
            self.numbers.push(number);
        }
    }

    /// Looks up an address in the ranges `from` to `to`.
    fn number(&self, address: A, from: usize, to: usize) -> Option<u32> {
        let before = self.starts[from..to].partition_point(|start| *start <= address);
        let at = (from + before).checked_sub(1)?;
        Some(self.numbers[at]).filter(|number| *number != NONE)
    }

    fn finish(&mut self) {
        self.starts.shrink_to_fit();
        self.numbers.shrink_to_fit();
    }

    fn memory_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<A>() + self.numbers.capacity() * size_of::<u32>()
    }
}

impl Ranges {
    /// Starts a range of IPv4 addresses. Starts have to come in ascending order; `None`
    /// is for addresses without a number.
    pub fn begin_v4(&mut self, start: u32, number: Option<u32>) {
        self.v4.begin(start, number.unwrap_or(NONE));
    }

    /// Starts a range of IPv6 addresses, in the same way.
    pub fn begin_v6(&mut self, start: u128, number: Option<u32>) {
        self.v6.begin(start, number.unwrap_or(NONE));
    }

    /// Prepares lookups, after the last range.
    pub fn finish(mut self) -> Self {
        self.v4.finish();
        self.v6.finish();
        let mut at = 0;
        for high in 0..=u32::from(u16::MAX) {
            while self
                .v4
                .starts
                .get(at)
                .is_some_and(|start| *start >> 16 < high)
            {
                at += 1;
            }
            self.index.push(at as u32);
        }
        self.index.push(self.v4.starts.len() as u32);
        self
    }

    /// Replaces each number by the entry of `numbers` at this index.
    pub fn renumbered(mut self, numbers: &[u32]) -> Self {
        let v4 = self.v4.numbers.iter_mut();
        for number in v4.chain(&mut self.v6.numbers) {
            *number = numbers.get(*number as usize).copied().unwrap_or(NONE);
        }
        self
    }

    /// Returns the number of an address, if it has one.
    #[inline]
    pub fn number(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => {
                let bits = address.to_bits();
                let high = (bits >> 16) as usize;
                let (from, to) = (self.index.get(high)?, self.index.get(high + 1)?);
                self.v4.number(bits, *from as usize, *to as usize)
            }
            IpAddr::V6(address) => self.v6.number(address.to_bits(), 0, self.v6.starts.len()),
        }
    }

    /// Returns all ranges that have a number: first and last address, and the number.
    pub fn all(&self) -> impl Iterator<Item = (IpAddr, IpAddr, u32)> {
        let v4 = ranges(&self.v4, u32::MAX, |start| start - 1);
        let v4 = v4.map(|(first, last, number)| {
            (IpAddr::V4(first.into()), IpAddr::V4(last.into()), number)
        });
        let v6 = ranges(&self.v6, u128::MAX, |start| start - 1);
        let v6 = v6.map(|(first, last, number)| {
            (IpAddr::V6(first.into()), IpAddr::V6(last.into()), number)
        });
        v4.chain(v6)
    }

    /// Size in memory.
    pub fn memory_bytes(&self) -> usize {
        let index = self.index.capacity() * size_of::<u32>();
        self.v4.memory_bytes() + self.v6.memory_bytes() + index
    }
}

fn ranges<A: Copy>(
    of: &Starts<A>,
    end: A,
    before: impl Fn(A) -> A,
) -> impl Iterator<Item = (A, A, u32)> {
    let lasts = of.starts.iter().skip(1).map(move |start| before(*start));
    let lasts = lasts.chain([end]);
    let all = of.starts.iter().zip(lasts).zip(&of.numbers);
    let numbered = all.filter(|(_, number)| **number != NONE);
    numbered.map(|((first, last), number)| (*first, last, *number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_finds_what_a_search_through_all_finds() {
        let mut state = 1u64;
        let mut next = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let (mut ranges, mut given) = (Ranges::default(), Vec::new());
        let mut starts: Vec<u32> = (0..3000)
            .map(|_| (next() as u32) << (next() % 17))
            .collect();
        starts.extend([0, u32::MAX]);
        starts.sort_unstable();
        starts.dedup();
        for start in starts {
            let number = Some(next() as u32 % 5).filter(|number| *number > 0);
            ranges.begin_v4(start, number);
            ranges.begin_v6(u128::from(start) << 90, number);
            given.push((start, number));
        }
        let ranges = ranges.finish();
        let numbered = given.iter().filter(|(_, number)| number.is_some()).count();
        assert!(ranges.all().count() <= 2 * numbered);
        for (at, (start, number)) in given.iter().enumerate() {
            let last = given.get(at + 1).map_or(u32::MAX, |(next, _)| next - 1);
            for address in [*start, start + (last - start) / 2, last] {
                assert_eq!(ranges.number(IpAddr::V4(address.into())), *number);
                let wide = u128::from(address) << 90;
                assert_eq!(ranges.number(IpAddr::V6(wide.into())), *number);
            }
        }
        for (first, last, number) in ranges.all() {
            for address in [first, last] {
                assert_eq!(ranges.number(address), Some(number));
            }
        }
        assert_eq!(
            Ranges::default().finish().number([10, 0, 0, 1].into()),
            None
        );
    }
}
