//! The tensor executor: a batch in a few large candle operations, on the CPU
//! or a GPU.
//!
//! A ratio over a batch of B edges is one operation on B × 64 × 64 numbers,
//! so a batch of 4,096 needs about 64 MiB for each intermediate result.

use candle_core::{D, Device, Tensor};

use super::{CELL_LIMIT, Executor, FLOOR_SLACK, FLOOR_STRETCH};
use crate::layers::Load;
use crate::paper::encoder::{self, BITS, CODE, Encoder};
use crate::{Edge, PaperWeights, Result};

/// Runs the layers as tensor operations on `device`. A clone shares the weights.
#[derive(Clone)]
pub struct TensorExecutor {
    device: Device,
    name: String,
    epsilon: f64,
    layers: Vec<[TensorEncoder; 2]>,
}

/// Weight and bias of the three linear layers.
#[derive(Clone)]
struct TensorEncoder([(Tensor, Tensor); 3]);

/// Ids of a batch as binary digits, B × 32.
pub struct Bits {
    src: Tensor,
    dst: Tensor,
}

/// Codes of a batch, B × 64, and 1.0 where they are active.
pub struct TensorPatterns {
    src: Tensor,
    dst: Tensor,
    src_active: Tensor,
    dst_active: Tensor,
}

/// Stands for "no cell" in a minimum. Ratios are always far smaller.
const FAR: f64 = 1e30;

impl TensorExecutor {
    /// Puts the weights on `device`.
    pub fn new(weights: &PaperWeights, device: Device, name: String) -> Result<Self> {
        let layers = weights
            .layers
            .iter()
            .map(|ends| {
                Ok([
                    TensorEncoder::new(&ends.src, &device)?,
                    TensorEncoder::new(&ends.dst, &device)?,
                ])
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            epsilon: weights.epsilon.into(),
            device,
            name,
            layers,
        })
    }

    fn bits(&self, edges: &[Edge], id: impl Fn(&Edge) -> u32) -> Result<Tensor> {
        let bits: Vec<f32> = edges.iter().flat_map(|e| encoder::bits(id(e))).collect();
        Ok(Tensor::from_vec(bits, (edges.len(), BITS), &self.device)?)
    }

    /// `Σ weight·A` as one plane: two matrix products.
    fn pattern(&self, codes: &TensorPatterns, weight: &Tensor) -> Result<Tensor> {
        let weight = weight.unsqueeze(1)?;
        let product = |src: &Tensor, dst: &Tensor| src.t()?.matmul(&dst.broadcast_mul(&weight)?);
        let basis = product(&codes.src, &codes.dst)?;
        let support = product(&codes.src_active, &codes.dst_active)?;
        Ok((basis + (support * self.epsilon)?)?)
    }

    /// Smallest `values` (B × 64 × 64, or 64 × 64 for all) over each edge's cells.
    fn least(&self, values: &Tensor, codes: &TensorPatterns) -> Result<Tensor> {
        let active = outer(&codes.src_active, &codes.dst_active)?;
        let outside = ((1.0 - active)? * FAR)?;
        Ok(outside
            .broadcast_add(values)?
            .flatten_from(1)?
            .min(D::Minus1)?)
    }

    /// `m/divisor` where the divisor is positive, [`FAR`] elsewhere.
    fn quotient(&self, m: &Tensor, divisor: &Tensor) -> Result<Tensor> {
        let empty = divisor.le(0.0)?;
        let far = empty.to_dtype(m.dtype())?;
        Ok(((m / (divisor + &far)?)? + (far * FAR)?)?)
    }
}

impl TensorEncoder {
    fn new(encoder: &Encoder, device: &Device) -> Result<Self> {
        let mut tensors = Vec::with_capacity(3);
        for (linear, shape) in encoder.linear.iter().zip(encoder::SHAPES) {
            let weight = Tensor::from_slice(&linear.weight, shape, device)?;
            let bias = Tensor::from_slice(&linear.bias, shape.1, device)?;
            tensors.push((weight, bias));
        }
        let [a, b, c] = <[_; 3]>::try_from(tensors)
            .map_err(|_| crate::Error::Weights("an encoder needs three linear layers".into()))?;
        Ok(Self([a, b, c]))
    }

    /// Codes, and 1.0 where they are active; see [`Encoder::encode`].
    fn encode(&self, bits: &Tensor) -> Result<(Tensor, Tensor)> {
        let [first, second, last] = &self.0;
        let mut x = bits.clone();
        for (weight, bias) in [first, second] {
            x = x.matmul(weight)?.broadcast_add(bias)?.relu()?;
        }
        let x = x.matmul(&last.0)?.broadcast_add(&last.1)?;
        let code = scale(&x)?;
        let active = code.gt(0.0)?.to_dtype(code.dtype())?;
        Ok((code, active))
    }
}

/// The last ReLU and the scaling of [`Encoder::encode`].
pub fn scale(x: &Tensor) -> Result<Tensor> {
    let largest = x.max_keepdim(D::Minus1)?;
    let dead = largest.le(0.0)?.to_dtype(x.dtype())?;
    let nearest = x
        .broadcast_eq(&largest)?
        .to_dtype(x.dtype())?
        .broadcast_mul(&dead)?;
    let unit = (largest.relu()? + dead)?;
    Ok((x.relu()?.broadcast_div(&unit)? + nearest)?)
}

