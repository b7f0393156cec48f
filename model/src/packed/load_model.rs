//! The load model: what the readings of a sketch mean under its present load.
//!
//! A value in a cell means nothing by itself: 9 is a count of 9 in an empty sketch, and
//! noise in a full one. The load model turns the cells of an edge into features that mean
//! the same under every load: how often a pair that never occurred would read as much
//! (from the fill of the cells), which counts this stream has and how wrong its readings
//! are (from the witnesses).

use std::sync::LazyLock;

use crate::Result;
use crate::packed::cells::{CellArray, unpack};
use crate::packed::features::{Features, LoadFeatures, QUANTILES};
use crate::packed::narrow::{LAYERS, NarrowLayers, Reading};

/// Values from here on are grouped into bins, eight to an octave.
const EXACT: u64 = 256;
const BINS: usize = EXACT as usize + 8 * 24 + 1;

/// Log probability that is treated as 0.
const NEVER: f32 = -20.0;

/// Logarithm of the share of cells of a layer that hold at least a value, by bin.
struct Tail(Vec<f32>);

fn bin(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let octaves = (value as f64 / EXACT as f64).log2();
    (EXACT as usize + (8.0 * octaves) as usize).min(BINS - 1)
}

/// How often each byte value occurs. Four separate histograms avoid that equal
/// neighbouring bytes wait for each other.
fn by_byte(bytes: &[u8]) -> [u32; 256] {
    let mut counts = [[0u32; 256]; 4];
    let (fours, rest) = bytes.as_chunks::<4>();
    for four in fours {
        for (counts, byte) in counts.iter_mut().zip(four) {
            counts[usize::from(*byte)] += 1;
        }
    }
    for byte in rest {
        counts[0][usize::from(*byte)] += 1;
    }
    std::array::from_fn(|byte| counts.iter().map(|counts| counts[byte]).sum())
}

impl Tail {
    fn of(array: &dyn CellArray) -> Result<Self> {
        let bytes = array.to_bytes()?;
        let mut cells = vec![0u32; BINS];
        match array.limit() {
            15 => {
                for (byte, count) in by_byte(&bytes).into_iter().enumerate() {
                    cells[byte & 15] += count;
                    cells[byte >> 4] += count;
                }
            }
            255 => cells[..256].copy_from_slice(&by_byte(&bytes)),
            _ => (0..array.cells() as u32)
                .for_each(|index| cells[bin(unpack::<32>(&bytes, index).into())] += 1),
        }
        let all = array.cells() as f32;
        let mut above = 0u32;
        let mut tail: Vec<f32> = cells
            .iter()
            .rev()
            .map(|count| {
                above += count;
                (above as f32 / all).ln().max(NEVER)
            })
            .collect();
        tail.reverse();
        Ok(Self(tail))
    }

    fn at_least(&self, value: u64) -> f32 {
        self.0[bin(value)]
    }

    fn share(&self, value: u64) -> f32 {
        self.at_least(value).exp()
    }
}

/// The distribution of the cells of all layers.
struct Fill {
    tails: [Tail; LAYERS],
    limits: [u64; LAYERS],
}

impl Fill {
    fn of(layers: &NarrowLayers) -> Result<Self> {
        let [a, b, c] = layers.arrays();
        Ok(Self {
            tails: [Tail::of(&**a)?, Tail::of(&**b)?, Tail::of(&**c)?],
            limits: [a.limit(), b.limit(), c.limit()].map(u64::from),
        })
    }

    /// Logarithm of the probability that a pair that never occurred reads `bound` or
    /// more, for which all its cells must hold as much.
    fn noise(&self, bound: u64) -> f32 {
        let (mut left, mut chance) = (bound, 0.0);
        for (tail, limit) in self.tails.iter().zip(self.limits) {
            chance += 3.0 * tail.at_least(left.min(limit));
            if left <= limit {
                break;
            }
            left -= limit;
        }
        chance.max(NEVER)
    }

