//! TCM (Tang et al., 2016): adjacency matrices of hashed nodes. An edge is a
//! cell, a node is a row or a column; the answer is the smallest over the
//! matrices.

use crane_model::{Edge, Result, Weighted};

use super::{NodeRole, Rival, from_bytes, hash_node, reduce, to_bytes, too_small};

/// Square matrices of 32-bit counters that saturate.
pub struct Tcm {
    matrices: usize,
    width: usize,
    seed: u64,
    cells: Vec<u32>,
}

impl Tcm {
    /// `matrices` matrices, as large as fits `bytes`.
    pub fn new(bytes: usize, matrices: usize, seed: u64) -> Result<Self> {
        let width = (bytes / 4 / matrices).isqrt();
        if width == 0 {
            return Err(too_small(bytes, 4 * matrices));
        }
        Ok(Self {
            matrices,
            width,
            seed,
            cells: vec![0; matrices * width * width],
        })
    }

    fn node(&self, matrix: usize, node: u32) -> usize {
        reduce(hash_node(node, self.seed + matrix as u64), self.width)
    }

    fn index(&self, matrix: usize, edge: Edge) -> usize {
        (matrix * self.width + self.node(matrix, edge.src)) * self.width
            + self.node(matrix, edge.dst)
    }
}

impl Rival for Tcm {
    fn store(&mut self, batch: &[Weighted]) -> Result<()> {
        for arrival in batch {
            let weight = u32::try_from(arrival.weight).unwrap_or(u32::MAX);
            for matrix in 0..self.matrices {
                let index = self.index(matrix, arrival.edge);
                self.cells[index] = self.cells[index].saturating_add(weight);
            }
        }
        Ok(())
    }

    fn query(&self, edges: &[Edge]) -> Result<Vec<f64>> {
        let answer = |edge: &Edge| {
            let cells = (0..self.matrices).map(|matrix| self.cells[self.index(matrix, *edge)]);
            f64::from(cells.min().unwrap_or(0))
        };
        Ok(edges.iter().map(answer).collect())
    }

    fn flux(&self, node: u32, direction: NodeRole) -> Option<f64> {
        let sum = |matrix: usize| -> u64 {
            let (node, size) = (self.node(matrix, node), self.width * self.width);
            let cells = &self.cells[matrix * size..(matrix + 1) * size];
            let (first, step) = match direction {
                NodeRole::Source => (node * self.width, 1),
                NodeRole::Destination => (node, self.width),
            };
            cells[first..]
                .iter()
                .step_by(step)
                .take(self.width)
                .map(|cell| u64::from(*cell))
                .sum()
        };
        (0..self.matrices).map(sum).min().map(|flux| flux as f64)
    }

    fn memory_bytes(&self) -> usize {
        4 * self.cells.len()
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(to_bytes(&self.cells))
    }

    fn load(&mut self, state: &[u8]) -> Result<()> {
        from_bytes(&mut self.cells, state)
    }
}
