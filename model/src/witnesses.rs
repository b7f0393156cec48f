//! Witnesses: a small uniform sample of the distinct edges, counted exactly.
//!
//! An edge is a witness if its id is below a limit. Whenever there are more than m
//! witnesses, the limit is lowered to the largest id among them. An edge that is a
//! witness at the end was one from its first packet on, so its count is exact, and every
//! edge has the same chance to be one, no matter how heavy it is. The decoder takes from
//! the witnesses which counts this stream has and how wrong the layers are about them.
//!
//! **Accuracy.** Counts are exact. The number of distinct edges, m divided by the share
//! of ids below the limit, has a relative standard error of about 1/√m: 18 % for m = 32,
//! 4.4 % for m = 512. **Cost.** 24 bytes for each witness. One comparison for nearly all
//! arrivals; a binary search for an arrival of a witness.

use crate::table::Total;

/// A sampled edge with its exact count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness {
    /// Id of the edge, see [`crate::codes`].
    pub id: u64,
    /// All packets of the edge.
    pub packets: u64,
    /// All bytes of the edge.
    pub bytes: u64,
}

/// The witnesses that calibrate the layers.
pub struct UncrownedWitnesses {
    /// Witnesses without an entry in the crown.
    pub witnesses: Vec<Witness>,
    /// Estimated number of distinct edges of the stream.
    pub distinct: f64,
}

/// All witnesses of a sketch.
///
/// ```
/// use crane_model::Secret;
/// use crane_model::witnesses::Witnesses;
///
/// let secret = Secret::from_seed(1);
/// let mut witnesses = Witnesses::new(4);
/// for edge in 0..3u64 {
///     witnesses.record(secret.id(&[edge]), 2, 120);
/// }
/// // All edges fit, so their number is exact.
/// assert_eq!(witnesses.distinct().round(), 3.0);
/// ```
#[derive(Debug, Clone)]
pub struct Witnesses {
    most: usize,
    /// How many of them may be used for answers: all or none.
    usable: usize,
    /// An edge is a witness if its id is below this.
    limit: u64,
    /// Sorted by id.
    seen: Vec<Witness>,
}

impl Witnesses {
    /// At most `most` witnesses.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            usable: most,
            limit: u64::MAX,
            seen: Vec::with_capacity(most + 1),
        }
    }

    /// No witnesses, for layers that do not use them.
    pub fn none() -> Self {
        Self {
            limit: 0,
            ..Self::new(0)
        }
    }

    /// Witnesses that are counted but never used for answers. This serves ablations,
    /// which measure what witnesses contribute; no profile of this crate uses it.
    pub fn counted_only(self) -> Self {
        Self { usable: 0, ..self }
    }

    /// Counts packets of an edge if it is a witness. Once there are many edges, this is
    /// one comparison for most of them.
    #[inline]
    pub fn record(&mut self, id: u64, packets: u64, bytes: u64) {
        if id < self.limit {
            self.count(id, packets, bytes);
        }
    }

    /// Counts packets of a witness.
    #[cold]
    fn count(&mut self, id: u64, packets: u64, bytes: u64) {
        match self.seen.binary_search_by_key(&id, |witness| witness.id) {
            Ok(at) => {
                let witness = &mut self.seen[at];
                witness.packets = witness.packets.saturating_add(packets);
                witness.bytes = witness.bytes.saturating_add(bytes);
            }
            Err(at) => {
                let witness = Witness { id, packets, bytes };
                self.seen.insert(at, witness);
                if self.seen.len() > self.most
                    && let Some(last) = self.seen.pop()
                {
                    self.limit = last.id;
                }
            }
        }
    }

    /// The exact total of the edge with this id. It is 0 if the id is below the limit and
    /// the edge never occurred, and `None` if the edge is not a witness.
    pub fn total(&self, id: u64) -> Option<Total> {
        if id >= self.limit || self.usable == 0 {
            return None;
        }
        let found = self.seen.binary_search_by_key(&id, |witness| witness.id);
        Some(found.map_or(Total::default(), |at| Total {
            packets: self.seen[at].packets,
            bytes: self.seen[at].bytes,
        }))
    }

    /// All witnesses, sorted by id.
    pub fn all(&self) -> &[Witness] {
        &self.seen
    }

    /// The witnesses that may be used for answers.
    pub fn usable(&self) -> &[Witness] {
        &self.seen[..self.seen.len().min(self.usable)]
    }

    /// Estimated number of distinct edges of the stream. Exact while all of them are
    /// witnesses.
    pub fn distinct(&self) -> f64 {
        let share = self.limit as f64 / u64::MAX as f64;
        self.seen.len() as f64 / share.max(f64::MIN_POSITIVE)
    }

    /// Ids below this are those of witnesses.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Continues from saved witnesses. Returns false, and changes nothing, if they are
    /// invalid.
    pub fn restore(&mut self, limit: u64, seen: Vec<Witness>) -> bool {
        let sorted = seen.is_sorted_by(|a, b| a.id < b.id);
        let below = seen.iter().all(|w| w.id < limit && w.packets > 0);
        let fits = sorted && below && seen.len() <= self.most;
        if fits {
            (self.limit, self.seen) = (limit, seen);
        }
        fits
    }

    /// Bytes of the largest number of witnesses.
    pub fn memory_bytes(&self) -> usize {
        self.most * size_of::<Witness>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn witnesses_are_exact_and_give_the_number_of_edges() {
        let secret = Secret::from_seed(3);
        let mut witnesses = Witnesses::new(200);
        for round in 0..3u64 {
            for edge in 0..50_000u64 {
                if edge % 3 >= round {
                    witnesses.record(secret.id(&[edge]), 2, 300);
                }
            }
        }
        assert_eq!(witnesses.all().len(), 200);
        assert_eq!(witnesses.memory_bytes(), 4800);
        let distinct = witnesses.distinct();
        assert!((40_000.0..60_000.0).contains(&distinct), "{distinct}");
        let truth = |edge: u64| 2 * (1 + edge % 3);
        for witness in witnesses.all() {
            let edge = (0..50_000u64)
                .find(|edge| secret.id(&[*edge]) == witness.id)
                .unwrap();
            assert_eq!(witness.packets, truth(edge));
            assert_eq!(witness.bytes, 150 * truth(edge));
        }
    }
}