    /// The median reading of a pair that never occurred.
    fn middle(&self) -> u64 {
        let half = 0.5f32.ln();
        let (mut low, mut high) = (0u64, 1u64 << 33);
        while low + 1 < high {
            let middle = (low + high) / 2;
            match self.noise(middle) >= half {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }
}

/// Pairs that never occurred that are read to measure the noise.
const ABSENT_PAIRS: u32 = 512;

/// What other edges add to a bound, by the highest layer that an edge has reached.
#[derive(Clone, Copy, Default)]
struct LayerNoise {
    /// The median.
    middle: u64,
    /// The 95 % quantile.
    high: u64,
    /// The probability that they add anything.
    any: f32,
}

impl LayerNoise {
    fn of(layers: &NarrowLayers, fill: &Fill) -> Result<[Self; LAYERS]> {
        let mut any = 0.0;
        let mut noise = [Self::default(); LAYERS];
        let readings = layers.absent_readings(0, ABSENT_PAIRS)?;
        let tails = fill.tails.iter().zip(readings);
        for (noise, (tail, mut readings)) in noise.iter_mut().zip(tails) {
            readings.sort_unstable();
            any += (3.0 * tail.at_least(1)).exp();
            *noise = Self {
                middle: readings[readings.len() / 2],
                high: readings[readings.len() * 19 / 20],
                any,
            };
        }
        Ok(noise)
    }
}

/// The exact count of a witness and its upper bound in the layers.
pub struct WitnessReading {
    /// The exact count.
    pub count: u64,
    /// The upper bound of the layers.
    pub bound: u64,
}

/// How wrong the layers are about witnesses with similar bounds.
#[derive(Clone, Copy, Default)]
struct Nearby {
    /// Mean of ln(1 + count) − ln(1 + bound).
    excess: f32,
    /// Share of these witnesses whose bound is exact.
    exact: f32,
}

const GRID_STEP: f32 = 0.5;
const GRID: usize = 26;
/// Width of the Gaussian window that weights witnesses by the distance of their bounds.
const WINDOW: f32 = 0.7;

/// The load of a sketch.
pub struct LoadModel {
    fill: Fill,
    /// Counts of the witnesses, ascending.
    counts: Vec<u64>,
    nearby: [Nearby; GRID],
    noise: [LayerNoise; LAYERS],
    global: LoadFeatures,
}

impl LoadModel {
    /// The load of these layers. `witnesses` are those without an entry in the crown,
    /// `distinct` is the estimated number of distinct edges.
    pub fn new(layers: &NarrowLayers, witnesses: &[WitnessReading], distinct: f64) -> Result<Self> {
        let fill = Fill::of(layers)?;
        let mut counts: Vec<u64> = witnesses.iter().map(|w| w.count).collect();
        counts.sort_unstable();
        let (nearby, overall) = smooth(witnesses);
        let number = counts.len().max(1) as f32;
        let mean = counts.iter().map(|c| *c as f32).sum::<f32>().max(1.0) / number;
        let once = counts.partition_point(|count| *count <= 1) as f32 / number;
        let [bottom, middle, top] = &fill.tails;
        let cells = layers.arrays()[0].cells() as f64;
        let sum: f32 = (1..=fill.limits[0].min(15))
            .map(|value| bottom.share(value))
            .sum();
        let global = LoadFeatures {
            edges_per_cell: (distinct / cells + 1e-3).ln() as f32,
            mean_count: mean.ln(),
            once,
            exact: overall.exact,
            bottom_empty: 1.0 - bottom.share(1),
            bottom_full: bottom.share(fill.limits[0]),
            bottom_mean: sum / 15.0,
            middle_empty: 1.0 - middle.share(1),
            middle_full: middle.share(fill.limits[1]),
            top_empty: 1.0 - top.share(1),
            witnesses: (1.0 + counts.len() as f32).ln(),
            absent: ln_1p(fill.middle()),
        };
        Ok(Self {
            noise: LayerNoise::of(layers, &fill)?,
            fill,
            counts,
            nearby,
            global,
        })
    }

    /// Features of the sketch as a whole.
    pub fn global(&self) -> &LoadFeatures {
        &self.global
    }

    /// Features of an edge with this reading.
    pub fn features(&self, reading: &Reading) -> Features {
        let all = reading.bound();
        let (noise, more) = (self.fill.noise(all), self.fill.noise(all + 1));
        let [a, b, c] = reading.top().map(|cell| ln_1p(cell.into()));
        let bound = ln_1p(all);
        let below = self.counts.partition_point(|count| *count < all);
        let up_to = below + self.counts[below..].partition_point(|count| *count <= all);
        let at_least = (self.counts.len() - below) as f32 + 0.5;
        let base = QUANTILES.map(|q| match up_to {
            0 => ln_1p(all.min(1)),
            _ => ln_1p(self.counts[(q * up_to as f64) as usize]),
        });
        let near = self.near(bound);
        let of_layer = &self.noise[reading.reached];
        let without = |noise: u64| ln_1p(all.saturating_sub(noise));
        Features {
            bound,
            above_bottom: f32::from(u8::from(reading.reached >= 1)),
            in_top: f32::from(u8::from(reading.reached >= 2)),
            second_cell: b - a,
            third_cell: c - a,
            noise,
            noise_above: more,
            counts_at_least: (at_least / (self.counts.len() as f32 + 1.0)).ln(),
            base,
            excess: near.excess,
            exact: near.exact,
            without_noise: [without(of_layer.middle), without(of_layer.high)],
            any_noise: of_layer.any,
        }
    }

    /// The highest count of a witness up to `bound`, not considering one witness with the
    /// count `except`. Returns `bound` if there is none.
    pub fn known_count(&self, bound: u64, except: Option<u64>) -> u64 {
        let up_to = self.counts.partition_point(|count| *count <= bound);
        let mut known = self.counts[..up_to].iter().rev();
        let highest = known.next().copied();
        match highest == except {
            true => known.next().copied(),
            false => highest,
        }
        .unwrap_or(bound)
    }

    /// The 95 % quantile of the noise in a bound.
    pub fn high_noise(&self, reading: &Reading) -> u64 {
        self.noise[reading.reached].high
    }

    fn near(&self, bound: f32) -> Nearby {
        let at = (bound / GRID_STEP).min((GRID - 2) as f32);
        let (left, part) = (at as usize, at.fract());
        let (a, b) = (self.nearby[left], self.nearby[left + 1]);
        let mix = |a: f32, b: f32| a + (b - a) * part;
        Nearby {
            excess: mix(a.excess, b.excess),
            exact: mix(a.exact, b.exact),
        }
    }
}

/// Weighted means over the witnesses at each point of a grid; the weight depends on how
/// near the bound of a witness is. The mean over all witnesses is added with the weight
/// 1.
fn smooth(witnesses: &[WitnessReading]) -> ([Nearby; GRID], Nearby) {
    let seen = witnesses.iter().map(|w| {
        let (bound, count) = (ln_1p(w.bound), ln_1p(w.count));
        let exact = f32::from(u8::from(w.bound <= w.count));
        (bound, count - bound, exact)
    });
    let seen: Vec<(f32, f32, f32)> = seen.collect();
    let number = seen.len().max(1) as f32;
    let overall = Nearby {
        excess: seen.iter().map(|(_, excess, _)| excess).sum::<f32>() / number,
        exact: if seen.is_empty() {
            1.0
        } else {
            seen.iter().map(|(_, _, exact)| exact).sum::<f32>() / number
        },
    };
    let nearby = std::array::from_fn(|point| {
        let here = point as f32 * GRID_STEP;
        let (mut weights, mut sum) = (1.0, overall);
        for (bound, excess, exact) in &seen {
            let weight = (-((bound - here) / WINDOW).powi(2)).exp();
            weights += weight;
            sum.excess += weight * excess;
            sum.exact += weight * exact;
        }
        Nearby {
            excess: sum.excess / weights,
            exact: sum.exact / weights,
        }
    });
    (nearby, overall)
}

/// ln(1 + x) of a count.
pub fn ln_1p(count: u64) -> f32 {
    static SMALL: LazyLock<[f32; 256]> =
        LazyLock::new(|| std::array::from_fn(|count| (count as f32).ln_1p()));
    match SMALL.get(count as usize) {
        Some(ln) => *ln,
        None => (count as f32).ln_1p(),
    }
}
