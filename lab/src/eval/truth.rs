//! The exact answers for a stream.

use crane_model::{Edge, Weighted};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::rivals::NodeRole;

/// A stream and its exact answers.
pub struct Truth {
    /// The stream in order of arrival.
    pub arrivals: Vec<Weighted>,
    /// Each edge once.
    pub edges: Vec<Edge>,
    /// The count of each edge.
    pub counts: Vec<u64>,
    /// Pairs that never occurred.
    pub absent: Vec<Edge>,
    /// Every node as source and as destination, with its flux.
    pub nodes: Vec<(u32, NodeRole, u64)>,
    /// For each edge, the indices of its source and its destination in `nodes`.
    pub ends: Vec<[usize; 2]>,
}

impl Truth {
    /// Computes the exact answers. The seed selects the absent pairs.
    pub fn of(arrivals: Vec<Weighted>, seed: u64) -> Self {
        let folded = crane_model::fold::fold(&arrivals);
        let edges: Vec<Edge> = folded.iter().map(|w| w.edge).collect();
        let mut index_of: FxHashMap<(u32, bool), usize> = FxHashMap::default();
        let mut nodes: Vec<(u32, NodeRole, u64)> = Vec::new();
        let mut ends = Vec::with_capacity(edges.len());
        for Weighted { edge, weight } in &folded {
            let both = [
                (edge.src, NodeRole::Source),
                (edge.dst, NodeRole::Destination),
            ];
            ends.push(both.map(|(node, direction)| {
                let at = *index_of
                    .entry((node, direction == NodeRole::Source))
                    .or_insert(nodes.len());
                if at == nodes.len() {
                    nodes.push((node, direction, 0));
                }
                nodes[at].2 += weight;
                at
            }));
        }
        Self {
            absent: absent(&edges, seed),
            counts: folded.iter().map(|w| w.weight).collect(),
            arrivals,
            edges,
            nodes,
            ends,
        }
    }

    /// The counts of these edges.
    pub fn counts_of(&self, edges: impl Iterator<Item = Edge>) -> Vec<u64> {
        let known = self.edges.iter().copied().zip(self.counts.iter().copied());
        let known: FxHashMap<Edge, u64> = known.collect();
        let count = |edge| known.get(&edge).copied().unwrap_or(0);
        edges.map(count).collect()
    }
}

/// Pairs of a known source and a known destination that never occurred: as many as there
/// are edges, or fewer if nearly all pairs occurred.
fn absent(edges: &[Edge], seed: u64) -> Vec<Edge> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xab5e);
    let known: FxHashSet<Edge> = edges.iter().copied().collect();
    let mut pairs = Vec::with_capacity(edges.len());
    for _ in 0..4 * edges.len() {
        let src = edges[rng.random_range(0..edges.len())].src;
        let dst = edges[rng.random_range(0..edges.len())].dst;
        if pairs.len() < edges.len() && !known.contains(&Edge::new(src, dst)) {
            pairs.push(Edge::new(src, dst));
        }
    }
    pairs
}
