//! The interface of the paper's sketch, independent of its executor.

use crate::layers::Load;
use crate::{Edge, Result, Weighted};

/// The ratios of one edge, bottom layer first.
pub type Ratios = Vec<f32>;

/// A sketch of an edge stream on any device.
pub trait Sketch: Send + Sync {
    /// Stores a batch. Equal edges are merged, except with sequential carry, where each
    /// arrival is stored by itself.
    fn store(&mut self, batch: &[Weighted]) -> Result<()>;

    /// Stores a batch without equal edges and returns the ratios of its edges afterwards,
    /// with one transfer from the device.
    fn store_and_query(&mut self, batch: &[Weighted]) -> Result<Vec<Ratios>>;

    /// The smallest ratios of each edge in each layer.
    fn ratios(&self, edges: &[Edge]) -> Result<Vec<Ratios>>;

    /// Subtracts up to `amount` packets of this edge from the layers. Returns how many
    /// were subtracted.
    fn take(&mut self, edge: Edge, amount: u64) -> Result<u64>;

    /// The estimate of the decoder for these ratios.
    fn decode(&self, ratios: &[f32]) -> f64;

    /// The upper bound for these ratios: Σ θ^(i−1)·q_i, or, if every layer is written to,
    /// the largest ratio. It does not include packets that were stored before the top
    /// layer was added.
    fn bound(&self, ratios: &[f32]) -> f64;

    /// How full each layer is, bottom first.
    fn loads(&self) -> &[Load];

    /// Layers added since the start or the last reset.
    fn expansions(&self) -> usize;

    /// Bytes of all layers.
    fn memory_bytes(&self) -> usize;

    /// Removes all contents and returns to the initial number of layers.
    fn reset(&mut self) -> Result<()>;

    /// The state, to be given to [`Sketch::load_state`].
    fn save_state(&self) -> Result<Vec<u8>>;

    /// Continues from a saved state.
    fn load_state(&mut self, state: &[u8]) -> Result<()>;

    /// Display name of the device.
    fn device_name(&self) -> String;

    /// Whether a cell or a weight has reached its limit, so that estimates may be too
    /// low.
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
