//! Buckets of places, which hold names and counts bit by bit.

use super::count::{Count, rank};
use crate::name::{AnyName, Name};

/// Places of a bucket.
pub const WAYS: usize = 8;

/// Bytes of a place.
pub const PLACE: usize = size_of::<Place>();

/// Bits of a place's count that hold packets. Above them are how many of them
/// it had before, the slack, and whether the name goes on in the next place.
const PACKET_BITS: u32 = 40;
pub(super) const MOST_PACKETS: u64 = (1 << PACKET_BITS) - 1;
const EARLIER: Digits = Digits { bits: 15, kept: 10 };
/// `earlier` is rounded up by no more than one part in so many of itself.
pub(super) const EARLIER_PARTS: u64 = 1 << (EARLIER.kept - 1);
const SLACK: Digits = Digits { bits: 8, kept: 4 };
const SLACK_AT: u32 = PACKET_BITS + EARLIER.bits;
pub(super) const WIDE: u64 = 1 << 63;

/// Bits of a place's bytes that were counted. Above them is the guess, in units
/// of so many bytes.
const BYTE_BITS: u32 = 48;
/// The most bytes that can be counted.
pub const MOST_BYTES: u64 = (1 << BYTE_BITS) - 1;
pub(super) const GUESS_UNIT: u64 = 4096;

/// Eight places. Their names are beside each other, in one line of the cache: most
/// edges are not here, and that is all they look at.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    names: [u64; WAYS],
    counts: [u64; WAYS],
    bytes: [u64; WAYS],
}

impl Bucket {
    /// These places.
    pub(super) fn new(places: &[Place; WAYS]) -> Self {
        Self {
            names: places.map(|place| place.name),
            counts: places.map(|place| place.count),
            bytes: places.map(|place| place.bytes),
        }
    }

    /// One of them.
    #[inline]
    pub(super) fn place(&self, at: usize) -> Place {
        Place {
            name: self.names[at],
            count: self.counts[at],
            bytes: self.bytes[at],
        }
    }

    /// Puts something else in its place.
    #[inline]
    pub(super) fn set(&mut self, at: usize, place: Place) {
        self.names[at] = place.name;
        self.counts[at] = place.count;
        self.bytes[at] = place.bytes;
    }

    /// All of them.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        (0..WAYS).map(|at| self.place(at))
    }

    /// Something of the line that the names are in.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.names[0]
    }

    #[inline]
    fn is_wide(&self, at: usize) -> bool {
        self.counts[at] & WIDE != 0
    }
}

/// One of the places of a bucket. An empty one counts 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Place {
    /// What [`words`] has made of one.
    pub(super) fn of_words([name, count, bytes]: [u64; 3]) -> Self {
        Self { name, count, bytes }
    }

    #[inline]
    pub(super) fn packets(&self) -> u64 {
        self.count & MOST_PACKETS
    }

    #[inline]
    pub(super) fn rank(&self) -> u64 {
        let guessed = (self.bytes >> BYTE_BITS) * GUESS_UNIT;
        rank(self.packets(), (self.bytes & MOST_BYTES) + guessed)
    }

    #[inline]
    pub(super) fn is_wide(&self) -> bool {
        self.count & WIDE != 0
    }

    pub(super) fn count(&self) -> Count {
        let packets = self.packets();
        Count {
            packets,
            // One packet at least was counted.
            earlier: EARLIER
                .value(self.count >> PACKET_BITS)
                .min(packets.saturating_sub(1)),
            slack: match packets {
                MOST_PACKETS => u64::MAX,
                _ => SLACK.value(self.count >> SLACK_AT),
            },
            bytes: self.bytes & MOST_BYTES,
            guessed_bytes: (self.bytes >> BYTE_BITS) * GUESS_UNIT,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, packets: u64, bytes: u64) {
        let sum = self.packets().saturating_add(packets).min(MOST_PACKETS);
        self.count = self.count & !MOST_PACKETS | sum;
        let sum = (self.bytes & MOST_BYTES).saturating_add(bytes);
        self.bytes = self.bytes & !MOST_BYTES | sum.min(MOST_BYTES);
    }
}

