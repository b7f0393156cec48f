//! Training data of the decoder: synthetic streams are stored in sketches of many sizes,
//! and the layers are read for edges whose count is known and for as many pairs that
//! never occurred.

use std::sync::Arc;

use crane_model::fold::arrivals;
use crane_model::packed::PackedWeights;
use crane_model::packed::features::{Features, LoadFeatures};
use crane_model::packed::training::DecoderInputs;
use crane_model::{Allowance, Crane, DeviceChoice, Edge, Result, Secret};
use rand::Rng;
use rand::seq::index::sample;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::ablation::Ablation;
use crate::train::streams::{self, Stream};

/// Two sets of training rows.
#[derive(Default)]
pub struct Rows {
    /// Edges as they occur, most of them light, and pairs that never occurred. The
    /// estimate is trained on these.
    pub uniform: Vec<Row>,
    /// As many edges of every order of magnitude as there are, up to a limit. The ends of
    /// intervals are trained on these, because they have to hold for heavy edges as well.
    pub banded: Vec<Row>,
}

/// A training row.
pub struct Row {
    /// Features of the edge.
    pub features: Features,
    /// Features of the sketch.
    pub load: LoadFeatures,
    /// The true count; 0 for a pair that never occurred.
    pub count: u64,
}

/// Largest number of packets that arrive one by one.
const LONGEST: u64 = 3_000_000;
/// Sketches that each stream is stored in.
const SKETCHES: usize = 3;
/// Edges that are read from each sketch, and as many absent pairs.
const ASKED: usize = 150;
/// Further edges of each order of magnitude that are read.
const ASKED_OF_BAND: usize = 50;
/// Lower ends of the orders of magnitude.
const BANDS: [u64; 5] = [1, 2, 10, 100, 1000];
/// Smallest and largest sketch in bytes.
const SIZES: (f64, f64) = (8192.0, 4e6);
/// Smallest number of edges of a stream.
const FEWEST: usize = 300;

/// Stores one stream of up to `largest` edges and reads it.
pub fn observe(
    weights: &Arc<PackedWeights>,
    (ablation, largest): (Ablation, usize),
    rng: &mut Xoshiro256PlusPlus,
    rows: &mut Rows,
) -> Result<()> {
    let distinct = streams::random_size(rng, FEWEST, largest.max(FEWEST));
    let stream = streams::random_any_stream(rng, distinct, LONGEST);
    let batch = [256, 1024, 4096][rng.random_range(0..3)];
    let device = DeviceChoice::Cpu.open()?;
    let profile = Arc::new(ablation.profile(Arc::clone(weights), None, &device));
    for _ in 0..SKETCHES {
        let (allowance, grows) = random_memory(rng, stream.edges.len());
        let secret = Secret::from_seed(rng.random());
        let mut sketch = match grows {
            true => Crane::new(&profile, secret, 0, allowance)?,
            false => Crane::layered(&profile, secret, 0, allowance)?,
        };
        for chunk in stream.arrivals.chunks(batch) {
            sketch.store(arrivals(&secret, chunk).arrivals())?;
        }
        ask(&sketch, &secret, &stream, rng, rows)?;
    }
    Ok(())
}

/// A random memory, often near the size at which the stream overloads it. One sketch in
/// four starts small and grows.
fn random_memory(rng: &mut impl Rng, edges: usize) -> (Allowance, bool) {
    let per_edge: f64 = rng.random_range(f64::ln(0.03)..f64::ln(60.0));
    let most = (per_edge.exp() * edges as f64).clamp(SIZES.0, SIZES.1) as usize;
    let grows = rng.random_bool(0.25);
    (Allowance::alone(SIZES.0 as usize, most), grows)
}

fn ask(
    sketch: &Crane,
    secret: &Secret,
    stream: &Stream,
    rng: &mut Xoshiro256PlusPlus,
    rows: &mut Rows,
) -> Result<()> {
    // A sketch that is still a table has no decoder.
    let Some(inputs) = DecoderInputs::of(sketch) else {
        return Ok(());
    };
    let edges = &stream.edges;
    let unnamed = |at: usize| {
        let name = edges[at].name();
        (!inputs.is_named(&name)).then(|| (secret.id(&name), stream.counts[at]))
    };
    let chosen = sample(rng, edges.len(), edges.len().min(ASKED));
    let mut uniform: Vec<(u64, u64)> = chosen.into_iter().filter_map(unnamed).collect();
    // Random pairs of 32-bit ids practically never occur in the stream.
    for _ in 0..uniform.len() {
        let absent = Edge::new(rng.random(), rng.random());
        uniform.push((secret.id(&absent.name()), 0));
    }
    let mut bands: [Vec<(u64, u64)>; BANDS.len()] = Default::default();
    for at in sample(rng, edges.len(), edges.len()) {
        let band = BANDS.partition_point(|from| *from <= stream.counts[at]) - 1;
        if bands[band].len() < ASKED_OF_BAND {
            bands[band].extend(unnamed(at));
        }
    }
    for (asked, rows) in [
        (uniform, &mut rows.uniform),
        (bands.concat(), &mut rows.banded),
    ] {
        let ids: Vec<u64> = asked.iter().map(|(id, _)| *id).collect();
        let (features, load) = inputs.features(&ids)?;
        let asked = features.into_iter().zip(asked);
        rows.extend(asked.map(|(features, (_, count))| Row {
            features,
            load,
            count,
        }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crane_model::Profile;
    use rand::SeedableRng;

    /// Streams that were not used in training, of every kind that is.
    #[test]
    fn intervals_hold_for_heavy_and_light_edges() {
        let weights = Arc::new(PackedWeights::built_in().unwrap());
        let device = DeviceChoice::Cpu.open().unwrap();
        let profile = Arc::new(Profile::packed(weights, &device));
        let (mut held, mut all) = ([0; BANDS.len()], [0; BANDS.len()]);
        for seed in 0..60 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(0xf5e5 + seed);
            let distinct = streams::random_size(&mut rng, 2000, 20_000);
            let stream = streams::random_any_stream(&mut rng, distinct, 100_000);
            let secret = Secret::from_seed(seed);
            let bytes = [4, 12, 40][seed as usize % 3] * distinct.max(1024);
            let allowance = Allowance::alone(bytes, bytes);
            let mut sketch = Crane::layered(&profile, secret, 0, allowance).unwrap();
            for chunk in stream.arrivals.chunks(1024) {
                let folded = arrivals(&secret, chunk);
                sketch.store(folded.arrivals()).unwrap();
            }
            let names: Vec<_> = stream.edges.iter().map(|edge| edge.name()).collect();
            let flows = sketch.flows(&names).unwrap();
            for (flow, count) in flows.iter().zip(&stream.counts) {
                let band = BANDS.partition_point(|from| from <= count) - 1;
                let holds = (flow.packets.low..=flow.packets.high).contains(count);
                held[band] += u32::from(holds);
                all[band] += 1;
            }
        }
        for (from, (held, all)) in BANDS.iter().zip(held.into_iter().zip(all)) {
            let share = f64::from(held) / f64::from(all);
            assert!(all > 500 && share >= 0.9, "from {from}: {share} of {all}");
        }
    }
}
