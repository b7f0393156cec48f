//! What a packed sketch answers: the count of an edge with an interval.
//!
//! The crown counts by itself. What the layers say goes through the load model and
//! the decoder, both of which are made up once after a store; then
//! intervals are widened, or narrowed, until they hold most of the witnesses.
//! The witnesses also judge the decoder: where the plain upper bound is clearly
//! nearer to their counts, this stream is unlike all it has learnt from, and
//! the bound is the answer.

use crate::Result;
use crate::answer::Flow;
use crate::crown::Count;
use crate::name::Name;
use crate::packed::Packed;
use crate::packed::decoder::HIDDEN;
use crate::packed::features::{Features, LoadFeatures};
use crate::packed::layers::Reading;
use crate::packed::load_model::{LoadModel, Testimony, ln_1p};

/// Share of the witnesses that intervals are made to hold: more than 0.9,
/// because a few hundred witnesses know the stream only so well.
const COVERED: f64 = 0.935;

/// The load model and what follows from it for all edges.
pub(crate) struct Calibration {
    load: LoadModel,
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

impl Packed {
    /// What is known of each of these edges, in the crown or in the layers.
    pub fn flows<N: Name>(&self, names: &[N]) -> Result<Vec<Flow<N>>> {
        let ids: Vec<u64> = names.iter().map(|name| self.codes.id(name)).collect();
        let tags: Vec<u32> = ids.iter().map(|id| self.codes.tag(*id)).collect();
        let calibration = self.calibration()?;
        let readings = self.layers.read(&tags)?;
        let edges = names.iter().zip(ids).zip(readings);
        Ok(edges
            .map(|((name, id), reading)| match self.crowned(name, id) {
                Some(count) => Flow::of_crown(*name, &count),
                None => Flow::of_layers(*name, self.layered(calibration, &reading)),
            })
            .collect())
    }

    fn crowned<N: Name>(&self, name: &N, id: u64) -> Option<Count> {
        self.crown.get(self.codes.spot(id), name)
    }

    /// The upper bound of each of these edges: none has had more.
    pub fn bounds<N: Name>(&self, names: &[N]) -> Result<Vec<u64>> {
        let ids: Vec<u64> = names.iter().map(|name| self.codes.id(name)).collect();
        let tags: Vec<u32> = ids.iter().map(|id| self.codes.tag(*id)).collect();
        let below = self.layers.bounds(&tags)?;
        let edges = names.iter().zip(&ids).zip(below);
        Ok(edges
            .map(|((name, id), below)| self.crowned(name, *id).map_or(below, |count| count.bound()))
            .collect())
    }

    /// Lower end, middle and upper end of what an edge with this reading has.
    fn layered(&self, calibration: &Calibration, reading: &Reading) -> [u64; 3] {
        let bound = reading.bound();
        let features = calibration.load.features(reading);
        if bound == 0 || features.is_certain() {
            return [bound; 3];
        }
        let Some(focus) = calibration.focus.filter(|_| self.profile.ablation.decoder) else {
            return [0, bound, bound];
        };
        let [low, middle, high] = self.profile.weights.decoder.decode(&focus, &features);
        let count = |ln: f32| (f64::from(ln).exp_m1().round() as u64).min(bound);
        let middle = match calibration.bound_is_better {
            true => bound,
            false => count(middle),
        };
        [
            count(low - calibration.spread).min(middle),
            middle,
            count(high + calibration.spread).max(middle),
        ]
    }

    fn calibration(&self) -> Result<&Calibration> {
        if let Some(calibration) = self.calibration.get() {
            return Ok(calibration);
        }
        let calibration = self.look()?;
        Ok(self.calibration.get_or_init(|| calibration))
    }

    /// Witnesses that are not in the crown: tag and count.
    fn in_layers(&self) -> (Vec<u32>, Vec<u64>) {
        let crowned = self.crown.entries();
        let crowned = crowned.map(|(name, _)| self.codes.id_of_any(&name));
        let mut crowned: Vec<u64> = crowned.filter(|id| *id < self.witnesses.limit()).collect();
        crowned.sort_unstable();
        let witnesses = self.witnesses.all().iter();
        witnesses
            .filter(|witness| crowned.binary_search(&witness.id).is_err())
            .map(|witness| (self.codes.tag(witness.id), witness.count))
            .unzip()
    }

    fn look(&self) -> Result<Calibration> {
        let (tags, counts) = match self.profile.ablation.witnesses {
            true => self.in_layers(),
            false => Default::default(),
        };
        let readings = self.layers.read(&tags)?;
        let testimonies: Vec<Testimony> = counts
            .iter()
            .zip(&readings)
            .map(|(count, reading)| Testimony {
                count: *count,
                bound: reading.bound(),
            })
            .collect();
        let load = LoadModel::new(&self.layers, &testimonies, self.witnesses.distinct())?;
        let focus = self.profile.weights.decoder.focus(load.global());
        let spread = focus.map_or(0.0, |focus| {
            let missed = readings
                .iter()
                .zip(&counts)
                .map(|(reading, count)| self.missed(&focus, &load.features(reading), *count));
            covering(missed.collect())
        });
        let calibration = Calibration {
            load,
            focus,
            spread,
            bound_is_better: false,
        };
        let (mut of_bound, mut of_decoder) = (0.0, 0.0);
        for (reading, count) in readings.iter().zip(&counts) {
            let [_, middle, _] = self.layered(&calibration, reading);
            let weight = (*count as f64).powf(-EXPONENT);
            of_bound += reading.bound().abs_diff(*count) as f64 * weight;
            of_decoder += middle.abs_diff(*count) as f64 * weight;
        }
        Ok(Calibration {
            bound_is_better: of_bound < CLEARLY * of_decoder,
            ..calibration
        })
    }

    /// By how much the interval of a witness would have to be wider to hold
    /// its count; less than 0 if it could be narrower.
    fn missed(&self, focus: &[f32; HIDDEN], features: &Features, count: u64) -> f32 {
        if features.is_certain() || features.bound == 0.0 {
            return if features.bound <= ln_1p(count) {
                -1.0
            } else {
                1.0
            };
        }
        let [low, _, high] = self.profile.weights.decoder.decode(focus, features);
        let above = (count as f32 + HALF).ln_1p();
        let below = (count as f32 - HALF).ln_1p();
        (low - above).max(below - high)
    }

    /// What the decoder is given for each of these ids, for training.
    pub(crate) fn features(&self, ids: &[u64]) -> Result<(Vec<Features>, LoadFeatures)> {
        let tags: Vec<u32> = ids.iter().map(|id| self.codes.tag(*id)).collect();
        let load = &self.calibration()?.load;
        let readings = self.layers.read(&tags)?;
        let features = readings
            .iter()
            .map(|reading| load.features(reading))
            .collect();
        Ok((features, *load.global()))
    }

    /// The id of an edge, and whether the crown has it.
    pub(crate) fn place<N: Name>(&self, name: &N) -> (u64, bool) {
        let id = self.codes.id(name);
        (id, self.crowned(name, id).is_some())
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
