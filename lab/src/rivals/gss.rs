//! GSS (Gou et al., 2019): a matrix of rooms that remember a fingerprint of
//! their edge. Square hashing gives each edge several candidate rooms; it
//! takes the first that is its own or free.
//!
//! The original keeps edges without a room in an unbounded buffer. Within a
//! budget there is none: such an edge is added to the lightest of its
//! candidates, which then answers too high for both.

use crane_model::{Edge, Error, Result, Weighted};

use super::{Rival, hash_node, too_small};

/// Rows and columns that an edge can be stored in.
const ADDRESSES: usize = 4;
/// Bytes of a room: two fingerprints of 8 bits, two indices in one byte, a
/// 32-bit weight.
const ROOM: usize = 7;

/// Distinguishes the edges that share a room.
type Mark = [u8; 3];

/// A matrix of rooms.
pub struct Gss {
    width: usize,
    seed: u64,
    marks: Vec<Mark>,
    weights: Vec<u32>,
}

impl Gss {
    /// The largest square matrix of rooms that fits `bytes`.
    pub fn new(bytes: usize, seed: u64) -> Result<Self> {
        let width = (bytes / ROOM).isqrt();
        if width < ADDRESSES {
            return Err(too_small(bytes, ADDRESSES * ADDRESSES * ROOM));
        }
        let rooms = width * width;
        Ok(Self {
            width,
            seed,
            marks: vec![[0; 3]; rooms],
            weights: vec![0; rooms],
        })
    }

    /// The candidate rooms of an edge, and its mark in each of them.
    fn candidates(&self, edge: Edge) -> [(usize, Mark); ADDRESSES * ADDRESSES] {
        let (src, src_mark) = self.addresses(edge.src, 0);
        let (dst, dst_mark) = self.addresses(edge.dst, 1);
        std::array::from_fn(|n| {
            let (i, j) = (n / ADDRESSES, n % ADDRESSES);
            (
                src[i] * self.width + dst[j],
                [src_mark, dst_mark, (i << 4 | j) as u8],
            )
        })
    }

    /// Rows (or columns) of a node, from a linear congruential sequence that starts with
    /// its fingerprint, and the fingerprint.
    fn addresses(&self, node: u32, end: u64) -> ([usize; ADDRESSES], u8) {
        let hash = hash_node(node, self.seed ^ end << 32);
        let mark = hash as u8;
        let base = (hash >> 8) as usize % self.width;
        let mut step = usize::from(mark);
        let rows = std::array::from_fn(|_| {
            step = (step * 5 + 3) % 65_521;
            (base + step) % self.width
        });
        (rows, mark)
    }
}

impl Rival for Gss {
    fn store(&mut self, batch: &[Weighted]) -> Result<()> {
        for arrival in batch.iter().filter(|arrival| arrival.weight > 0) {
            let candidates = self.candidates(arrival.edge);
            let own = candidates
                .iter()
                .find(|(room, mark)| self.weights[*room] == 0 || self.marks[*room] == *mark);
            let lightest = || {
                candidates
                    .iter()
                    .min_by_key(|(room, _)| self.weights[*room])
            };
            let Some((room, mark)) = own.or_else(lightest).copied() else {
                continue;
            };
            if self.weights[room] == 0 {
                self.marks[room] = mark;
            }
            let weight = u32::try_from(arrival.weight).unwrap_or(u32::MAX);
            self.weights[room] = self.weights[room].saturating_add(weight);
        }
        Ok(())
    }

    fn query(&self, edges: &[Edge]) -> Result<Vec<f64>> {
        let answer = |edge: &Edge| {
            let candidates = self.candidates(*edge);
            for (room, mark) in &candidates {
                if self.weights[*room] == 0 {
                    return 0.0; // the edge would have this room
                }
                if self.marks[*room] == *mark {
                    return f64::from(self.weights[*room]);
                }
            }
            let lightest = candidates.iter().map(|(room, _)| self.weights[*room]).min();
            f64::from(lightest.unwrap_or(0))
        };
        Ok(edges.iter().map(answer).collect())
    }

    fn memory_bytes(&self) -> usize {
        ROOM * self.weights.len()
    }

    fn save(&self) -> Result<Vec<u8>> {
        let mut state: Vec<u8> = self.marks.iter().flatten().copied().collect();
        state.extend(super::to_bytes(&self.weights));
        Ok(state)
    }

    fn load(&mut self, state: &[u8]) -> Result<()> {
        let marks = 3 * self.marks.len();
        let Some((head, tail)) = state.split_at_checked(marks) else {
            return Err(Error::State("it is too short".into()));
        };
        super::from_bytes(&mut self.weights, tail)?;
        self.marks = head.as_chunks::<3>().0.to_vec();
        Ok(())
    }
}
