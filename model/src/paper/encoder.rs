//! The encoder: from the id of a node to a non-negative code.
//!
//! An MLP 32 → 16 → 36 → 64 on a binary code of the id, with ReLU after every layer, as
//! in the paper. In contrast to the paper, the result is scaled to a maximum of 1:
//! otherwise an id with a small code would divide the packets of other edges by a number
//! near 0, and carry far too much. Batch norm is used in training only; it is folded into
//! the linear layers before an [`Encoder`] is made. Running an encoder costs 3,392
//! multiplications.

use multiversion::multiversion;
use rand::Rng;

/// Bits of an id.
pub const BITS: usize = 32;
/// Length of a code, and height and width of a dense layer.
pub const CODE: usize = 64;
/// Inputs and outputs of the three linear layers.
pub const SHAPES: [(usize, usize); 3] = [(BITS, 16), (16, 36), (36, CODE)];

/// Added to the variance of a batch norm, to avoid a division by 0.
pub const VARIANCE_FLOOR: f64 = 1e-5;

/// Outputs that are compared at the same time.
const LANES: usize = 8;

/// A code: 64 non-negative numbers. An output is active if it is not 0.
pub type Code = [f32; CODE];

/// A linear layer, `y = x·weight + bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderLayer {
    /// `inputs × outputs` numbers, one row for each input.
    pub weight: Vec<f32>,
    /// One number for each output.
    pub bias: Vec<f32>,
}

/// The encoder of one end of an edge for one layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// The three linear layers of [`SHAPES`].
    pub linear: [EncoderLayer; 3],
}

impl Encoder {
    /// An untrained encoder with uniform weights of the usual scale for ReLU.
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

    /// The code of `id`, scaled to a maximum of 1.
    ///
    /// A code of zeros would store nothing. If no output is positive, the largest one is
    /// set to 1.
    pub fn encode(&self, id: u32) -> Code {
        let mut code = [0.0; CODE];
        run(&self.linear, id, &mut code);
        code
    }
}

/// The binary code of an id, as 0.0 and 1.0.
///
/// These are not the binary digits of the id: digits of real ids are far from random
/// (small numbers, subnets), and an MLP gives similar inputs similar codes. A fixed
/// bijection spreads the ids first, so that every stream looks like those of the
/// training.
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

/// A linear layer on the ReLU of its inputs. About half of these are 0, but skipping them
/// would be slower, because the branch cannot be predicted.
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
    fn an_encoder_without_positive_outputs_still_gives_a_code() {
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
