//! What the decoder of the packed profile learns from: synthetic streams are
//! stored in sketches of many sizes, and the layers are asked for edges whose
//! count is known, and for as many that never occurred.

use std::sync::Arc;

use rand::Rng;
use rand::seq::index::sample;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::streams::{self, Stream};
use crate::edge::fold;
use crate::packed::lens::{GLOBAL, View};
use crate::packed::{Budget, Packed, Parts, Weights};
use crate::{Arrival, DeviceChoice, Edge, Result};

/// One question.
pub struct Row {
    /// What the network sees of the edge.
    pub view: View,
    /// What it sees of the sketch.
    pub global: [f32; GLOBAL],
    /// The true count, 0 for a pair that never occurred.
    pub count: u64,
}

/// Packets that arrive one by one, at most.
const LONGEST: u64 = 3_000_000;
/// Sketches that each stream is stored in.
const SKETCHES: usize = 3;
/// Edges that each sketch is asked for, and as many absent pairs.
const ASKED: usize = 150;
/// Smallest and largest sketch.
const SIZES: (f64, f64) = (8192.0, 4e6);
/// Fewest edges of a stream.
const FEWEST: usize = 300;

/// Stores one stream of up to `largest` edges and asks.
pub fn observe(
    weights: &Arc<Weights>,
    (parts, largest): (Parts, usize),
    rng: &mut Xoshiro256PlusPlus,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let distinct = streams::draw_size(rng, FEWEST, largest.max(FEWEST));
    let stream = streams::draw_any(rng, distinct, LONGEST);
    let batch = [256, 1024, 4096][rng.random_range(0..3)];
    for _ in 0..SKETCHES {
        let budget = draw_budget(rng, stream.edges.len());
        let mut sketch = Packed::new(
            Arc::clone(weights),
            budget,
            parts,
            rng.random(),
            DeviceChoice::Cpu,
        )?;
        store(&mut sketch, &stream, batch)?;
        ask(&sketch, &stream, rng, rows)?;
    }
    Ok(())
}

/// Any size, and among them many at which it matters; one in four has grown.
fn draw_budget(rng: &mut impl Rng, edges: usize) -> Budget {
    let per_edge: f64 = rng.random_range(f64::ln(0.03)..f64::ln(60.0));
    let most = (per_edge.exp() * edges as f64).clamp(SIZES.0, SIZES.1) as usize;
    if rng.random_bool(0.25) {
        let part: f64 = rng.random_range(f64::ln(0.01)..0.0);
        let start = (most as f64 * part.exp()).max(SIZES.0) as usize;
        return Budget { start, most };
    }
    Budget::fixed(most)
}

/// Stores a stream in folded batches.
pub fn store(sketch: &mut Packed<Edge>, stream: &Stream, batch: usize) -> Result<()> {
    for chunk in stream.arrivals.chunks(batch) {
        let arrivals: Vec<Arrival<Edge>> = fold(chunk)
            .into_iter()
            .map(|w| Arrival {
                key: w.edge,
                packets: w.weight,
                bytes: w.weight,
            })
            .collect();
        sketch.store(&arrivals)?;
    }
    Ok(())
}

fn ask(
    sketch: &Packed<Edge>,
    stream: &Stream,
    rng: &mut Xoshiro256PlusPlus,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let edges = &stream.edges;
    let mut ids = Vec::with_capacity(2 * ASKED);
    let mut counts = Vec::with_capacity(2 * ASKED);
    for at in sample(rng, edges.len(), edges.len().min(ASKED)) {
        let (id, crowned) = sketch.place(&edges[at]);
        if !crowned {
            ids.push(id);
            counts.push(stream.counts[at]);
        }
    }
    // Random pairs of 32-bit ids: that one of them occurs in the stream is as
    // good as impossible.
    for _ in 0..ids.len() {
        ids.push(sketch.place(&Edge::new(rng.random(), rng.random())).0);
        counts.push(0);
    }
    // A table needs no decoder.
    let Some((views, global)) = sketch.views(&ids)? else {
        return Ok(());
    };
    for (view, count) in views.into_iter().zip(counts) {
        rows.push(Row {
            view,
            global,
            count,
        });
    }
    Ok(())
}
