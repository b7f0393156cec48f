//! The CPU executor: loops over the active rows of a code.
//!
//! Cost per edge and operation: (active rows) × 64 cells. Edges that carry
//! nothing are left behind at their layer, so higher layers see few of them.

use std::sync::Arc;

use multiversion::multiversion;

use super::{CELL_LIMIT, Executor, Load, floor};
use crate::encoder::{CODE, Code};
use crate::{Edge, Result, Weights};

/// Runs the layers in plain loops on this thread.
pub struct Fused {
    weights: Arc<Weights>,
}

impl Fused {
    /// An executor for these weights.
    pub fn new(weights: Arc<Weights>) -> Self {
        Self { weights }
    }
}

type Pair = (Code, Code);

impl Executor for Fused {
    type Plane = Vec<f32>;
    type Edges = Vec<Edge>;
    type Codes = Vec<Pair>;
    type Column = Vec<f32>;

    fn plane(&self) -> Result<Vec<f32>> {
        Ok(vec![0.0; CODE * CODE])
    }

    fn upload(&self, edges: &[Edge], column: Vec<f32>) -> Result<(Vec<Edge>, Vec<f32>)> {
        Ok((edges.to_vec(), column))
    }

    fn encode(&self, layer: usize, edges: &Vec<Edge>) -> Result<Vec<Pair>> {
        let ends = &self.weights.layers[layer];
        let encode = |e: &Edge| (ends.src.encode(e.src), ends.dst.encode(e.dst));
        Ok(edges.iter().map(encode).collect())
    }

    fn add(&self, m: &mut Vec<f32>, codes: &Vec<Pair>, weight: &Vec<f32>) -> Result<()> {
        for (pair, w) in codes.iter().zip(weight).filter(|(_, w)| **w != 0.0) {
            accumulate(m, pair, *w, self.weights.epsilon);
        }
        Ok(())
    }

    fn saturate(&self, m: &mut Vec<f32>) -> Result<()> {
        for cell in m.iter_mut() {
            *cell = cell.min(CELL_LIMIT);
        }
        Ok(())
    }

    fn subtract(&self, m: &mut Vec<f32>, codes: &Vec<Pair>, weight: &Vec<f32>) -> Result<()> {
        for (pair, w) in codes.iter().zip(weight).filter(|(_, w)| **w != 0.0) {
            accumulate(m, pair, -*w, self.weights.epsilon);
        }
        Ok(())
    }

    fn least_ratio(&self, m: &Vec<f32>, codes: &Vec<Pair>) -> Result<Vec<f32>> {
        let ratio = |pair| smallest_ratio(m, pair, self.weights.epsilon);
        Ok(codes.iter().map(ratio).collect())
    }

    fn least_share(&self, m: &Vec<f32>, demand: &Vec<f32>, codes: &Vec<Pair>) -> Result<Vec<f32>> {
        let mut share = vec![0.0; m.len()];
        quotients(m, demand, &mut share);
        Ok(codes
            .iter()
            .map(|pair| smallest_cell(&share, pair).min(1.0))
            .collect())
    }

    fn least_quotient(
        &self,
        m: &Vec<f32>,
        pattern: &Vec<f32>,
        codes: &Vec<Pair>,
    ) -> Result<Vec<f32>> {
        let mut quotient = vec![0.0; m.len()];
        quotients(m, pattern, &mut quotient);
        let least = quotient.iter().copied().fold(f32::INFINITY, f32::min);
        Ok(vec![least; codes.len()])
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

/// `M += w·A`, no cell below 0.
#[multiversion(targets("x86_64+avx+avx2+fma"))]
fn accumulate(m: &mut [f32], (src, dst): &Pair, w: f32, epsilon: f32) {
    for (row, s) in m.chunks_exact_mut(CODE).zip(src) {
        if *s > 0.0 {
            for (cell, d) in row.iter_mut().zip(dst) {
                let a = if *d > 0.0 { s * d + epsilon } else { 0.0 };
                let sum = *cell + w * a;
                *cell = if sum > 0.0 { sum } else { 0.0 };
            }
        }
    }
}

/// Numbers handled side by side in a minimum.
const LANES: usize = 8;

#[multiversion(targets("x86_64+avx+avx2+fma"))]
fn smallest_ratio(m: &[f32], (src, dst): &Pair, epsilon: f32) -> f32 {
    let mut least = [f32::INFINITY; LANES];
    for (row, s) in m.chunks_exact(CODE).zip(src) {
        if *s > 0.0 {
            for (cells, dst) in row.chunks_exact(LANES).zip(dst.chunks_exact(LANES)) {
                for lane in 0..LANES {
                    let ratio = cells[lane] / (s * dst[lane] + epsilon);
                    let ratio = if dst[lane] > 0.0 {
                        ratio
                    } else {
                        f32::INFINITY
                    };
                    least[lane] = if ratio < least[lane] {
                        ratio
                    } else {
                        least[lane]
                    };
                }
            }
        }
    }
    least.into_iter().fold(f32::INFINITY, f32::min)
}

#[multiversion(targets("x86_64+avx+avx2+fma"))]
fn smallest_cell(m: &[f32], (src, dst): &Pair) -> f32 {
    let mut least = [f32::INFINITY; LANES];
    for (row, s) in m.chunks_exact(CODE).zip(src) {
        if *s > 0.0 {
            for (cells, dst) in row.chunks_exact(LANES).zip(dst.chunks_exact(LANES)) {
                for lane in 0..LANES {
                    let cell = if dst[lane] > 0.0 {
                        cells[lane]
                    } else {
                        f32::INFINITY
                    };
                    least[lane] = if cell < least[lane] {
                        cell
                    } else {
                        least[lane]
                    };
                }
            }
        }
    }
    least.into_iter().fold(f32::INFINITY, f32::min)
}

/// `M/divisor` cell by cell; infinite where the divisor is 0.
fn quotients(m: &[f32], divisor: &[f32], out: &mut [f32]) {
    for ((out, m), d) in out.iter_mut().zip(m).zip(divisor) {
        *out = if *d > 0.0 { m / d } else { f32::INFINITY };
    }
}

fn load(m: &[f32]) -> Load {
    let mut sum = [0.0f32; LANES];
    let mut max = [0.0f32; LANES];
    let mut digits = 0.0;
    for cells in m.chunks_exact(LANES) {
        for lane in 0..LANES {
            digits += cells[lane].ln_1p();
            sum[lane] += cells[lane];
            max[lane] = max[lane].max(cells[lane]);
        }
    }
    Load {
        mean: sum.iter().sum::<f32>() / m.len() as f32,
        max: max.into_iter().fold(0.0, f32::max),
        typical: (digits / m.len() as f32).exp(),
    }
}
