//! Store and query of the packed profile at 1 MiB on one core, beside
//! conservative update and the exact map. A store is that of an edge, or that
//! of an edge with both its nodes, which have sketches of their own.
//!
//! `cargo bench -p crane-model --bench packed`
#![allow(missing_docs, clippy::unwrap_used)]

use std::hash::Hash;
use std::sync::Arc;

use crane_model::packed::{Budget, Packed, Parts, Weights};
use crane_model::rivals::{Rival, count_min::CountMin, exact::Exact};
use crane_model::{
    Arrival, DeviceChoice, Edge, Weighted,
    edge::{fold, fold_by_key},
};
use divan::{Bencher, counter::ItemsCount};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const BYTES: usize = 1 << 20;
const BATCH: usize = 4096;
const COUNT: usize = 500_000;

fn main() {
    divan::main();
}

fn sketch<K: Copy + Eq + Hash>(bytes: usize, device: DeviceChoice) -> Packed<K> {
    let weights = Arc::new(Weights::built_in().unwrap());
    Packed::new(weights, Budget::fixed(bytes), Parts::ALL, 1, device).unwrap()
}

/// Edges of 20,000 nodes, some of which are much more common than others.
fn edges() -> Vec<Weighted> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let node = |rng: &mut Xoshiro256PlusPlus| {
        let rank = (20_000.0 * rng.random::<f64>().powi(3)) as u32;
        rank.wrapping_mul(0x9e37_79b9)
    };
    (0..COUNT)
        .map(|_| Weighted::new(Edge::new(node(&mut rng), node(&mut rng)), 1))
        .collect()
}

fn store_edges(sketch: &mut Packed<Edge>, chunk: &[Weighted]) -> Vec<Weighted> {
    let folded = fold(chunk);
    let arrivals = folded.iter().map(|w| arrival(w.edge, w.weight));
    sketch.store(&arrivals.collect::<Vec<_>>()).unwrap();
    folded
}

fn store_nodes(sketch: &mut Packed<u32>, chunk: &[Weighted], node: fn(&Edge) -> u32) {
    let folded = fold_by_key(chunk.iter().map(|w| (node(&w.edge), w.weight)));
    let arrivals = folded
        .into_iter()
        .map(|(node, packets)| arrival(node, packets));
    sketch.store(&arrivals.collect::<Vec<_>>()).unwrap();
}

fn arrival<K>(key: K, packets: u64) -> Arrival<K> {
    Arrival {
        key,
        packets,
        bytes: 100 * packets,
    }
}

#[divan::bench(sample_count = 10)]
fn store_edges_alone(bencher: Bencher) {
    let edges = edges();
    let mut sketch = sketch(BYTES, DeviceChoice::Cpu);
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for chunk in edges.chunks(BATCH) {
            store_edges(&mut sketch, chunk);
        }
    });
}

#[divan::bench(sample_count = 10)]
fn store_edges_and_nodes(bencher: Bencher) {
    let edges = edges();
    let mut pairs = sketch(BYTES / 2, DeviceChoice::Cpu);
    let mut sources = sketch(BYTES / 4, DeviceChoice::Cpu);
    let mut destinations = sketch(BYTES / 4, DeviceChoice::Cpu);
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for chunk in edges.chunks(BATCH) {
            let folded = store_edges(&mut pairs, chunk);
            store_nodes(&mut sources, &folded, |edge| edge.src);
            store_nodes(&mut destinations, &folded, |edge| edge.dst);
        }
    });
}

#[divan::bench(sample_count = 3)]
fn store_edges_as_tensors(bencher: Bencher) {
    let edges = edges();
    let mut sketch = sketch(BYTES, DeviceChoice::CpuTensor);
    let some = &edges[..8 * BATCH];
    bencher
        .counter(ItemsCount::new(some.len()))
        .bench_local(|| {
            for chunk in some.chunks(BATCH) {
                store_edges(&mut sketch, chunk);
            }
        });
}

#[divan::bench(sample_count = 10)]
fn query(bencher: Bencher) {
    let edges = edges();
    let mut sketch = sketch(BYTES, DeviceChoice::Cpu);
    for chunk in edges.chunks(BATCH) {
        store_edges(&mut sketch, chunk);
    }
    let asked: Vec<Edge> = edges.iter().map(|w| w.edge).collect();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        let answers = asked.chunks(BATCH).map(|keys| sketch.flows(keys).unwrap());
        answers.map(|flows| flows.len()).sum::<usize>()
    });
}

#[divan::bench(sample_count = 10)]
fn store_conservative_update(bencher: Bencher) {
    let edges = edges();
    let mut rival = CountMin::new(BYTES, 3, true, 1).unwrap();
    let count = ItemsCount::new(COUNT);
    bencher
        .counter(count)
        .bench_local(|| rival.store(&edges).unwrap());
}

#[divan::bench(sample_count = 10)]
fn store_exact(bencher: Bencher) {
    let edges = edges();
    let count = ItemsCount::new(COUNT);
    bencher.counter(count).bench_local(|| {
        let mut rival = Exact::default();
        rival.store(&edges).unwrap();
    });
}
