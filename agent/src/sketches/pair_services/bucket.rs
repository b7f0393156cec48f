//! Buckets of entries: a pair, one of its services, and the counts of these.

use std::array;

use crane_model::name::Name;

use super::MOST;
use crate::traffic::batch::Part;
use crate::traffic::service::{self, Service};

/// Number of entries of a bucket.
pub const WAYS: usize = 8;

/// Bits of the packets of an entry, below those of its service.
const PACKET_BITS: u32 = u64::BITS - service::BITS;
const MOST_PACKETS: u64 = (1 << PACKET_BITS) - 1;
/// Bits of the bytes of an entry, below the code of its inherited packets.
const BYTE_BITS: u32 = 48;
const MOST_BYTES: u64 = (1 << BYTE_BITS) - 1;
/// Significant bits that the code of a number keeps.
const KEPT: u32 = 11;

/// One service of a pair with its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub service: Service,
    /// Packets counted for this service, plus the inherited ones.
    pub packets: u64,
    /// Packets of the entry that this one replaced, rounded up. Some may have been of this service,
    /// if it had an entry before.
    pub inherited: u64,
    /// Bytes counted for this service.
    pub bytes: u64,
}

impl Known {
    /// A new entry with the first packets of a service.
    pub fn new(part: Part) -> Self {
        Self {
            service: part.service,
            packets: part.packets,
            inherited: 0,
            bytes: part.bytes,
        }
    }

    /// Lower bound of the packets of this service.
    pub fn counted(&self) -> u64 {
        self.packets.saturating_sub(self.inherited)
    }

    /// Whether all bytes were counted. An entry counts bytes only up to a limit.
    pub fn has_all_bytes(&self) -> bool {
        self.bytes < MOST_BYTES
    }
}

/// Numbers of up to [`PACKET_BITS`] bits in 16 bits. Those below 2^[`KEPT`] are exact, larger
/// ones are rounded up by less than one part in 1024.
fn code(number: u64) -> u64 {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(KEPT);
    let rounded = (number + ((1 << shift) - 1)) >> shift;
    // Rounding up may have added a bit: the result is then the next power of two.
    let shift = u64::from(shift);
    if shift == 0 {
        rounded
    } else {
        (shift << (KEPT - 1)) + rounded
    }
}

fn number(code: u64) -> u64 {
    match (code >> (KEPT - 1)).checked_sub(1) {
        None | Some(0) => code,
        Some(shift) => ((1 << (KEPT - 1)) | (code & ((1 << (KEPT - 1)) - 1))) << shift,
    }
}

/// A set of entries. The names are stored together, because a search reads little else.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Bucket<N> {
    names: [N; WAYS],
    /// Service and packets; inherited packets and bytes. An entry without packets is free.
    counts: [[u64; 2]; WAYS],
}

impl<N: Name> Default for Bucket<N> {
    fn default() -> Self {
        Self {
            names: [N::default(); WAYS],
            counts: [[0; 2]; WAYS],
        }
    }
}

impl<N: Name> Bucket<N> {
    #[inline]
    fn is_free(&self, at: usize) -> bool {
        self.counts[at][0] & MOST_PACKETS == 0
    }

    /// The position of an entry.
    #[inline]
    pub fn find(&self, name: &N, service: Service) -> Option<usize> {
        let code = u64::from(service.code());
        (0..WAYS).find(|at| {
            self.names[*at] == *name
                && self.counts[*at][0] >> PACKET_BITS == code
                && !self.is_free(*at)
        })
    }

    /// Reads the bucket, so that it is in the cache when it is needed.
    #[inline]
    pub fn touch(&self) -> u64 {
        self.names[0].words()[0] ^ self.counts[WAYS - 1][1]
    }

    /// Counts packets and bytes of the entry at a position.
    #[inline]
    pub fn add(&mut self, at: usize, packets: u64, bytes: u64) {
        let [head, tail] = &mut self.counts[at];
        let more = packets.min(MOST_PACKETS - (*head & MOST_PACKETS));
        *head += more;
        *tail += bytes.min(MOST_BYTES - (*tail & MOST_BYTES));
    }

    /// Puts an entry at a position.
    pub fn set(&mut self, at: usize, name: N, known: Known) {
        let head = u64::from(known.service.code()) << PACKET_BITS | known.packets.min(MOST_PACKETS);
        let inherited = code(known.inherited.min(MOST_PACKETS));
        self.names[at] = name;
        self.counts[at] = [head, inherited << BYTE_BITS | known.bytes.min(MOST_BYTES)];
    }

    /// Frees the entries whose names match. Returns their number.
    pub fn free(&mut self, matches: impl Fn(&N) -> bool) -> usize {
        let mut freed = 0;
        for at in 0..WAYS {
            if !self.is_free(at) && matches(&self.names[at]) {
                self.names[at] = N::default();
                self.counts[at] = [0; 2];
                freed += 1;
            }
        }
        freed
    }

