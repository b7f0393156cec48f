//! The crown: a small hash table of the heaviest edges, counted by name.
//!
//! The table consists of buckets of eight slots. The id of an edge determines its
//! bucket; an edge that is admitted replaces the lightest entry of that bucket. Four
//! buckets form a group: if all entries of its bucket are heavy and another bucket of the
//! group has an entry that is far lighter ([`FAR`]), the edge is admitted there. So if a
//! bucket has more heavy edges than slots, the others get entries as long as the group has
//! light ones.
//!
//! **Accuracy.** Packets and bytes since the admission are exact. The packets before are
//! known within `earlier ..= earlier + slack` ([`Count`]); storing rounds `earlier` up by
//! at most 1/512 and `slack` up by at most 1/8, so the bounds remain valid. **Cost.** 24
//! bytes for a pair of IPv4 addresses, 48 bytes (two slots) for a pair of IPv6 addresses.
//! Finding and counting read one bucket, and its group only if the bit of this bucket
//! says that one of its edges was admitted to another bucket. Most edges are too light to
//! be admitted; the floor, one number for each bucket, shows that without reading the
//! bucket.

mod bucket;
mod count;

use bucket::{Bucket, Slot, WIDE, begins, entry, find, lightest, packed, words};

use crate::name::{AnyName, Name, Narrow};

pub use bucket::{MOST_BYTES, SLOT_BYTES, WAYS};
pub use count::{BYTES_PER_PACKET, Count};

/// Buckets of a group.
const GROUP: usize = 4;

/// An edge is admitted to another bucket of the group only if its rank exceeds this many
/// times that of the lightest entry there. So nearly all edges are found by reading one
/// bucket.
const FAR: u64 = 2;

/// A slot that an edge may be admitted to.
#[derive(Clone, Copy)]
struct Opening {
    bucket: usize,
    slot: usize,
    /// The rank that the edge has to exceed.
    rank: u64,
}

/// The table of the heaviest edges.
pub struct Crown {
    buckets: Vec<Bucket>,
    /// For each bucket a bit that is set if an edge of the bucket was admitted to another
    /// bucket of the group.
    spilled: Vec<u64>,
    /// For each bucket a rank that its edges have to exceed to be admitted. It may be too
    /// low: it is raised when an edge is refused.
    floors: Vec<u16>,
    /// An edge has to exceed this rank to be admitted, even to an empty slot: 0, or the
    /// maximum in a [closed](Self::closed) crown.
    threshold: u64,
}

impl Crown {
    /// An empty crown with `slots` slots, rounded up to whole buckets.
    pub fn new(slots: usize) -> Self {
        let buckets = slots.max(1).div_ceil(WAYS);
        Self {
            buckets: vec![Bucket::default(); buckets],
            spilled: vec![0; buckets.div_ceil(64)],
            floors: vec![0; buckets],
            threshold: 0,
        }
    }

    /// A crown that never admits an edge. It serves ablations, which measure what the
    /// crown contributes; no profile of this crate uses it.
    pub fn closed(self) -> Self {
        Self {
            threshold: u64::MAX,
            ..self
        }
    }

    fn at(&self, spot: u64) -> usize {
        ((u128::from(spot) * self.buckets.len() as u128) >> 64) as usize
    }

    /// The other buckets of the group.
    #[inline]
    fn neighbours(&self, at: usize) -> impl Iterator<Item = usize> + use<> {
        let buckets = self.buckets.len();
        (1..GROUP)
            .map(move |n| at ^ n)
            .filter(move |other| *other < buckets)
    }

    #[inline]
    fn has_spilled(&self, at: usize) -> bool {
        self.spilled[at / 64] >> (at % 64) & 1 == 1
    }

