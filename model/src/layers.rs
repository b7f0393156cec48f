//! Layers: what both profiles have below the crown.

/// How full a layer is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// λ, the mean over all cells.
    pub mean: f32,
    /// The fullest cell; at its limit the layer is saturated.
    pub max: f32,
    /// What a cell usually holds, however full a few of them are: the
    /// geometric mean of all, each taken with 1 more.
    pub typical: f32,
}
