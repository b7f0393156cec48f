//! What the decoder of the packed profile learns from: synthetic streams are
//! stored in sketches of many sizes, and the layers are asked for edges whose
//! count is known, and for as many that never occurred.

use std::any::Any;
use std::sync::Arc;

use rand::Rng;
use rand::seq::index::sample;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::fold::arrivals;
use crate::packed::features::{Features, LoadFeatures};
use crate::packed::layers::PackedLayers;
use crate::packed::{Ablation, PackedWeights};
use crate::train::streams::{self, Stream};
use crate::{Allowance, Crane, DeviceChoice, Edge, Profile, Result, Secret};

/// Questions of two kinds.
#[derive(Default)]
pub struct Rows {
    /// Edges as they are, most of them light, and pairs that never occurred:
    /// what an estimate is right about on average.
    pub uniform: Vec<Row>,
    /// As many edges of every order of magnitude, as far as there are: an
    /// interval has to hold for heavy ones as well as for light ones.
    pub banded: Vec<Row>,
}

/// One question.
pub struct Row {
    /// What the network sees of the edge.
    pub features: Features,
    /// What it sees of the sketch.
    pub load: LoadFeatures,
    /// The true count, 0 for a pair that never occurred.
    pub count: u64,
}

/// Packets that arrive one by one, at most.
const LONGEST: u64 = 3_000_000;
/// Sketches that each stream is stored in.
const SKETCHES: usize = 3;
/// Edges that each sketch is asked for, and as many absent pairs.
const ASKED: usize = 150;
/// Edges of each order of magnitude that it is asked for besides.
const ASKED_OF_BAND: usize = 50;
/// Where the orders of magnitude begin.
const BANDS: [u64; 5] = [1, 2, 10, 100, 1000];
/// Smallest and largest sketch.
const SIZES: (f64, f64) = (8192.0, 4e6);
/// Fewest edges of a stream.
const FEWEST: usize = 300;

/// Stores one stream of up to `largest` edges and asks.
pub fn observe(
    weights: &Arc<PackedWeights>,
    (ablation, largest): (Ablation, usize),
    rng: &mut Xoshiro256PlusPlus,
    rows: &mut Rows,
) -> Result<()> {
    let distinct = streams::draw_size(rng, FEWEST, largest.max(FEWEST));
    let stream = streams::draw_any(rng, distinct, LONGEST);
    let batch = [256, 1024, 4096][rng.random_range(0..3)];
    let device = DeviceChoice::Cpu.open()?;
    let profile = Arc::new(Profile::packed_with(Arc::clone(weights), &device, ablation));
    for _ in 0..SKETCHES {
        let (allowance, grows) = draw_memory(rng, stream.edges.len());
        let secret = Secret::from_seed(rng.random());
        let mut sketch = match grows {
            true => Crane::new(&profile, secret, 0, allowance)?,
            false => Crane::layered(&profile, secret, 0, allowance)?,
        };
        for chunk in stream.arrivals.chunks(batch) {
            sketch.store(arrivals(&secret, chunk).arrivals())?;
        }
        ask(&sketch, &stream, rng, rows)?;
    }
    Ok(())
}

/// Any size, and among them many at which it matters; one in four has grown.
fn draw_memory(rng: &mut impl Rng, edges: usize) -> (Allowance, bool) {
    let per_edge: f64 = rng.random_range(f64::ln(0.03)..f64::ln(60.0));
    let most = (per_edge.exp() * edges as f64).clamp(SIZES.0, SIZES.1) as usize;
    let grows = rng.random_bool(0.25);
    (Allowance::alone(SIZES.0 as usize, most), grows)
}

fn ask(
    sketch: &Crane,
    stream: &Stream,
    rng: &mut Xoshiro256PlusPlus,
    rows: &mut Rows,
) -> Result<()> {
    // A table needs no decoder.
    let Some(sketch) = sketch.below_table() else {
        return Ok(());
    };
    let layers: &dyn Any = sketch.layers();
    let Some(layers) = layers.downcast_ref::<PackedLayers>() else {
        return Ok(());
    };
    let edges = &stream.edges;
    let uncrowned = |at: usize| {
        let (id, crowned) = sketch.place(&edges[at].name());
        crowned.is_none().then_some((id, stream.counts[at]))
    };
    let chosen = sample(rng, edges.len(), edges.len().min(ASKED));
    let mut uniform: Vec<(u64, u64)> = chosen.into_iter().filter_map(uncrowned).collect();
    // Random pairs of 32-bit ids: that one of them occurs in the stream is as
    // good as impossible.
    for _ in 0..uniform.len() {
        let absent = Edge::new(rng.random(), rng.random());
        uniform.push((sketch.place(&absent.name()).0, 0));
    }
    let mut bands: [Vec<(u64, u64)>; BANDS.len()] = Default::default();
    for at in sample(rng, edges.len(), edges.len()) {
        let band = BANDS.partition_point(|from| *from <= stream.counts[at]) - 1;
        if bands[band].len() < ASKED_OF_BAND {
            bands[band].extend(uncrowned(at));
        }
    }
    for (asked, rows) in [
        (uniform, &mut rows.uniform),
        (bands.concat(), &mut rows.banded),
    ] {
        let ids: Vec<u64> = asked.iter().map(|(id, _)| *id).collect();
        let (features, load) = layers.features(&ids, &|| sketch.uncrowned())?;
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
    use rand::SeedableRng;

    /// Streams that no weight has seen, of every kind that they were made for.
    #[test]
    fn intervals_hold_for_heavy_edges_as_well_as_for_light_ones() {
        let weights = Arc::new(PackedWeights::built_in().unwrap());
        let device = DeviceChoice::Cpu.open().unwrap();
        let profile = Arc::new(Profile::packed(weights, &device));
        let (mut held, mut all) = ([0; BANDS.len()], [0; BANDS.len()]);
        for seed in 0..60 {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(0xf5e5 + seed);
            let distinct = streams::draw_size(&mut rng, 2000, 20_000);
            let stream = streams::draw_any(&mut rng, distinct, 100_000);
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
