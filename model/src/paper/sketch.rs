//! The paper's sketch, whatever executes it.

use crate::layers::Load;
use crate::{Edge, Result, Weighted};

/// The ratios of one edge, bottom layer first.
pub type Ratios = Vec<f32>;

/// A sketch of an edge stream, on whatever device.
pub trait Sketch: Send {
    /// Stores a batch. Equal edges are folded into one, except in sequential
    /// carry, where each arrival counts by itself.
    fn store(&mut self, batch: &[Weighted]) -> Result<()>;

    /// Stores a batch without equal edges and returns the ratios of its edges
    /// afterwards, in one transfer from the device.
    fn store_and_query(&mut self, batch: &[Weighted]) -> Result<Vec<Ratios>>;

    /// The smallest ratios of each edge in each layer.
    fn ratios(&self, edges: &[Edge]) -> Result<Vec<Ratios>>;

    /// Takes up to `amount` of this edge out of the layers; returns what was taken.
    fn take(&mut self, edge: Edge, amount: u64) -> Result<u64>;

    /// What the weights make of these ratios.
    fn decode(&self, ratios: &[f32]) -> f64;

    /// The upper bound these ratios give: Σ θ^(i−1)·q_i, or, where every layer
    /// is written to, the largest of them. What came before the top layer was
    /// there can be missing in that.
    fn bound(&self, ratios: &[f32]) -> f64;

    /// How full each layer is, bottom first.
    fn loads(&self) -> &[Load];

    /// Layers added since the start or the last reset.
    fn expansions(&self) -> usize;

    /// Bytes of memory the answers come from.
    fn memory_bytes(&self) -> usize;

    /// Forgets everything and shrinks to the starting size.
    fn reset(&mut self) -> Result<()>;

    /// All state, to be given to [`Sketch::load_state`] later.
    fn save_state(&self) -> Result<Vec<u8>>;

    /// Continues from a saved state.
    fn load_state(&mut self, state: &[u8]) -> Result<()>;

    /// Where this runs, for people.
    fn device_name(&self) -> String;

    /// Whether a cell or a weight has reached its limit, so that counts may be
    /// too low.
    fn is_saturated(&self) -> bool;

    /// The estimate for each edge.
    fn query(&self, edges: &[Edge]) -> Result<Vec<f64>> {
        let ratios = self.ratios(edges)?;
        Ok(ratios.iter().map(|ratios| self.decode(ratios)).collect())
    }

    /// Flux of a node: the sum of the estimates of its known edges.
    fn flux(&self, edges: &[Edge]) -> Result<f64> {
        Ok(self.query(edges)?.iter().sum())
    }
}
