//! The inputs of the decoder for edges of a sketch, for training.

use std::any::Any;

use crate::Result;
use crate::crane::{Crane, Layered};
use crate::name::Name;
use crate::packed::features::{Features, LoadFeatures};
use crate::packed::layers::PackedLayers;

/// A sketch of the packed profile that has layers.
pub struct DecoderInputs<'a> {
    sketch: &'a Layered,
    layers: &'a PackedLayers,
}

impl<'a> DecoderInputs<'a> {
    /// Returns `None` if the sketch is a table, which needs no decoder, or has another
    /// profile.
    pub fn of(sketch: &'a Crane) -> Option<Self> {
        let sketch = sketch.as_layered()?;
        let layers: &dyn Any = sketch.layers();
        let layers = layers.downcast_ref()?;
        Some(Self { sketch, layers })
    }

    /// Whether an edge is counted in the crown, so that the decoder is not used for it.
    pub fn is_named<N: Name>(&self, edge: &N) -> bool {
        self.sketch.lookup(edge).1.is_some()
    }

    /// The features of each of these edges, identified by their ids
    /// ([`crate::Secret::id`]), and of the sketch as a whole.
    pub fn features(&self, ids: &[u64]) -> Result<(Vec<Features>, LoadFeatures)> {
        self.layers.features(ids, &|| self.sketch.uncrowned())
    }
}
