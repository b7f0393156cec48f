//! What a packed sketch answers: the count of an edge with an interval.
//!
//! The crown and the table are exact. What the layers say goes through the
//! lens and the decoder, both of which are made up once after a store; then
//! intervals are widened, or narrowed, until they hold most of the witnesses.
//! The witnesses also judge the decoder: where the plain upper bound is clearly
//! nearer to their counts, this stream is unlike all it has learnt from, and
//! the bound is the answer.

use std::hash::Hash;

use crate::crane::Flow;
use crate::packed::Packed;
use crate::packed::body::Body;
use crate::packed::codes::Codes;
use crate::packed::decoder::HIDDEN;
use crate::packed::lens::{GLOBAL, Lens, Testimony, View, ln_1p};
use crate::packed::stack::{Reading, Stack};
use crate::{Error, Result};

/// Share of the witnesses that intervals are made to hold: more than 0.9,
/// because a few hundred witnesses know the stream only so well.
const COVERED: f64 = 0.935;

/// The lens and what follows from it for all edges.
pub(super) struct Sight {
    lens: Lens,
    /// None for a load that the decoder has never seen.
    focus: Option<[f32; HIDDEN]>,
    /// By how much intervals are widened, in ln(1 + count).
    spread: f32,
    /// Whether the witnesses are nearer to the bound than to the decoder.
    bound_is_better: bool,
}

/// How much nearer they have to be, and in which measure: between the relative
/// and the absolute error, as the decoder was trained.
const CLEARLY: f64 = 0.8;
const EXPONENT: f64 = 0.6;

impl<K: Copy + Eq + Hash> Packed<K> {
    /// What is known of an edge, in the crown or in the layers. The layers
    /// hold no bytes, so an edge that is only there has none.
    pub fn flow(&self, key: K) -> Result<Flow<K>> {
        let flows = self.flows(&[key])?;
        flows
            .first()
            .copied()
            .ok_or_else(|| Error::State("an edge without an answer".into()))
    }

    /// What is known of each of these edges.
    pub fn flows(&self, keys: &[K]) -> Result<Vec<Flow<K>>> {
        let ids: Vec<u64> = keys.iter().map(|key| self.codes.id(key)).collect();
        let short: Vec<u32> = ids.iter().map(|id| Codes::short(*id)).collect();
        let crowned = |key: &K, id: u64| {
            let count = self.crown.get(id, key)?;
            Some(Flow::of_crown(*key, &count))
        };
        let edges = keys.iter().zip(&ids);
        match &self.body {
            Body::Table(table) => Ok(edges
                .zip(short)
                .map(|((key, id), short)| {
                    crowned(key, *id).unwrap_or_else(|| answer(*key, [table.get(short); 3]))
                })
                .collect()),
            Body::Layers(stack) => {
                let sight = self.sight(stack)?;
                Ok(edges
                    .zip(stack.read(&short)?)
                    .map(|((key, id), reading)| {
                        crowned(key, *id)
                            .unwrap_or_else(|| answer(*key, self.layered(sight, &reading)))
                    })
                    .collect())
            }
        }
    }

    /// The upper bound of each of these edges: none has had more.
    pub fn bounds(&self, keys: &[K]) -> Result<Vec<u64>> {
        let ids: Vec<u64> = keys.iter().map(|key| self.codes.id(key)).collect();
        let short: Vec<u32> = ids.iter().map(|id| Codes::short(*id)).collect();
        let below = self.body.bounds(&short)?;
        let edges = keys.iter().zip(&ids).zip(below);
        Ok(edges
            .map(|((key, id), below)| match self.crown.get(*id, key) {
                Some(count) => count.packets.saturating_add(count.slack),
                None => below,
            })
            .collect())
    }

    /// Lower end, middle and upper end of what an edge with this reading has.
    fn layered(&self, sight: &Sight, reading: &Reading) -> [u64; 3] {
        let bound = reading.bound();
        let view = sight.lens.view(reading);
        if bound == 0 || view.is_certain() {
            return [bound; 3];
        }
        let Some(focus) = sight.focus.filter(|_| self.parts.decoder) else {
            return [0, bound, bound];
        };
        let [low, middle, high] = self.weights.decoder.decode(&focus, &view).quantiles;
        let count = |ln: f32| (f64::from(ln).exp_m1().round() as u64).min(bound);
        let middle = match sight.bound_is_better {
            true => bound,
            false => count(middle),
        };
        [
            count(low - sight.spread).min(middle),
            middle,
            count(high + sight.spread).max(middle),
        ]
    }

