//! Buckets of eight slots, in which names and counts are packed into words.

use super::count::{Count, rank};
use crate::name::{AnyName, Name};

/// Number of slots in a bucket.
pub const WAYS: usize = 8;

/// Bytes of a slot.
pub const SLOT_BYTES: usize = size_of::<Slot>();

/// Bits of the count word that hold the packets. The bits above hold `earlier`, `slack`
/// and the flag [`WIDE`].
const PACKET_BITS: u32 = 40;
pub(super) const MOST_PACKETS: u64 = (1 << PACKET_BITS) - 1;
const EARLIER: Digits = Digits { bits: 15, kept: 10 };
/// Packing rounds `earlier` up by at most this fraction of itself: 1/512.
pub(super) const EARLIER_PARTS: u64 = 1 << (EARLIER.kept - 1);
const SLACK: Digits = Digits { bits: 8, kept: 4 };
const SLACK_AT: u32 = PACKET_BITS + EARLIER.bits;
pub(super) const WIDE: u64 = 1 << 63;

/// Bits of the byte word that hold the counted bytes. The bits above hold the guessed
/// bytes in units of [`GUESS_UNIT`].
const BYTE_BITS: u32 = 48;
/// The largest number of bytes that can be counted.
pub const MOST_BYTES: u64 = (1 << BYTE_BITS) - 1;
pub(super) const GUESS_UNIT: u64 = 4096;

/// Eight slots, stored by column. All names are in one cache line, and for most edges,
/// which have no entry, nothing else is read.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Bucket {
    names: [u64; WAYS],
    counts: [u64; WAYS],
    bytes: [u64; WAYS],
}

impl Bucket {
    pub(super) fn new(slots: &[Slot; WAYS]) -> Self {
        Self {
            names: slots.map(|slot| slot.name),
            counts: slots.map(|slot| slot.count),
            bytes: slots.map(|slot| slot.bytes),
        }
    }

    #[inline]
    pub(super) fn slot(&self, at: usize) -> Slot {
        Slot {
            name: self.names[at],
            count: self.counts[at],
            bytes: self.bytes[at],
        }
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize, slot: Slot) {
        self.names[at] = slot.name;
        self.counts[at] = slot.count;
        self.bytes[at] = slot.bytes;
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..WAYS).map(|at| self.slot(at))
    }

    /// Reads a word of the cache line that holds the names.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        self.names[0]
    }

    #[inline]
    fn is_wide(&self, at: usize) -> bool {
        self.counts[at] & WIDE != 0
    }
}

/// A slot of a bucket. Its count is 0 if it is empty. A wide name uses the next slot as
/// well, for three more words of the name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) name: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Slot {
    /// The inverse of [`words`].
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
            // At least one packet was counted here.
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

/// Packs a count into two words.
pub(super) fn packed(count: &Count) -> [u64; 2] {
    // At least 1, because 0 marks an empty slot.
    let packets = count.packets.clamp(1, MOST_PACKETS);
    let earlier = EARLIER.code(count.earlier) << PACKET_BITS;
    let slack = SLACK.code(count.slack) << SLACK_AT;
    let guess = (count.guessed_bytes / GUESS_UNIT).min(u64::MAX >> BYTE_BITS);
    [
        packets | earlier | slack,
        count.bytes.min(MOST_BYTES) | guess << BYTE_BITS,
    ]
}

/// A floating-point code for numbers of `bits` bits. Numbers below 2^kept are exact,
/// larger ones are rounded up to `kept` binary digits. The largest code stands for any
/// larger number.
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

/// Whether an entry begins at `at`, that is, `at` is not the second slot of a wide name.
#[inline]
pub(super) fn begins(bucket: &Bucket, at: usize) -> bool {
    at.is_multiple_of(2) || !bucket.is_wide(at - 1)
}

/// The slot where the entry of a name begins.
#[inline(always)]
pub(super) fn find<N: Name>(bucket: &Bucket, name: &N) -> Option<usize> {
    match name.any() {
        AnyName::Narrow([name]) => {
            // All names are compared first, without branches; whether a match is a valid
            // entry is checked afterwards.
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
            same && words(bucket.slot(at + 1)) == rest
        }),
    }
}

pub(super) fn words(slot: Slot) -> [u64; 3] {
    [slot.name, slot.count, slot.bytes]
}

/// The slot where a name of this length would be stored, and the highest rank among the
/// entries that would be evicted.
#[inline]
pub(super) fn lightest<N: Name>(bucket: &Bucket) -> (usize, u64) {
    let rank = |at: usize| bucket.slot(at).rank();
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
    let slot = bucket.slot(at);
    if !begins(bucket, at) || slot.count == 0 {
        return None;
    }
    let name = match slot.is_wide() {
        true => {
            let [b, c, d] = words(bucket.slot(at + 1));
            AnyName::Wide([slot.name, b, c, d])
        }
        false => AnyName::Narrow([slot.name]),
    };
    Some((name, slot.count()))
}
