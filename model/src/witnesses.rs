//! Witnesses: a small uniform sample of the distinct edges, counted exactly.
//!
//! An edge is a witness if its id is below a limit; whenever there are too
//! many, the limit falls. Who is a witness at the end was one from its first
//! packet on, so its count is exact, and every edge had the same chance,
//! however heavy. Witnesses tell the decoder what counts this stream has and
//! how wrong the layers are about them. 24 bytes each.

use crate::table::Total;

/// An edge of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness {
    /// Its id, see [`crate::codes`].
    pub id: u64,
    /// All its packets.
    pub packets: u64,
    /// All its bytes.
    pub bytes: u64,
}

/// Some of the witnesses, for layers to be judged by.
pub struct UncrownedWitnesses {
    /// Those that only the layers know.
    pub witnesses: Vec<Witness>,
    /// Estimate of the distinct edges of the stream.
    pub distinct: f64,
}

/// All witnesses of a sketch.
#[derive(Debug, Clone)]
pub struct Witnesses {
    most: usize,
    /// How many of them are ever asked.
    heard: usize,
    /// Ids from here on are no witnesses.
    limit: u64,
    /// By id.
    seen: Vec<Witness>,
}

impl Witnesses {
    /// At most `most` of them.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            heard: most,
            limit: u64::MAX,
            seen: Vec::with_capacity(most + 1),
        }
    }

    /// None at all, for layers that do not ask.
    pub fn none() -> Self {
        Self {
            limit: 0,
            ..Self::new(0)
        }
    }

    /// Counted as ever, but never asked: what are they worth?
    pub fn unheard(self) -> Self {
        Self { heard: 0, ..self }
    }

    /// Notes packets of an edge. One comparison for most edges, once there
    /// are many.
    #[inline]
    pub fn note(&mut self, id: u64, packets: u64, bytes: u64) {
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

    /// All that the edge with this id has had, if it is one of them or would be
    /// one of them had it occurred.
    pub fn total(&self, id: u64) -> Option<Total> {
        if id >= self.limit || self.heard == 0 {
            return None;
        }
        let found = self.seen.binary_search_by_key(&id, |witness| witness.id);
        Some(found.map_or(Total::default(), |at| Total {
            packets: self.seen[at].packets,
            bytes: self.seen[at].bytes,
        }))
    }

    /// All of them, by id.
    pub fn all(&self) -> &[Witness] {
        &self.seen
    }

    /// Those who are asked.
    pub fn heard(&self) -> &[Witness] {
        &self.seen[..self.seen.len().min(self.heard)]
    }

    /// Estimate of the distinct edges of the stream; exact while all of them
    /// are witnesses.
    pub fn distinct(&self) -> f64 {
        let share = self.limit as f64 / u64::MAX as f64;
        self.seen.len() as f64 / share.max(f64::MIN_POSITIVE)
    }

    /// Ids below this are witnesses.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Continues from a saved sample; says whether it can be one.
    pub fn restore(&mut self, limit: u64, seen: Vec<Witness>) -> bool {
        let sorted = seen.is_sorted_by(|a, b| a.id < b.id);
        let below = seen.iter().all(|w| w.id < limit && w.packets > 0);
        let fits = sorted && below && seen.len() <= self.most;
        if fits {
            (self.limit, self.seen) = (limit, seen);
        }
        fits
    }

    /// What they weigh when there are as many as there may be.
    pub fn memory_bytes(&self) -> usize {
        self.most * size_of::<Witness>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn witnesses_are_exact_and_their_number_tells_how_many_edges_there_are() {
        let secret = Secret::from_seed(3);
        let mut witnesses = Witnesses::new(200);
        for round in 0..3u64 {
            for edge in 0..50_000u64 {
                if edge % 3 >= round {
                    witnesses.note(secret.id(&[edge]), 2, 300);
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
