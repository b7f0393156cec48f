//! Edges of a graph stream.

/// A directed edge between two nodes with 32-bit ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    /// Source id.
    pub src: u32,
    /// Destination id.
    pub dst: u32,
}

impl Edge {
    /// The edge `src → dst`.
    pub fn new(src: u32, dst: u32) -> Self {
        Self { src, dst }
    }
}

/// An edge that arrives `weight` times at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weighted {
    /// The edge.
    pub edge: Edge,
    /// The number of arrivals. 0 is allowed and stores nothing.
    pub weight: u64,
}

impl Weighted {
    /// `edge` with the weight `weight`.
    pub fn new(edge: Edge, weight: u64) -> Self {
        Self { edge, weight }
    }
}
