//! Store and query of the packed profile at 1 MiB on one core, compared with conservative
//! update and the exact map. Measured are stores of edges, and stores of edges together
//! with both their nodes, which have sketches of their own.
//!
//! `cargo bench -p crane-lab --bench packed`
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use crane_lab::devices::skewed_edges;
use crane_lab::rivals::{Rival, count_min::CountMin, exact::Exact};
use crane_model::PackedWeights;
use crane_model::fold::{Fold, arrivals};
use crane_model::name::Narrow;
use crane_model::{Allowance, Crane, DeviceChoice, Edge, Profile, Secret, Weighted};
use divan::{Bencher, counter::ItemsCount};

const BYTES: usize = 1 << 20;
const BATCH: usize = 4096;
const COUNT: usize = 500_000;

fn main() {
    divan::main();
}

fn secret() -> Secret {
    Secret::from_seed(1)
}

fn sketch(bytes: usize, device: DeviceChoice) -> Crane {
    let weights = Arc::new(PackedWeights::built_in().unwrap());
    let profile = Arc::new(Profile::packed(weights, &device.open().unwrap()));
    Crane::layered(&profile, secret(), 0, Allowance::alone(bytes, bytes)).unwrap()
}

fn edges() -> Vec<Weighted> {
    skewed_edges(COUNT, 3)
}

fn store_edges(sketch: &mut Crane, chunk: &[Weighted]) -> Fold<Narrow> {
    let folded = arrivals(&secret(), chunk);
    sketch.store(folded.arrivals()).unwrap();
    folded
}

fn store_nodes(sketch: &mut Crane, edges: &Fold<Narrow>, node: fn(&Edge) -> u32) {
    let nodes = edges.arrivals().iter().map(|a| {
        let node = node(&Edge::of_name(a.name));
        Weighted::new(Edge::new(0, node), a.packets)
    });
    store_edges(sketch, &nodes.collect::<Vec<_>>());
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
    let asked: Vec<Narrow> = edges.iter().map(|w| w.edge.name()).collect();
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
