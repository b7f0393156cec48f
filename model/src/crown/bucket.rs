//! Buckets of places, which hold names and counts bit by bit.

use super::count::{Count, rank};
use crate::name::{AnyName, Name};

/// Places of a bucket.
pub const WAYS: usize = 8;

/// Bytes of a place.
pub const PLACE: usize = size_of::<Place>();

/// Bits of a place's count that hold packets. Above them are the slack, whether
/// all bytes are known, and whether the name goes on in the next place.
const PACKET_BITS: u32 = 54;
pub(super) const MOST_PACKETS: u64 = (1 << PACKET_BITS) - 1;
const ALL_BYTES: u64 = 1 << 62;
pub(super) const WIDE: u64 = 1 << 63;

/// Bits of a place's bytes that were counted. Above them is the guess, in units
/// of so many bytes.
const BYTE_BITS: u32 = 48;
pub(super) const MOST_BYTES: u64 = (1 << BYTE_BITS) - 1;
pub(super) const GUESS_UNIT: u64 = 4096;

/// One of the places of a bucket. An empty one counts 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Place {
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
        Count {
            packets: self.packets(),
            slack: slack(self.count >> PACKET_BITS & 0xff),
            bytes: self.bytes & MOST_BYTES,
            all_bytes: self.count & ALL_BYTES != 0,
            guessed_bytes: (self.bytes >> BYTE_BITS) * GUESS_UNIT,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, packets: u64, bytes: u64) {
        let sum = self.packets().saturating_add(packets).min(MOST_PACKETS);
        self.count = self.count & !MOST_PACKETS | sum;
        let sum = (self.bytes & MOST_BYTES).saturating_add(bytes);
        if sum > MOST_BYTES {
            self.count &= !ALL_BYTES;
        }
        self.bytes = self.bytes & !MOST_BYTES | sum.min(MOST_BYTES);
    }
}

/// The two words of a count.
pub(super) fn packed(count: &Count) -> [u64; 2] {
    let known = count.all_bytes && count.bytes <= MOST_BYTES;
    let all_bytes = if known { ALL_BYTES } else { 0 };
    // Never 0, which is an empty place.
    let packets = count.packets.clamp(1, MOST_PACKETS);
    let guess = (count.guessed_bytes / GUESS_UNIT).min(u64::MAX >> BYTE_BITS);
    [
        packets | slack_code(count.slack) << PACKET_BITS | all_bytes,
        count.bytes.min(MOST_BYTES) | guess << BYTE_BITS,
    ]
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

pub(super) type Bucket = [Place; WAYS];

/// Whether the place at `at` begins an entry: it is not the second half of one.
#[inline]
pub(super) fn begins(bucket: &Bucket, at: usize) -> bool {
    at.is_multiple_of(2) || !bucket[at - 1].is_wide()
}

/// Where the entry of a name is.
#[inline(always)]
pub(super) fn find<N: Name>(bucket: &Bucket, name: &N) -> Option<usize> {
    match name.any() {
        AnyName::Narrow([name]) => {
            // Straight code: names first, which of them count afterwards.
            let same = |at: usize| u32::from(bucket[at].name == name) << at;
            let mut same = (0..WAYS).fold(0, |all, at| all | same(at));
            while same != 0 {
                let at = same.trailing_zeros() as usize;
                let place = &bucket[at];
                if place.count != 0 && !place.is_wide() && begins(bucket, at) {
                    return Some(at);
                }
                same &= same - 1;
            }
            None
        }
        AnyName::Wide([first, rest @ ..]) => (0..WAYS).step_by(2).find(|at| {
            let place = &bucket[*at];
            place.name == first && place.is_wide() && words(&bucket[at + 1]) == rest
        }),
    }
}

pub(super) fn words(place: &Place) -> [u64; 3] {
    [place.name, place.count, place.bytes]
}

/// Where an entry would have to make room for a name of this kind, and the
/// highest rank that would go.
#[inline]
pub(super) fn lightest<N: Name>(bucket: &Bucket) -> (usize, u64) {
    let halves = |at: usize| match bucket[at].is_wide() {
        true => [bucket[at].rank(); 2],
        false => [bucket[at].rank(), bucket[at + 1].rank()],
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
    let place = &bucket[at];
    if !begins(bucket, at) || place.count == 0 {
        return None;
    }
    let name = match place.is_wide() {
        true => {
            let [b, c, d] = words(&bucket[at + 1]);
            AnyName::Wide([place.name, b, c, d])
        }
        false => AnyName::Narrow([place.name]),
    };
    Some((name, place.count()))
}