/// The two words of a count.
pub(super) fn packed(count: &Count) -> [u64; 2] {
    // Never 0, which is an empty place.
    let packets = count.packets.clamp(1, MOST_PACKETS);
    let earlier = EARLIER.code(count.earlier) << PACKET_BITS;
    let slack = SLACK.code(count.slack) << SLACK_AT;
    let guess = (count.guessed_bytes / GUESS_UNIT).min(u64::MAX >> BYTE_BITS);
    [
        packets | earlier | slack,
        count.bytes.min(MOST_BYTES) | guess << BYTE_BITS,
    ]
}

/// A number as few bits: small ones as they are, larger ones rounded up to so
/// many binary digits. The largest code stands for any number.
struct Digits {
    bits: u32,
    kept: u32,
}

impl Digits {
    fn code(&self, number: u64) -> u64 {
        let (whole, half) = (1 << self.kept, 1 << (self.kept - 1));
        if number < whole {
            return number;
        }
        let mut shift = u64::from(64 - self.kept - number.leading_zeros());
        let mut digits = number.div_ceil(1 << shift);
        if digits == whole {
            (shift, digits) = (shift + 1, half);
        }
        (whole + (shift - 1) * half + digits - half).min(self.most())
    }

    fn value(&self, code: u64) -> u64 {
        let (whole, half) = (1 << self.kept, 1 << (self.kept - 1));
        let code = code & self.most();
        if code == self.most() {
            return u64::MAX;
        }
        match code.checked_sub(whole) {
            None => code,
            Some(above) => {
                let number = u128::from(half + above % half) << (above / half + 1);
                u64::try_from(number).unwrap_or(u64::MAX)
            }
        }
    }

    fn most(&self) -> u64 {
        (1 << self.bits) - 1
    }
}

/// Whether the place at `at` begins an entry: it is not the second half of one.
#[inline]
pub(super) fn begins(bucket: &Bucket, at: usize) -> bool {
    at.is_multiple_of(2) || !bucket.is_wide(at - 1)
}

/// Where the entry of a name is.
#[inline(always)]
pub(super) fn find<N: Name>(bucket: &Bucket, name: &N) -> Option<usize> {
    match name.any() {
        AnyName::Narrow([name]) => {
            // Straight code: names first, which of them count afterwards.
            let same = |at: usize| u32::from(bucket.names[at] == name) << at;
            let mut same = (0..WAYS).fold(0, |all, at| all | same(at));
            while same != 0 {
                let at = same.trailing_zeros() as usize;
                if bucket.counts[at] != 0 && !bucket.is_wide(at) && begins(bucket, at) {
                    return Some(at);
                }
                same &= same - 1;
            }
            None
        }
        AnyName::Wide([first, rest @ ..]) => (0..WAYS).step_by(2).find(|at| {
            let same = bucket.names[*at] == first && bucket.is_wide(*at);
            same && words(bucket.place(at + 1)) == rest
        }),
    }
}

pub(super) fn words(place: Place) -> [u64; 3] {
    [place.name, place.count, place.bytes]
}

/// Where an entry would have to make room for a name of this kind, and the
/// highest rank that would go.
#[inline]
pub(super) fn lightest<N: Name>(bucket: &Bucket) -> (usize, u64) {
    let rank = |at: usize| bucket.place(at).rank();
    let halves = |at: usize| match bucket.is_wide(at) {
        true => [rank(at); 2],
        false => [rank(at), rank(at + 1)],
    };
    let two = (0..WAYS).step_by(2);
    let costs = |at: usize| match (N::default().any(), halves(at)) {
        (AnyName::Narrow(_), [left, right]) if right < left => (at + 1, right),
        (AnyName::Narrow(_), [left, _]) => (at, left),
        (AnyName::Wide(_), [left, right]) => (at, left.max(right)),
    };
    two.map(costs)
        .min_by_key(|(_, rank)| *rank)
        .unwrap_or_default()
}

pub(super) fn entry(bucket: &Bucket, at: usize) -> Option<(AnyName, Count)> {
    let place = bucket.place(at);
    if !begins(bucket, at) || place.count == 0 {
        return None;
    }
    let name = match place.is_wide() {
        true => {
            let [b, c, d] = words(bucket.place(at + 1));
            AnyName::Wide([place.name, b, c, d])
        }
        false => AnyName::Narrow([place.name]),
    };
    Some((name, place.count()))
}