    /// The bucket and the slot of the entry of an edge.
    #[inline(always)]
    fn search<N: Name>(&self, spot: u64, name: &N) -> Option<(usize, usize)> {
        let at = self.at(spot);
        if let Some(slot) = find(&self.buckets[at], name) {
            return Some((at, slot));
        }
        if !self.has_spilled(at) {
            return None;
        }
        let mut neighbours = self.neighbours(at);
        neighbours.find_map(|other| Some((other, find(&self.buckets[other], name)?)))
    }

    /// Reads one word of the bucket, so that it is in the cache when it is needed. Many
    /// such reads can be in flight at the same time.
    #[inline]
    pub fn touch(&self, spot: u64) -> u64 {
        self.buckets[self.at(spot)].touch()
    }

    /// Counts an arrival if the edge has an entry, and returns whether it has. `spot` is
    /// the [`crate::codes::Codes::spot`] of its id.
    #[inline]
    pub fn count<N: Name>(&mut self, spot: u64, name: &N, packets: u64, bytes: u64) -> bool {
        let found = self.search(spot, name);
        if let Some((at, slot)) = found {
            let bucket = &mut self.buckets[at];
            let mut entry = bucket.slot(slot);
            entry.add(packets, bytes);
            bucket.set(slot, entry);
        }
        found.is_some()
    }

    /// A rank that an edge has to exceed to be admitted at this spot. Most edges do not,
    /// and nothing else is read for them. An edge that exceeds it may still be too light.
    #[inline]
    pub fn floor(&self, spot: u64) -> u64 {
        u64::from(self.floors[self.at(spot)]).max(self.threshold)
    }

    /// Whether an edge with a name of this length and this rank would be admitted.
    #[inline(always)]
    pub fn admits<N: Name>(&mut self, spot: u64, rank: u64) -> bool {
        rank > self.floor(spot) && self.outranks::<N>(self.at(spot), rank)
    }

    /// Whether the rank exceeds that of an entry that an edge of this bucket may replace.
    /// If not, raises the floor.
    fn outranks<N: Name>(&mut self, at: usize, rank: u64) -> bool {
        // Few edges are refused by their own bucket and admitted to another one.
        let outranks =
            rank > lightest::<N>(&self.buckets[at]).1 || rank > self.opening::<N>(at).rank;
        if !outranks {
            self.raise_floor(at);
        }
        outranks
    }

    /// The ranks of entries only rise, and a short name may replace any entry.
    fn raise_floor(&mut self, at: usize) {
        let least = self.opening::<Narrow>(at).rank;
        self.floors[at] = u16::try_from(least).unwrap_or(u16::MAX);
    }

    /// The rank that an edge with a name of this length has to exceed to be admitted. 0
    /// while there is an empty slot in its bucket.
    pub fn lightest<N: Name>(&self, spot: u64) -> u64 {
        self.opening::<N>(self.at(spot)).rank
    }

    /// Where an edge of bucket `at` would be admitted.
    #[inline]
    fn opening<N: Name>(&self, at: usize) -> Opening {
        let of = |bucket: usize| {
            let (slot, rank) = lightest::<N>(&self.buckets[bucket]);
            Opening { bucket, slot, rank }
        };
        let own = of(at);
        // No other bucket has an opening for less.
        if own.rank <= far(0) {
            return own;
        }
        let others = self.neighbours(at).map(|other| {
            let other = of(other);
            let rank = far(other.rank);
            Opening { rank, ..other }
        });
        // Of several with the same rank the first is taken, so the own bucket comes
        // before all others.
        std::iter::once(own)
            .chain(others)
            .min_by_key(|opening| opening.rank)
            .unwrap_or(own)
    }

