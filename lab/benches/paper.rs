//! Store and query of the paper profile with four layers on one core: the fused executor,
//! the tensor executor in batches, and the tensor executor edge by edge.
//!
//! `cargo bench -p crane-lab --bench paper`
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use crane_model::{
    Carry, DeviceChoice, Edge, HierarchySettings, PaperWeights, Sketch, Weighted, paper,
};
use divan::{Bencher, counter::ItemsCount};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const WEIGHTS: &[u8] = include_bytes!("../../weights/paper.safetensors");

fn main() {
    divan::main();
}

fn sketch(device: DeviceChoice, carry: Carry) -> Box<dyn Sketch> {
    let weights = Arc::new(PaperWeights::load(WEIGHTS).unwrap());
    let settings = HierarchySettings {
        start_layers: weights.layers.len(),
        carry,
        ..HierarchySettings::of(&weights)
    };
    let device = device.open().unwrap();
    let profile = paper::PaperProfile::new(weights, &device).unwrap();
    profile.layers(settings).unwrap()
}

/// Random edges; one in ten is one of a few that repeat.
fn edges(count: usize) -> Vec<Weighted> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let edge = |rng: &mut Xoshiro256PlusPlus| match rng.random_range(0..10) {
        0 => Edge::new(rng.random_range(0..30), 7),
        _ => Edge::new(rng.random(), rng.random()),
    };
    (0..count)
        .map(|_| Weighted::new(edge(&mut rng), 1))
        .collect()
}

fn store(bencher: Bencher, device: DeviceChoice, carry: Carry, count: usize, batch: usize) {
    let edges = edges(count);
    let mut sketch = sketch(device, carry);
    // A sketch that is already full of other edges.
    edges
        .chunks(4096)
        .for_each(|chunk| sketch.store(chunk).unwrap());
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        edges
            .chunks(batch)
            .for_each(|chunk| sketch.store(chunk).unwrap());
    });
}

fn query(bencher: Bencher, device: DeviceChoice, count: usize, batch: usize) {
    let stored = edges(20_000);
    let mut sketch = sketch(device, Carry::BatchSynchronous);
    stored
        .chunks(4096)
        .for_each(|chunk| sketch.store(chunk).unwrap());
    let asked: Vec<Edge> = stored.iter().take(count).map(|w| w.edge).collect();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        asked
            .chunks(batch)
            .map(|chunk| sketch.query(chunk).unwrap().len())
            .sum::<usize>()
    });
}

#[divan::bench(sample_count = 10)]
fn store_fused(bencher: Bencher) {
    store(
        bencher,
        DeviceChoice::Cpu,
        Carry::BatchSynchronous,
        20_000,
        4096,
    );
}

#[divan::bench(sample_count = 10)]
fn store_fused_sequential(bencher: Bencher) {
    store(bencher, DeviceChoice::Cpu, Carry::Sequential, 20_000, 4096);
}

#[divan::bench(sample_count = 3)]
fn store_tensor_batches_of_4096(bencher: Bencher) {
    store(
        bencher,
        DeviceChoice::CpuTensor,
        Carry::BatchSynchronous,
        8192,
        4096,
    );
}

#[divan::bench(sample_count = 3)]
fn store_tensor_edge_by_edge(bencher: Bencher) {
    store(
        bencher,
        DeviceChoice::CpuTensor,
        Carry::Sequential,
        200,
        200,
    );
}

#[divan::bench(sample_count = 10)]
fn query_fused(bencher: Bencher) {
    query(bencher, DeviceChoice::Cpu, 20_000, 4096);
}

#[divan::bench(sample_count = 3)]
fn query_tensor_edge_by_edge(bencher: Bencher) {
    query(bencher, DeviceChoice::CpuTensor, 200, 1);
}
