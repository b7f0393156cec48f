//! Calibration: what follows from load and witnesses for all answers.
//!
//! What the layers say goes through the load model and the decoder, both of
//! which are made up once after a store; then intervals are widened until they
//! hold most of the witnesses. The witnesses also judge the decoder: where a
//! simpler answer is clearly nearer to their counts, this stream is unlike all
//! it has learnt from, and is answered that way.

use crate::Result;
use crate::packed::decoder::{Focus, QuantileDecoder};
use crate::packed::features::Features;
use crate::packed::load_model::{LoadModel, Testimony, ln_1p};
use crate::packed::narrow::{LAYERS, NarrowLayers, Reading};

/// Share of the witnesses that intervals are made to hold: more than 0.9,
/// because a few hundred witnesses know the stream only so well.
const COVERED: f64 = 0.935;

/// Which of the answers is the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Best {
    /// What the decoder says.
    Decoder,
    /// The upper bound itself.
    Bound,
    /// The highest count up to the bound that a witness has: right where counts
    /// are few kinds.
    Known,
}

/// How much nearer the witnesses have to be to a simpler answer, and in which
/// measure: between the relative and the absolute error, as the decoder was
/// trained.
const CLEARLY: f64 = 0.8;
const EXPONENT: f64 = 0.6;

/// Share of the witnesses whose bound is their count from which on the decoder
/// has to be better than the bound, not only as good.
const EXACT: f32 = 0.99;

/// Counts are whole: an interval that comes within this of a count holds it.
const HALF: f32 = 0.499;

/// See the head of this module.
pub struct Calibration {
    load: LoadModel,
    /// None for a load that the decoder has never seen.
    focus: Option<Focus>,
    /// By how much intervals are widened, in ln(1 + count).
    spread: f32,
    best: Best,
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
            best: Best::Decoder,
        };
        let [mut of_decoder, mut of_bound, mut of_known] = [0.0; 3];
        for (reading, count) in witnesses() {
            let [_, middle, _] = calibration.estimate(decoder, reading);
            let bound = reading.bound();
            let weight = (*count as f64).powf(-EXPONENT);
            let error = |answer: u64| answer.abs_diff(*count) as f64 * weight;
            of_decoder += error(middle);
            of_bound += error(bound);
            // As if this witness were none.
            of_known += error(calibration.load.known_count(bound, Some(*count)));
        }
        let best = match () {
            () if of_known < CLEARLY * of_decoder.min(of_bound) => Best::Known,
            () if of_bound < CLEARLY * of_decoder => Best::Bound,
            // Hardly any bound is wrong, so there is nothing to correct.
            () if calibration.load.global().exact > EXACT && of_bound <= of_decoder => Best::Bound,
            () => Best::Decoder,
        };
        Ok(Self {
            best,
            ..calibration
        })
    }

    /// The load it is for.
    pub fn load(&self) -> &LoadModel {
        &self.load
    }

    /// The count that an edge with this bound has where all counts are known
    /// ones.
    pub fn known_count(&self, bound: u64) -> Option<u64> {
        (self.best == Best::Known).then(|| self.load.known_count(bound, None))
    }

    /// Lower end, middle and upper end of what an edge with this reading has.
    pub fn estimate(&self, decoder: &QuantileDecoder, reading: &Reading) -> [u64; 3] {
        let bound = reading.bound();
        let features = self.load.features(reading);
        if bound == 0 || features.is_certain() {
            return [bound; 3];
        }
        let Some(focus) = &self.focus else {
            // What holds for any stream, if not as narrowly.
            let noise = self.load.high_noise(reading);
            return [bound.saturating_sub(noise).max(1), bound, bound];
        };
        let [mut low, middle, mut high] = decoder.decode(focus, &features);
        // The top layer has few cells, and hardly any witness is there to tell how
        // crowded they are: what holds for any stream has to be within.
        let in_top = reading.reached == LAYERS - 1;
        if in_top {
            low = low.min(features.without_noise[1]);
            high = features.bound;
        }
        let count = |ln: f32| (f64::from(ln).exp_m1().round() as u64).min(bound);
        let middle = match self.best {
            Best::Decoder if features.is_settled() && in_top => count(features.without_noise[0]),
            Best::Decoder if features.is_settled() => bound,
            Best::Decoder => count(middle),
            Best::Bound => bound,
            Best::Known => self.load.known_count(bound, None),
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
fn missed(decoder: &QuantileDecoder, focus: &Focus, features: &Features, count: u64) -> f32 {
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

/// The widening that holds [`COVERED`] of the witnesses. Never less than none:
/// nearly all of them are light, and would make it too narrow for heavy edges.
fn covering(mut missed: Vec<f32>) -> f32 {
    if missed.is_empty() {
        return 0.0;
    }
    missed.sort_unstable_by(f32::total_cmp);
    let rank = (COVERED * (missed.len() + 1) as f64).ceil() as usize;
    missed[rank.clamp(1, missed.len()) - 1].clamp(0.0, 3.0)
}