    /// The entries in use, with their positions.
    pub fn entries(&self) -> impl Iterator<Item = (usize, N, Known)> {
        let taken = (0..WAYS).filter(|at| !self.is_free(*at));
        taken.map(|at| {
            let [head, tail] = self.counts[at];
            let known = Known {
                service: Service::of_code((head >> PACKET_BITS) as u32),
                packets: head & MOST_PACKETS,
                inherited: number(tail >> BYTE_BITS),
                bytes: tail & MOST_BYTES,
            };
            (at, self.names[at], known)
        })
    }

    /// A position without an entry.
    pub fn vacancy(&self) -> Option<usize> {
        (0..WAYS).find(|at| self.is_free(*at))
    }

    /// The bucket as words, for a saved state.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        let names = self.names.iter().flat_map(|name| name.words().to_vec());
        names.chain(self.counts.as_flattened().iter().copied())
    }

    /// Number of words of a saved bucket.
    pub fn length() -> usize {
        WAYS * (N::default().words().len() + 2)
    }

    /// The bucket of saved words. `None` if they are invalid.
    pub fn of_words(words: &[u64]) -> Option<Self> {
        let (names, counts) = words.split_at_checked(words.len().checked_sub(2 * WAYS)?)?;
        let length = N::default().words().len();
        let bucket = Self {
            names: array::from_fn(|at| N::from_words(&names[at * length..])),
            counts: array::from_fn(|at| [counts[2 * at], counts[2 * at + 1]]),
        };
        let is_possible = |(_, _, known): (_, _, Known)| known.service.is_possible();
        bucket.entries().all(is_possible).then_some(bucket)
    }
}

/// The services of a pair, in no particular order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record {
    known: [Option<Known>; MOST],
}

impl Record {
    pub(super) fn push(&mut self, known: Known) {
        if let Some(free) = self.known.iter_mut().find(|one| one.is_none()) {
            *free = Some(known);
        }
    }

    pub fn services(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().flatten()
    }

    pub fn into_services(self) -> impl Iterator<Item = Known> {
        self.known.into_iter().flatten()
    }

    /// Packets that were recorded for the pair.
    pub fn packets(&self) -> u64 {
        self.sum(|known| known.packets)
    }

    /// Packets whose service is certain.
    pub fn counted(&self) -> u64 {
        self.sum(Known::counted)
    }

    /// The sum of something over all services.
    pub fn sum(&self, of: impl Fn(&Known) -> u64) -> u64 {
        self.services().map(of).fold(0, u64::saturating_add)
    }

    /// The most packets that were recorded for a service that has no entry.
    pub fn unlisted(&self) -> u64 {
        self.services()
            .map(|known| known.inherited)
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::protocol::Protocol;
    use crane_model::name::{Narrow, Wide};

    #[test]
    fn codes_round_up_by_less_than_one_part_in_1024() {
        let numbers = (0..5000).chain((10..PACKET_BITS).flat_map(|bits| {
            let power = 1u64 << bits;
            [power - 1, power, power + 1, power + power / 3]
        }));
        for one in numbers.chain([MOST_PACKETS]) {
            let back = number(code(one));
            assert!(code(one) <= u64::from(u16::MAX));
            assert!(
                back >= one && back - one <= one / 1024,
                "{one} became {back}"
            );
            assert!(one >= 1 << KEPT || back == one);
        }
    }

    #[test]
    fn an_entry_has_24_or_48_bytes_and_keeps_its_values() {
        assert_eq!(size_of::<Bucket<Narrow>>(), WAYS * 24);
        assert_eq!(size_of::<Bucket<Wide>>(), WAYS * 48);
        let mut bucket = Bucket::<Narrow>::default();
        let service = Service::between(Protocol::Sctp, u16::MAX, u16::MAX);
        let known = Known {
            service,
            packets: 7000,
            inherited: 2000,
            bytes: 1 << 40,
        };
        bucket.set(3, [5], known);
        assert!(bucket.entries().eq([(3, [5], known)]));
        assert_eq!(
            (known.counted(), bucket.find(&[5], service)),
            (5000, Some(3))
        );
        assert_eq!(bucket.find(&[5], Service::FRAGMENT), None);
        bucket.add(3, u64::MAX, u64::MAX);
        let (_, _, most) = bucket.entries().next().unwrap();
        assert_eq!((most.packets, most.bytes), (MOST_PACKETS, MOST_BYTES));
        assert_eq!((most.service, most.inherited), (service, 2000));
        assert!(!most.has_all_bytes());
        let words: Vec<u64> = bucket.words().collect();
        assert_eq!(words.len(), Bucket::<Narrow>::length());
        let again = Bucket::<Narrow>::of_words(&words).unwrap();
        assert!(again.entries().eq(bucket.entries()));
        assert_eq!(bucket.free(|name| *name == [5]), 1);
        assert_eq!(bucket.entries().count(), 0);
    }
}
