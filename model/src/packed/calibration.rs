//! Calibration: adapts the decoder to the load and the witnesses of a sketch.
//!
//! Load model and decoder inputs are computed once after a store. Then the intervals are
//! widened until they hold most of the witnesses. The witnesses also decide whether the
//! decoder is used: if a simpler answer is clearly nearer to their counts, the stream is
//! unlike those that the decoder was trained on, and the simpler answer is used instead.

use crate::Result;
use crate::packed::decoder::{PreparedLoad, QuantileDecoder};
use crate::packed::features::Features;
use crate::packed::load_model::{LoadModel, WitnessReading, ln_1p};
use crate::packed::narrow::{LAYERS, NarrowLayers, Reading};

/// Share of the witnesses that the intervals are made to hold. Above 0.9, because a few
/// hundred witnesses show the stream only roughly.
const COVERED: f64 = 0.935;

/// Which answer is used as the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Best {
    /// The output of the decoder.
    Decoder,
    /// The upper bound.
    Bound,
    /// The highest count of a witness up to the bound. This is right if the edges of a
    /// stream have few different counts.
    Known,
}

/// A simpler answer is used if its error on the witnesses is below this share of the
/// error of the decoder. An error is weighted by count^−EXPONENT, between relative and
/// absolute error, as in training.
const CLEARLY: f64 = 0.8;
const EXPONENT: f64 = 0.6;

/// If the bound of more than this share of the witnesses is their count, the decoder must
/// be better than the bound to be used, not just as good.
const EXACT: f32 = 0.99;

/// Counts are integers, so an interval that ends within this distance of a count holds
/// it.
const HALF: f32 = 0.499;

/// The calibration of a decoder for one state of a sketch.
pub struct Calibration {
    load: LoadModel,
    /// `None` if the load is outside of what the decoder was trained on.
    prepared: Option<PreparedLoad>,
    /// The intervals are widened by this at either end, in ln(1 + count).
    spread: f32,
    best: Best,
}

impl Calibration {
    /// Calibrates a decoder on witnesses. `readings` is what the layers hold for each of
    /// them, `counts` are their exact counts.
    pub fn new(
        layers: &NarrowLayers,
        decoder: &QuantileDecoder,
        readings: &[Reading],
        counts: Vec<u64>,
        distinct: f64,
    ) -> Result<Self> {
        let witnesses = || readings.iter().zip(&counts);
        let witness_reading = |(reading, count): (&Reading, &u64)| WitnessReading {
            count: *count,
            bound: reading.bound(),
        };
        let witness_readings: Vec<WitnessReading> = witnesses().map(witness_reading).collect();
        let load = LoadModel::new(layers, &witness_readings, distinct)?;
        let prepared = decoder.prepare(load.global());
        let spread = prepared.map_or(0.0, |prepared| {
            let shortfall = witnesses().map(|(reading, count)| {
                shortfall(decoder, &prepared, &load.features(reading), *count)
            });
            widening(shortfall.collect())
        });
        let calibration = Self {
            load,
            prepared,
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
            // Leaves out the witness itself.
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

    /// The load model.
    pub fn load(&self) -> &LoadModel {
        &self.load
    }

    /// The count of an edge with this bound. Returns `None` unless the edges of this
    /// stream have few different counts.
    pub fn known_count(&self, bound: u64) -> Option<u64> {
        (self.best == Best::Known).then(|| self.load.known_count(bound, None))
    }

    /// Lower end, estimate and upper end for an edge with this reading.
    pub fn estimate(&self, decoder: &QuantileDecoder, reading: &Reading) -> [u64; 3] {
        let bound = reading.bound();
        let features = self.load.features(reading);
        if bound == 0 || features.is_certain() {
            return [bound; 3];
        }
        let Some(prepared) = &self.prepared else {
            // An interval that is valid for any stream, but wider.
            let noise = self.load.high_noise(reading);
            return [bound.saturating_sub(noise).max(1), bound, bound];
        };
        let [mut low, middle, mut high] = decoder.decode(prepared, &features);
        // The top layer has few cells, and hardly any witness shows how crowded they are.
        // The interval must include the one that is valid for any stream.
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

/// By how much the interval of a witness would have to be widened to hold its count.
/// Negative if it could be narrower.
fn shortfall(
    decoder: &QuantileDecoder,
    prepared: &PreparedLoad,
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
    let [low, _, high] = decoder.decode(prepared, features);
    let above = (count as f32 + HALF).ln_1p();
    let below = (count as f32 - HALF).ln_1p();
    (low - above).max(below - high)
}

/// The widening that makes the intervals hold [`COVERED`] of the witnesses. Never
/// negative: nearly all witnesses are light and would make the intervals of heavy edges
/// too narrow.
fn widening(mut shortfall: Vec<f32>) -> f32 {
    if shortfall.is_empty() {
        return 0.0;
    }
    shortfall.sort_unstable_by(f32::total_cmp);
    let rank = (COVERED * (shortfall.len() + 1) as f64).ceil() as usize;
    shortfall[rank.clamp(1, shortfall.len()) - 1].clamp(0.0, 3.0)
}
