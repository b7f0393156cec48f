//! One training task: storing a stream and reading it, with gradient.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use crane_model::paper::executor::fused::Fused;
use crane_model::{Edge, Hierarchy, HierarchySettings, Ids, PaperWeights, Result};
use rand::Rng;
use rand::seq::index;
use rustc_hash::FxHashMap;

use super::network::{TrainableEncoder, bits};
use crate::train::streams::Stream;

/// Weight of an uneven use of outputs in the loss.
const UNEVENNESS_SHARE: f64 = 1.0;
/// Largest number of edges of a task that have a gradient.
const SAMPLE: usize = 3072;

/// A sketch after it has stored a stream.
pub struct Stored {
    /// The filled sketch.
    pub sketch: Hierarchy<Fused>,
    /// By layer and edge: what the edge added to the layer, minus what it carried on.
    pub kept: Vec<Vec<f32>>,
}

/// Stores a stream in batches, without gradient.
pub fn store(
    weights: &Arc<PaperWeights>,
    settings: &HierarchySettings,
    stream: &Stream,
    batch: usize,
) -> Result<Stored> {
    let mut sketch = Hierarchy::new(
        Fused::new(Arc::clone(weights)),
        Arc::clone(weights),
        settings.clone(),
    )?;
    let seen = stream.edges.iter().map(|edge| weights.ids.of(*edge));
    let index_of: FxHashMap<Edge, usize> = seen.zip(0..).collect();
    let mut kept = vec![vec![0.0; stream.edges.len()]; settings.max_layers];
    let theta = settings.theta;
    let mut observer =
        |layer: usize, edges: &Vec<Edge>, given: &Vec<f32>, carried: Option<&Vec<f32>>| {
            for (at, edge) in edges.iter().enumerate() {
                kept[layer][index_of[edge]] +=
                    given[at] - carried.map_or(0.0, |carried| theta * carried[at]);
            }
        };
    for arrivals in stream.arrivals.chunks(batch) {
        sketch.store_observed(arrivals, &mut observer)?;
    }
    Ok(Stored { sketch, kept })
}

/// The loss of the layers: the mean absolute error, in log space, of reading back what
/// each layer holds of an edge, over a sample of the edges; plus a term for the uneven
/// use of outputs.
///
/// The error of the decoded count does not train the encoders: under load the best
/// decoded answer is a constant, whatever the codes are, and its gradient is dominated by
/// the heaviest streams.
pub fn loss(
    encoders: &[[TrainableEncoder; 2]],
    (ids, epsilon): (Ids, f32),
    stream: &Stream,
    stored: &Stored,
    rng: &mut impl Rng,
) -> Result<Tensor> {
    let sample = index::sample(rng, stream.edges.len(), stream.edges.len().min(SAMPLE)).into_vec();
    let edges: Vec<Edge> = sample.iter().map(|at| ids.of(stream.edges[*at])).collect();
    let src = bits(&edges.iter().map(|edge| edge.src).collect::<Vec<_>>())?;
    let dst = bits(&edges.iter().map(|edge| edge.dst).collect::<Vec<_>>())?;
    let mut loss = Tensor::zeros((), candle_core::DType::F32, &Device::Cpu)?;
    let layers = stored
        .sketch
        .planes()
        .iter()
        .zip(&stored.kept)
        .zip(encoders);
    for ((plane, kept), [src_encoder, dst_encoder]) in layers {
        let (src, dst) = (src_encoder.encode(&src)?, dst_encoder.encode(&dst)?);
        let kept: Vec<f32> = sample.iter().map(|at| kept[*at]).collect();
        let kept = Tensor::from_vec(kept, sample.len(), &Device::Cpu)?;
        let read = least_ratio(plane, &src, &dst, &kept, epsilon)?;
        let misread = ((read + 1.0)?.log()? - (kept.relu()? + 1.0)?.log()?)?.abs()?;
        loss = (loss + misread.mean_all()?)?;
        for code in [src, dst] {
            loss = (loss + (unevenness(&code)? * UNEVENNESS_SHARE)?)?;
        }
    }
    Ok(loss)
}

/// How much more often than with a uniform hash two ids share an output; 0 if all outputs
/// are used equally.
fn unevenness(code: &Tensor) -> Result<Tensor> {
    let share = code.broadcast_div(&code.sum_keepdim(1)?)?.mean(0)?;
    let outputs = share.elem_count() as f64;
    Ok(((share.sqr()?.sum_all()? * outputs)? - 1.0)?)
}

/// The smallest ratio of each edge, with gradient through the memory and through the
/// edge's own code. The memory is the stored one; the part of it that the sample has
/// written has a gradient.
fn least_ratio(
    plane: &[f32],
    src: &Tensor,
    dst: &Tensor,
    kept: &Tensor,
    epsilon: f32,
) -> Result<Tensor> {
    let written = src
        .t()?
        .matmul(&dst.broadcast_mul(&kept.unsqueeze(1)?)?)?
        .flatten_all()?;
    let memory = Tensor::from_slice(plane, plane.len(), &Device::Cpu)?;
    let memory = (memory + (&written - written.detach())?)?;

    let width = dst.dim(1)?;
    let (src_values, dst_values) = (src.to_vec2::<f32>()?, dst.to_vec2::<f32>()?);
    let mut rows = Vec::with_capacity(src_values.len());
    let mut columns = Vec::with_capacity(src_values.len());
    for (src, dst) in src_values.iter().zip(&dst_values) {
        let mut least = (f32::INFINITY, 0, 0);
        for (row, s) in src.iter().enumerate().filter(|(_, s)| **s > 0.0) {
            for (column, d) in dst.iter().enumerate().filter(|(_, d)| **d > 0.0) {
                let ratio = plane[row * width + column] / (s * d + epsilon);
                if ratio < least.0 {
                    least = (ratio, row, column);
                }
            }
        }
        rows.push(least.1 as u32);
        columns.push(least.2 as u32);
    }
    let cells: Vec<u32> = rows
        .iter()
        .zip(&columns)
        .map(|(r, c)| r * width as u32 + c)
        .collect();
    let index = |values: Vec<u32>| Tensor::from_vec(values, src_values.len(), &Device::Cpu);
    let memory = memory.index_select(&index(cells)?, 0)?;
    let s = src.gather(&index(rows)?.unsqueeze(1)?, 1)?.squeeze(1)?;
    let d = dst.gather(&index(columns)?.unsqueeze(1)?, 1)?.squeeze(1)?;
    Ok((memory / ((s * d)? + f64::from(epsilon))?)?)
}
