//! The CPU executor: loops over the active cells of each edge. Codes of trained encoders
//! are nearly one-hot, so an edge has one or two active cells.

use std::sync::Arc;

use super::{CELL_LIMIT, Executor, floor};
use crate::layers::Load;
use crate::paper::encoder::{CODE, Code};
use crate::{Edge, PaperWeights, Result};

/// Runs the layers in plain loops on this thread.
#[derive(Clone)]
pub struct Fused {
    weights: Arc<PaperWeights>,
}

impl Fused {
    /// An executor for these weights.
    pub fn new(weights: Arc<PaperWeights>) -> Self {
        Self { weights }
    }
}

/// One active cell of an edge.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// Index of the cell in its layer.
    pub index: u16,
    /// A, the value of the edge's pattern in this cell.
    pub share: f32,
}

/// The active cells of the edges of a batch.
#[derive(Default)]
pub struct Patterns {
    cells: Vec<Cell>,
    /// For each edge, the index behind its last cell.
    ends: Vec<usize>,
}

impl Patterns {
    fn push(&mut self, src: &Code, dst: &Code, epsilon: f32) {
        for (row, s) in src.iter().enumerate().filter(|(_, s)| **s > 0.0) {
            let columns = dst.iter().enumerate().filter(|(_, d)| **d > 0.0);
            self.cells.extend(columns.map(|(column, d)| Cell {
                index: (row * CODE + column) as u16,
                share: s * d + epsilon,
            }));
        }
        self.ends.push(self.cells.len());
    }

    /// The cells of each edge.
    pub fn iter(&self) -> impl Iterator<Item = &[Cell]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.cells[start..*end])
    }

    /// `M += Σ weight·A`, no cell below 0.
    fn accumulate(&self, m: &mut [f32], weight: impl Iterator<Item = f32>) {
        for (cells, w) in self.iter().zip(weight).filter(|(_, w)| *w != 0.0) {
            for cell in cells {
                let held = &mut m[usize::from(cell.index)];
                let sum = *held + w * cell.share;
                *held = if sum > 0.0 { sum } else { 0.0 };
            }
        }
    }

    /// The smallest value of each edge's cells.
    fn least(&self, value: impl Fn(&Cell) -> f32) -> Vec<f32> {
        let least = |cells: &[Cell]| {
            let values = cells.iter().map(&value);
            values.fold(f32::INFINITY, |a, b| if b < a { b } else { a })
        };
        self.iter().map(least).collect()
    }
}

impl Executor for Fused {
    type Plane = Vec<f32>;
    type Edges = Vec<Edge>;
    type Patterns = Patterns;
    type Column = Vec<f32>;

    fn plane(&self) -> Result<Vec<f32>> {
        Ok(vec![0.0; CODE * CODE])
    }

    fn upload(&self, edges: &[Edge], column: Vec<f32>) -> Result<(Vec<Edge>, Vec<f32>)> {
        Ok((edges.to_vec(), column))
    }

    fn encode(&self, layer: usize, edges: &Vec<Edge>) -> Result<Patterns> {
        let ends = &self.weights.layers[layer];
        let mut patterns = Patterns::default();
        for edge in edges {
            let (src, dst) = (ends.src.encode(edge.src), ends.dst.encode(edge.dst));
            patterns.push(&src, &dst, self.weights.epsilon);
        }
        Ok(patterns)
    }

    fn add(&self, m: &mut Vec<f32>, codes: &Patterns, weight: &Vec<f32>) -> Result<()> {
        codes.accumulate(m, weight.iter().copied());
        Ok(())
    }

    fn saturate(&self, m: &mut Vec<f32>) -> Result<()> {
        for cell in m.iter_mut() {
            *cell = cell.min(CELL_LIMIT);
        }
        Ok(())
    }

    fn subtract(&self, m: &mut Vec<f32>, codes: &Patterns, weight: &Vec<f32>) -> Result<()> {
        codes.accumulate(m, weight.iter().map(|w| -w));
        Ok(())
    }

    fn least_ratio(&self, m: &Vec<f32>, codes: &Patterns) -> Result<Vec<f32>> {
        Ok(codes.least(|cell| m[usize::from(cell.index)] / cell.share))
    }