    fn sight(&self, stack: &Stack) -> Result<&Sight> {
        if let Some(sight) = self.sight.get() {
            return Ok(sight);
        }
        let sight = self.look(stack)?;
        Ok(self.sight.get_or_init(|| sight))
    }

    /// Witnesses that are not in the crown: short id and count.
    fn in_layers(&self) -> (Vec<u32>, Vec<u64>) {
        let crowned = self.crown.entries().map(|(key, _)| self.codes.id(&key));
        let mut crowned: Vec<u64> = crowned.filter(|id| *id < self.witnesses.limit()).collect();
        crowned.sort_unstable();
        let witnesses = self.witnesses.all().iter();
        witnesses
            .filter(|witness| crowned.binary_search(&witness.id).is_err())
            .map(|witness| (Codes::short(witness.id), witness.count))
            .unzip()
    }

    fn look(&self, stack: &Stack) -> Result<Sight> {
        let (ids, counts) = match self.parts.witnesses {
            true => self.in_layers(),
            false => Default::default(),
        };
        let readings = stack.read(&ids)?;
        let testimonies: Vec<Testimony> = counts
            .iter()
            .zip(&readings)
            .map(|(count, reading)| Testimony {
                count: *count,
                bound: reading.bound(),
            })
            .collect();
        let lens = Lens::new(stack, &testimonies, self.witnesses.distinct())?;
        let focus = self.weights.decoder.focus(&lens);
        let spread = focus.map_or(0.0, |focus| {
            let missed = readings
                .iter()
                .zip(&counts)
                .map(|(reading, count)| self.missed(&focus, &lens.view(reading), *count));
            covering(missed.collect())
        });
        let sight = Sight {
            lens,
            focus,
            spread,
            bound_is_better: false,
        };
        let (mut of_bound, mut of_decoder) = (0.0, 0.0);
        for (reading, count) in readings.iter().zip(&counts) {
            let [_, middle, _] = self.layered(&sight, reading);
            let weight = (*count as f64).powf(-EXPONENT);
            of_bound += reading.bound().abs_diff(*count) as f64 * weight;
            of_decoder += middle.abs_diff(*count) as f64 * weight;
        }
        Ok(Sight {
            bound_is_better: of_bound < CLEARLY * of_decoder,
            ..sight
        })
    }

    /// By how much the interval of a witness would have to be wider to hold
    /// its count; less than 0 if it could be narrower.
    fn missed(&self, focus: &[f32; HIDDEN], view: &View, count: u64) -> f32 {
        if view.is_certain() || view.bound == 0.0 {
            return if view.bound <= ln_1p(count) {
                -1.0
            } else {
                1.0
            };
        }
        let [low, _, high] = self.weights.decoder.decode(focus, view).quantiles;
        let above = (count as f32 + HALF).ln_1p();
        let below = (count as f32 - HALF).ln_1p();
        (low - above).max(below - high)
    }

    /// What the decoder is given for each of these ids, for training; nothing
    /// while there are no layers.
    pub(crate) fn views(&self, ids: &[u64]) -> Result<Option<(Vec<View>, [f32; GLOBAL])>> {
        let Body::Layers(stack) = &self.body else {
            return Ok(None);
        };
        let short: Vec<u32> = ids.iter().map(|id| Codes::short(*id)).collect();
        let lens = &self.sight(stack)?.lens;
        let views = stack.read(&short)?;
        let views = views.iter().map(|reading| lens.view(reading)).collect();
        Ok(Some((views, *lens.global())))
    }

    /// The id of an edge, and whether the crown has it.
    pub(crate) fn place(&self, key: &K) -> (u64, bool) {
        let id = self.codes.id(key);
        (id, self.crown.get(id, key).is_some())
    }
}

/// An answer without bytes.
fn answer<K>(key: K, [low, packets, high]: [u64; 3]) -> Flow<K> {
    Flow {
        key,
        packets,
        bytes: 0,
        low,
        high,
    }
}

/// Counts are whole: an interval that comes within this of a count holds it.
const HALF: f32 = 0.499;

/// The widening that holds [`COVERED`] of the witnesses.
fn covering(mut missed: Vec<f32>) -> f32 {
    if missed.is_empty() {
        return 0.0;
    }
    missed.sort_unstable_by(f32::total_cmp);
    let rank = (COVERED * (missed.len() + 1) as f64).ceil() as usize;
    missed[rank.clamp(1, missed.len()) - 1].clamp(-0.5, 3.0)
}
