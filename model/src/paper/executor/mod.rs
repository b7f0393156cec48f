//! Executors: the operations of a batch of edges on one layer.
//!
//! An executor encodes a batch, adds its patterns to a layer, computes smallest ratios
//! and subtracts. Store, carry, expansion and query are written once on top of these
//! operations (see [`crate::paper::carry`] and [`crate::paper::hierarchy`]), so that both
//! executors give the same results:
//!
//! - [`fused`]: plain loops over the active cells, on the CPU;
//! - [`tensor`]: candle tensor operations, on any candle device. Everything but
//!   [`Executor::read`] stays on the device.
//!
//! The pattern of an edge is `A = E_src·E_dstᵀ + ε` on the cells where both codes are
//! active. The paper adds ε to the other cells as well. There the ratio is at least the
//! weight of the whole layer, so these cells cannot be the minimum and are left out.

pub mod fused;
pub mod tensor;

use crate::layers::Load;
use crate::{Edge, Result};

/// Largest value of a cell: f32 represents integers exactly up to here.
pub const CELL_LIMIT: f32 = 16_777_216.0;

/// Tolerance of [`floor`]: counts are integers, so a number slightly below an integer is
/// that integer with rounding errors, which differ between executors.
pub const FLOOR_SLACK: f32 = 1e-4;
/// Relative tolerance of [`floor`], for large numbers.
pub const FLOOR_STRETCH: f32 = 1.0 + 1e-6;

/// The largest integer that is not above `x`, with tolerance for rounding errors.
pub fn floor(x: f32) -> f32 {
    (x * FLOOR_STRETCH + FLOOR_SLACK).floor()
}

/// The operations of one layer on one kind of device.
pub trait Executor: Send + Sync {
    /// The memory of one layer.
    type Plane: Send + Sync;
    /// A batch of edges.
    type Edges;
    /// The codes of a batch for one layer.
    type Patterns;
    /// One number for each edge of a batch.
    type Column;

    /// A layer of zeros.
    fn plane(&self) -> Result<Self::Plane>;

    /// Copies a batch to the device, with one number for each edge.
    fn upload(&self, edges: &[Edge], column: Vec<f32>) -> Result<(Self::Edges, Self::Column)>;

    /// The codes of the batch for layer `layer`, counted from 0.
    fn encode(&self, layer: usize, edges: &Self::Edges) -> Result<Self::Patterns>;

    /// `M += Σ weight·A`.
    fn add(&self, m: &mut Self::Plane, codes: &Self::Patterns, weight: &Self::Column)
    -> Result<()>;

    /// Limits every cell to [`CELL_LIMIT`].
    fn saturate(&self, m: &mut Self::Plane) -> Result<()>;

    /// `M −= Σ weight·A`, no cell below 0.
    fn subtract(
        &self,
        m: &mut Self::Plane,
        codes: &Self::Patterns,
        weight: &Self::Column,
    ) -> Result<()>;

    /// For each edge the smallest `M/A` over its cells.
    fn least_ratio(&self, m: &Self::Plane, codes: &Self::Patterns) -> Result<Self::Column>;

    /// For each edge the smallest `M/demand` over its cells, at most 1.
    fn least_share(
        &self,
        m: &Self::Plane,
        demand: &Self::Plane,
        codes: &Self::Patterns,
    ) -> Result<Self::Column>;

    /// The smallest `M/pattern` over all cells the pattern touches, the same
    /// number for each of the batch's edges.
    fn least_quotient(
        &self,
        m: &Self::Plane,
        pattern: &Self::Plane,
        codes: &Self::Patterns,
    ) -> Result<Self::Column>;

    /// `x + y`, edge by edge.
    fn sum(&self, x: &Self::Column, y: &Self::Column) -> Result<Self::Column>;

    /// `x·y`, edge by edge.
    fn product(&self, x: &Self::Column, y: &Self::Column) -> Result<Self::Column>;

    /// `x·factor`.
    fn scale(&self, x: &Self::Column, factor: f32) -> Result<Self::Column>;

    /// [`floor`] of each number; 0 for edges that were `given` nothing, so that an edge
    /// that did not reach a layer carries nothing out of it.
    fn floor(&self, x: &Self::Column, given: &Self::Column) -> Result<Self::Column>;

    /// Whether any number is not 0. An executor that would have to wait for the device
    /// returns true.
    fn any(&self, x: &Self::Column) -> bool;

    /// The edges that carry something. An executor that would have to wait for the device
    /// returns all edges. `None` ends the carry.
    fn remaining(
        &self,
        edges: Self::Edges,
        carried: Self::Column,
    ) -> Result<Option<(Self::Edges, Self::Column)>>;

    /// Copies the loads of the layers and some columns to the host, in one transfer. This
    /// is the only way from the device to the host during store and query.
    fn read(
        &self,
        planes: &[Self::Plane],
        columns: &[Self::Column],
    ) -> Result<(Vec<Load>, Vec<Vec<f32>>)>;

    /// All cells of a layer, row by row.
    fn cells(&self, plane: &Self::Plane) -> Result<Vec<f32>>;

    /// A layer with these cells.
    fn plane_from(&self, cells: &[f32]) -> Result<Self::Plane>;

    /// Display name of the device.
    fn device_name(&self) -> String;
}