    fn least_share(&self, m: &Vec<f32>, demand: &Vec<f32>, codes: &Patterns) -> Result<Vec<f32>> {
        let share = quotients(m, demand);
        let mut least = codes.least(|cell| share[usize::from(cell.index)]);
        least.iter_mut().for_each(|share| *share = share.min(1.0));
        Ok(least)
    }

    fn least_quotient(
        &self,
        m: &Vec<f32>,
        pattern: &Vec<f32>,
        codes: &Patterns,
    ) -> Result<Vec<f32>> {
        let quotient = quotients(m, pattern);
        let least = quotient.into_iter().fold(f32::INFINITY, f32::min);
        Ok(vec![least; codes.ends.len()])
    }

    fn sum(&self, x: &Vec<f32>, y: &Vec<f32>) -> Result<Vec<f32>> {
        Ok(x.iter().zip(y).map(|(x, y)| x + y).collect())
    }

    fn product(&self, x: &Vec<f32>, y: &Vec<f32>) -> Result<Vec<f32>> {
        Ok(x.iter().zip(y).map(|(x, y)| x * y).collect())
    }

    fn scale(&self, x: &Vec<f32>, factor: f32) -> Result<Vec<f32>> {
        Ok(x.iter().map(|x| x * factor).collect())
    }

    fn floor(&self, x: &Vec<f32>, given: &Vec<f32>) -> Result<Vec<f32>> {
        let whole = |(x, given): (&f32, &f32)| if *given > 0.0 { floor(*x) } else { 0.0 };
        Ok(x.iter().zip(given).map(whole).collect())
    }

    fn any(&self, x: &Vec<f32>) -> bool {
        x.iter().any(|x| *x != 0.0)
    }

    fn remaining(
        &self,
        edges: Vec<Edge>,
        carried: Vec<f32>,
    ) -> Result<Option<(Vec<Edge>, Vec<f32>)>> {
        let (edges, carried): (Vec<_>, Vec<_>) = edges
            .into_iter()
            .zip(carried)
            .filter(|(_, c)| *c > 0.0)
            .unzip();
        Ok((!edges.is_empty()).then_some((edges, carried)))
    }

    fn read(
        &self,
        planes: &[Vec<f32>],
        columns: &[Vec<f32>],
    ) -> Result<(Vec<Load>, Vec<Vec<f32>>)> {
        Ok((planes.iter().map(|m| load(m)).collect(), columns.to_vec()))
    }

    fn cells(&self, plane: &Vec<f32>) -> Result<Vec<f32>> {
        Ok(plane.clone())
    }

    fn plane_from(&self, cells: &[f32]) -> Result<Vec<f32>> {
        Ok(cells.to_vec())
    }

    fn device_name(&self) -> String {
        "cpu".into()
    }
}

/// `M/divisor` cell by cell; infinite where the divisor is 0.
fn quotients(m: &[f32], divisor: &[f32]) -> Vec<f32> {
    let cells = m.iter().zip(divisor);
    cells
        .map(|(m, d)| if *d > 0.0 { m / d } else { f32::INFINITY })
        .collect()
}

/// Numbers that are added at the same time.
const LANES: usize = 8;

/// The product of so many (1 + cell) does not exceed the range of f64.
const FACTORS: usize = 32;

fn load(m: &[f32]) -> Load {
    let mut sum = [0.0f32; LANES];
    let mut max = [0.0f32; LANES];
    let mut digits = 0.0;
    for cells in m.chunks(FACTORS) {
        let mut product = [1.0f64; LANES];
        for cells in cells.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                product[lane] *= f64::from(cells[lane]) + 1.0;
                sum[lane] += cells[lane];
                max[lane] = max[lane].max(cells[lane]);
            }
        }
        // One logarithm of a product instead of many logarithms, which would cost more
        // than everything else.
        digits += product.iter().product::<f64>().ln();
    }
    Load {
        mean: sum.iter().sum::<f32>() / m.len() as f32,
        max: max.into_iter().fold(0.0, f32::max),
        typical: (digits / m.len() as f64).exp() as f32,
    }
}