/// Outer product of each row: from B × 64 and B × 64 to B × 64 × 64.
fn outer(src: &Tensor, dst: &Tensor) -> Result<Tensor> {
    Ok(src.unsqueeze(2)?.broadcast_mul(&dst.unsqueeze(1)?)?)
}

impl Executor for TensorExecutor {
    type Plane = Tensor;
    type Edges = Bits;
    type Patterns = TensorPatterns;
    type Column = Tensor;

    fn plane(&self) -> Result<Tensor> {
        Ok(Tensor::zeros(
            (CODE, CODE),
            candle_core::DType::F32,
            &self.device,
        )?)
    }

    fn upload(&self, edges: &[Edge], column: Vec<f32>) -> Result<(Bits, Tensor)> {
        let bits = Bits {
            src: self.bits(edges, |e| e.src)?,
            dst: self.bits(edges, |e| e.dst)?,
        };
        Ok((bits, Tensor::from_vec(column, edges.len(), &self.device)?))
    }

    fn encode(&self, layer: usize, edges: &Bits) -> Result<TensorPatterns> {
        let [src, dst] = &self.layers[layer];
        let (src, src_active) = src.encode(&edges.src)?;
        let (dst, dst_active) = dst.encode(&edges.dst)?;
        Ok(TensorPatterns {
            src,
            dst,
            src_active,
            dst_active,
        })
    }

    fn add(&self, m: &mut Tensor, codes: &TensorPatterns, weight: &Tensor) -> Result<()> {
        *m = (&*m + self.pattern(codes, weight)?)?;
        Ok(())
    }

    fn saturate(&self, m: &mut Tensor) -> Result<()> {
        *m = m.minimum(f64::from(CELL_LIMIT))?;
        Ok(())
    }

    fn subtract(&self, m: &mut Tensor, codes: &TensorPatterns, weight: &Tensor) -> Result<()> {
        *m = (&*m - self.pattern(codes, weight)?)?.relu()?;
        Ok(())
    }

    fn least_ratio(&self, m: &Tensor, codes: &TensorPatterns) -> Result<Tensor> {
        let a = (outer(&codes.src, &codes.dst)? + self.epsilon)?;
        self.least(&a.recip()?.broadcast_mul(m)?, codes)
    }

    fn least_share(&self, m: &Tensor, demand: &Tensor, codes: &TensorPatterns) -> Result<Tensor> {
        let share = self.least(&self.quotient(m, demand)?, codes)?;
        Ok(share.minimum(1.0)?)
    }

    fn least_quotient(
        &self,
        m: &Tensor,
        pattern: &Tensor,
        codes: &TensorPatterns,
    ) -> Result<Tensor> {
        let least = self.quotient(m, pattern)?.flatten_all()?.min_keepdim(0)?;
        Ok(least.broadcast_as(codes.src.dim(0)?)?.contiguous()?)
    }

    fn sum(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((x + y)?)
    }

    fn product(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((x * y)?)
    }

    fn scale(&self, x: &Tensor, factor: f32) -> Result<Tensor> {
        Ok((x * f64::from(factor))?)
    }

    fn floor(&self, x: &Tensor, given: &Tensor) -> Result<Tensor> {
        let whole = x
            .affine(FLOOR_STRETCH.into(), FLOOR_SLACK.into())?
            .floor()?;
        Ok((whole * given.gt(0.0)?.to_dtype(x.dtype())?)?)
    }

    fn any(&self, _: &Tensor) -> bool {
        true
    }

    fn remaining(&self, edges: Bits, carried: Tensor) -> Result<Option<(Bits, Tensor)>> {
        Ok(Some((edges, carried)))
    }

    fn read(&self, planes: &[Tensor], columns: &[Tensor]) -> Result<(Vec<Load>, Vec<Vec<f32>>)> {
        let mut parts = Vec::with_capacity(3 * planes.len() + columns.len());
        for plane in planes {
            let cells = plane.flatten_all()?;
            parts.push(cells.mean_keepdim(0)?);
            parts.push(cells.max_keepdim(0)?);
            parts.push((cells + 1.0)?.log()?.mean_keepdim(0)?);
        }
        parts.extend_from_slice(columns);
        let all = Tensor::cat(&parts, 0)?.to_vec1::<f32>()?;
        let (loads, mut rest) = all.split_at(3 * planes.len());
        let loads = loads.as_chunks().0.iter().map(|[mean, max, digits]| Load {
            mean: *mean,
            max: *max,
            typical: digits.exp(),
        });
        let loads = loads.collect();
        let mut read = Vec::with_capacity(columns.len());
        for column in columns {
            let (values, tail) = rest.split_at(column.elem_count());
            read.push(values.to_vec());
            rest = tail;
        }
        Ok((loads, read))
    }

    fn cells(&self, plane: &Tensor) -> Result<Vec<f32>> {
        Ok(plane.flatten_all()?.to_vec1()?)
    }

    fn plane_from(&self, cells: &[f32]) -> Result<Tensor> {
        Ok(Tensor::from_slice(cells, (CODE, CODE), &self.device)?)
    }

    fn device_name(&self) -> String {
        self.name.clone()
    }
}
