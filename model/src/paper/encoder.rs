//! The encoder: a node id becomes a non-negative code.
//!
//! An MLP 32 → 16 → 36 → 64 on a binary code of the id, ReLU after every
//! layer, as in the paper. The result is scaled to a largest value of 1, which
//! the paper does not do: without it an id with a small code reads the mass of
//! others divided by nearly nothing, and carries what it never had. Batch norm
//! exists in training only and is folded into the linear layers before an
//! [`Encoder`] is made, so running one costs 3,392 multiplications.

use multiversion::multiversion;
use rand::Rng;

/// Bits of an id.
pub const BITS: usize = 32;
/// Length of a code, and height and width of a dense layer.
pub const CODE: usize = 64;
/// Inputs and outputs of the three linear layers.
pub const SHAPES: [(usize, usize); 3] = [(BITS, 16), (16, 36), (36, CODE)];

/// Keeps the variance of a batch norm from being 0.
pub(crate) const VARIANCE_FLOOR: f64 = 1e-5;

/// Outputs compared side by side.
const LANES: usize = 8;

/// A code: 64 non-negative numbers, zero where the id is not active.
pub type Code = [f32; CODE];

/// One linear layer, `y = x·weight + bias`, weights stored row by input.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderLayer {
    /// `inputs × outputs` numbers, row-major by input.
    pub weight: Vec<f32>,
    /// One number per output.
    pub bias: Vec<f32>,
}

/// Encoder of one end of an edge for one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// The three linear layers of [`SHAPES`].
    pub linear: [EncoderLayer; 3],
}

impl Encoder {
    /// An untrained encoder: uniform weights of the usual ReLU scale.
    pub fn random(rng: &mut impl Rng) -> Self {
        let linear = SHAPES.map(|(inputs, outputs)| {
            let scale = (6.0 / inputs as f32).sqrt();
            let mut draw = |n: usize| -> Vec<f32> {
                (0..n).map(|_| rng.random_range(-scale..scale)).collect()
            };
            EncoderLayer {
                weight: draw(inputs * outputs),
                bias: draw(outputs).iter().map(|b| 0.1 * b).collect(),
            }
        });
        Self { linear }
    }

    /// The code of `id`.
    ///
    /// Scaled so that its largest value is 1. A code that is zero everywhere
    /// would store nothing: such an id is active where it came nearest to it.
    pub fn encode(&self, id: u32) -> Code {
        let mut code = [0.0; CODE];
        run(&self.linear, id, &mut code);
        code
    }
}

/// How codes use their outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Mean number of active outputs of a code.
    pub active: f64,
    /// How many times as often as under an even hash two ids share an output.
    pub sharing: f64,
}

impl Encoder {
    /// How the codes of ids 0 to `count` use their outputs.
    pub fn usage(&self, count: u32) -> Usage {
        let (mut active, mut share) = (0, [0.0; CODE]);
        for id in 0..count {
            let code = self.encode(id);
            let sum: f32 = code.iter().sum();
            active += code.iter().filter(|value| **value > 0.0).count();
            share
                .iter_mut()
                .zip(code)
                .for_each(|(share, value)| *share += f64::from(value / sum));
        }
        let count = f64::from(count.max(1));
        let together: f64 = share.iter().map(|share| (share / count).powi(2)).sum();
        Usage {
            active: active as f64 / count,
            sharing: together * CODE as f64,
        }
    }
}

/// The binary code of an id, as 0.0 and 1.0.
///
/// Not its plain digits: those of real ids are far from random (small numbers,
/// subnets), and an MLP gives similar inputs similar codes. A fixed bijection
/// spreads them over the id space, so that every stream looks like those of
/// the training.
pub fn bits(id: u32) -> [f32; BITS] {
    let spread = spread(id);
    std::array::from_fn(|bit| (spread >> bit & 1) as f32)
}

#[inline(always)]
fn spread(id: u32) -> u32 {
    let mut x = id;
    x = (x ^ (x >> 16)).wrapping_mul(0x21f0_aaad);
    x = (x ^ (x >> 15)).wrapping_mul(0xd35a_2d97);
    x ^ (x >> 15)
}

#[multiversion(targets("x86_64+avx+avx2+fma"))]
fn run(linear: &[EncoderLayer; 3], id: u32, code: &mut Code) {
    let mut first = [0.0f32; 16];
    let mut second = [0.0f32; 36];
    let bits = spread(id);
    apply(&linear[0], |bit| (bits >> bit & 1) as f32, &mut first);
    apply(&linear[1], |at| first[at], &mut second);
    apply(&linear[2], |at| second[at], code);
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for values in code.as_chunks::<LANES>().0 {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = larger(*value, *lane);
        }
    }
    let largest = lanes.into_iter().fold(f32::NEG_INFINITY, larger);
    if largest > 0.0 {
        code.iter_mut().for_each(|v| *v = relu(*v) / largest);
    } else {
        let nearest = |v: f32| if v == largest { 1.0 } else { 0.0 };
        code.iter_mut().for_each(|v| *v = nearest(*v));
    }
}

/// A linear layer on the ReLU of its inputs. Half of them are 0; to leave those
/// out would be slower, nobody can predict which.
#[inline(always)]
fn apply<const O: usize>(linear: &EncoderLayer, input: impl Fn(usize) -> f32, out: &mut [f32; O]) {
    let mut sum = [0.0; O];
    sum.copy_from_slice(&linear.bias);
    for (at, row) in linear.weight.as_chunks::<O>().0.iter().enumerate() {
        let x = relu(input(at));
        for (y, w) in sum.iter_mut().zip(row) {
            *y += x * w;
        }
    }
    *out = sum;
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    if x > 0.0 { x } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn codes_are_non_negative_and_never_empty() {
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
        let encoder = Encoder::random(&mut rng);
        for id in [0, 1, u32::MAX, 0x0a00_0001] {
            let code = encoder.encode(id);
            assert!(code.iter().all(|v| *v >= 0.0 && v.is_finite()));
            assert!(code.iter().any(|v| *v > 0.0));
        }
        assert_ne!(encoder.encode(1), encoder.encode(2));
    }

    #[test]
    fn a_dead_encoder_still_stores() {
        let mut encoder = Encoder::random(&mut rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1));
        encoder.linear[2] = EncoderLayer {
            weight: vec![0.0; 36 * CODE],
            bias: vec![-1.0; CODE],
        };
        encoder.linear[2].bias[9] = -0.5;
        let code = encoder.encode(7);
        assert_eq!(code[9], 1.0);
        assert_eq!(code.iter().sum::<f32>(), 1.0);
    }
}
