//! Calibration: what follows from load and witnesses for all answers.
//!
//! What the layers say goes through the load model and the decoder, both of
//! which are made up once after a store; then intervals are widened, or
//! narrowed, until they hold most of the witnesses. The witnesses also judge the
//! decoder: where the plain upper bound is clearly nearer to their counts, this
//! stream is unlike all it has learnt from, and the bound is the answer.

use crate::Result;
use crate::packed::decoder::{HIDDEN, QuantileDecoder};
use crate::packed::features::Features;
use crate::packed::load_model::{LoadModel, Testimony, ln_1p};
use crate::packed::narrow::{NarrowLayers, Reading};

/// Share of the witnesses that intervals are made to hold: more than 0.9,
/// because a few hundred witnesses know the stream only so well.
const COVERED: f64 = 0.935;

/// How much nearer the witnesses have to be to the bound, and in which measure:
/// between the relative and the absolute error, as the decoder was trained.
const CLEARLY: f64 = 0.8;
const EXPONENT: f64 = 0.6;

/// Counts are whole: an interval that comes within this of a count holds it.
const HALF: f32 = 0.499;

/// See the head of this module.
pub struct Calibration {
    load: LoadModel,
    /// None for a load that the decoder has never seen.
    focus: Option<[f32; HIDDEN]>,
    /// By how much intervals are widened, in ln(1 + count).
    spread: f32,
    /// Whether the witnesses are nearer to the bound than to the decoder.
    bound_is_better: bool,
}

impl Calibration {
    /// Calibrates a decoder on witnesses: what the layers say of each, and its
    /// true count.
    pub fn new(
        layers: &NarrowLayers,
        decoder: &QuantileDecoder,
        readings: &[Reading],
        counts: Vec<u64>,
        distinct: f64,
    ) -> Result<Self> {
        let witnesses = || readings.iter().zip(&counts);
        let testimony = |(reading, count): (&Reading, &u64)| Testimony {
            count: *count,
            bound: reading.bound(),
        };
        let testimonies: Vec<Testimony> = witnesses().map(testimony).collect();
        let load = LoadModel::new(layers, &testimonies, distinct)?;
        let focus = decoder.focus(load.global());
        let spread = focus.map_or(0.0, |focus| {
            let missed = witnesses()
                .map(|(reading, count)| missed(decoder, &focus, &load.features(reading), *count));
            covering(missed.collect())
        });
        let calibration = Self {
            load,
            focus,
            spread,
            bound_is_better: false,
        };
        let (mut of_bound, mut of_decoder) = (0.0, 0.0);
        for (reading, count) in witnesses() {
            let [_, middle, _] = calibration.estimate(decoder, reading);
            let weight = (*count as f64).powf(-EXPONENT);
            of_bound += reading.bound().abs_diff(*count) as f64 * weight;
            of_decoder += middle.abs_diff(*count) as f64 * weight;
        }
        Ok(Self {
            bound_is_better: of_bound < CLEARLY * of_decoder,
            ..calibration
        })
    }

    /// The load it is for.
    pub fn load(&self) -> &LoadModel {
        &self.load
    }

    /// Lower end, middle and upper end of what an edge with this reading has.
    pub fn estimate(&self, decoder: &QuantileDecoder, reading: &Reading) -> [u64; 3] {
        let bound = reading.bound();
        let features = self.load.features(reading);
        if bound == 0 || features.is_certain() {
            return [bound; 3];
        }
        let Some(focus) = &self.focus else {
            return [0, bound, bound];
        };
        let [low, middle, high] = decoder.decode(focus, &features);
        let count = |ln: f32| (f64::from(ln).exp_m1().round() as u64).min(bound);
        let middle = match self.bound_is_better {
            true => bound,
            false => count(middle),
        };
        [
            count(low - self.spread).min(middle),
            middle,
            count(high + self.spread).max(middle),
        ]
    }
}

/// By how much the interval of a witness would have to be wider to hold its
/// count; less than 0 if it could be narrower.
fn missed(
    decoder: &QuantileDecoder,
    focus: &[f32; HIDDEN],
    features: &Features,
    count: u64,
) -> f32 {
    if features.is_certain() || features.bound == 0.0 {
        return if features.bound <= ln_1p(count) {
            -1.0
        } else {
            1.0
        };
    }
    let [low, _, high] = decoder.decode(focus, features);
    let above = (count as f32 + HALF).ln_1p();
    let below = (count as f32 - HALF).ln_1p();
    (low - above).max(below - high)
}

/// The widening that holds [`COVERED`] of the witnesses.
fn covering(mut missed: Vec<f32>) -> f32 {
    if missed.is_empty() {
        return 0.0;
    }
    missed.sort_unstable_by(f32::total_cmp);
    let rank = (COVERED * (missed.len() + 1) as f64).ceil() as usize;
    missed[rank.clamp(1, missed.len()) - 1].clamp(-0.5, 3.0)
}