    /// Admits an edge if it is heavy enough, and returns whether it is. The entries that it
    /// replaces are appended to `evicted`.
    pub fn admit<N: Name>(
        &mut self,
        spot: u64,
        name: &N,
        count: Count,
        evicted: &mut Vec<(AnyName, Count)>,
    ) -> bool {
        let rank = count.rank();
        if rank <= self.floor(spot) {
            return false;
        }
        let home = self.at(spot);
        let opening = self.opening::<N>(home);
        if rank <= opening.rank {
            self.raise_floor(home);
            return false;
        }
        let (target, at) = (opening.bucket, opening.slot);
        if target != home {
            self.spilled[home / 64] |= 1 << (home % 64);
        }
        let bucket = &mut self.buckets[target];
        let [count, bytes] = packed(&count);
        evicted.extend(entry(bucket, at));
        match name.any() {
            AnyName::Narrow([name]) => {
                if bucket.slot(at).is_wide() {
                    bucket.set(at + 1, Slot::default());
                    // Only here a slot becomes empty again.
                    let group = target / GROUP * GROUP;
                    let floors = self.floors.iter_mut().skip(group);
                    floors.take(GROUP).for_each(|floor| *floor = 0);
                }
                bucket.set(at, Slot { name, count, bytes });
            }
            AnyName::Wide([name, rest @ ..]) => {
                evicted.extend(entry(bucket, at + 1));
                let count = count | WIDE;
                bucket.set(at, Slot { name, count, bytes });
                bucket.set(at + 1, Slot::of_words(rest));
            }
        }
        true
    }

    /// The count of an edge, if it has an entry.
    pub fn get<N: Name>(&self, spot: u64, name: &N) -> Option<Count> {
        let (at, slot) = self.search(spot, name)?;
        Some(self.buckets[at].slot(slot).count())
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (AnyName, Count)> {
        let buckets = self.buckets.iter();
        buckets.flat_map(|bucket| (0..WAYS).filter_map(|at| entry(bucket, at)))
    }

    /// Number of slots, occupied or empty.
    pub fn slots(&self) -> usize {
        self.buckets.len() * WAYS
    }

    /// Bytes of all buckets. Bits and floors, about one hundredth of that, are not
    /// included.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * WAYS * SLOT_BYTES
    }

    /// All slots as words, for a saved state.
    pub(crate) fn to_words(&self) -> impl Iterator<Item = u64> {
        let slots = self.buckets.iter().flat_map(Bucket::slots);
        slots.flat_map(words)
    }

    /// Continues from saved words, where `spot` returns that of a name. Returns false, and
    /// changes nothing, if they cannot be those of a crown of this size.
    pub(crate) fn restore(&mut self, all: &[u64], spot: impl Fn(&AnyName) -> u64) -> bool {
        let (slots, rest) = all.as_chunks::<3>();
        let slots: Vec<Slot> = slots.iter().copied().map(Slot::of_words).collect();
        let (buckets, left) = slots.as_chunks::<WAYS>();
        let buckets: Vec<Bucket> = buckets.iter().map(Bucket::new).collect();
        let whole = rest.is_empty() && left.is_empty() && buckets.len() == self.buckets.len();
        // An entry of two slots begins at an even slot. A slot that is not empty has
        // counted a packet.
        let possible = |bucket: &Bucket| {
            (0..WAYS).filter(|at| begins(bucket, *at)).all(|at| {
                let slot = bucket.slot(at);
                (at.is_multiple_of(2) || !slot.is_wide()) && (slot.count == 0 || slot.packets() > 0)
            })
        };
        if !whole || !buckets.iter().all(possible) {
            return false;
        }
        let mut spilled = vec![0; self.spilled.len()];
        for (at, bucket) in buckets.iter().enumerate() {
            for (name, _) in (0..WAYS).filter_map(|slot| entry(bucket, slot)) {
                match self.at(spot(&name)) {
                    home if home == at => {}
                    home if home / GROUP == at / GROUP => spilled[home / 64] |= 1 << (home % 64),
                    _ => return false,
                }
            }
        }
        (self.buckets, self.spilled) = (buckets, spilled);
        self.floors.fill(0);
        true
    }
}

/// The rank that an edge of another bucket has to exceed to replace an entry of this rank.
/// Replacing an entry with one or two packets is not worth reading other buckets for.
#[inline]
fn far(rank: u64) -> u64 {
    FAR * rank.max(FAR)
}

#[cfg(test)]
mod tests;
