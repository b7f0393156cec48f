//! The worst case: a million edges, none of which occurs twice. Store of the packed
//! profile at 1 MiB on one core, compared with the exact map and conservative update. The
//! methods alternate, because the speed of a machine varies over time.
//!
//! `cargo bench -p crane-lab --bench distinct`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crane_lab::rivals::{Rival, count_min::CountMin, exact::Exact};
use crane_model::PackedWeights;
use crane_model::fold::arrivals;
use crane_model::{Allowance, Crane, DeviceChoice, Edge, Profile, Secret, Weighted};

const BYTES: usize = 1 << 20;
const BATCH: usize = 4096;
const COUNT: u64 = 1_000_000;
const ROUNDS: usize = 25;

fn main() {
    // Random pairs of ids are practically all distinct. Regular ones would be faster than
    // real traffic, because the hash of the map keeps their order.
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let edges: Vec<Weighted> = (0..COUNT)
        .map(|_| Weighted::new(Edge::new(rng.random(), rng.random()), 1))
        .collect();
    let secret = Secret::from_seed(1);
    let batches = edges.chunks(BATCH);
    let batches: Vec<_> = batches.map(|batch| arrivals(&secret, batch)).collect();
    let weights = Arc::new(PackedWeights::built_in().unwrap());
    let device = DeviceChoice::Cpu.open().unwrap();
    let profile = Arc::new(Profile::packed(weights, &device));
    let sketch = || Crane::layered(&profile, secret, 0, Allowance::alone(BYTES, BYTES)).unwrap();

    let exact = || {
        let mut rival = Exact::default();
        rival.store(&edges).unwrap();
        black_box(rival);
    };
    let packed = || {
        let mut sketch = sketch();
        batches
            .iter()
            .for_each(|batch| sketch.store(batch.arrivals()).unwrap());
        black_box(sketch);
    };
    let packed_and_folding = || {
        let mut sketch = sketch();
        let batches = edges.chunks(BATCH);
        batches.for_each(|batch| {
            let batch = arrivals(&secret, batch);
            sketch.store(batch.arrivals()).unwrap();
        });
        black_box(sketch);
    };
    let conservative = || {
        let mut rival = CountMin::new(BYTES, 3, true, 1).unwrap();
        rival.store(&edges).unwrap();
        black_box(rival);
    };
    let methods: [(&str, &dyn Fn()); 4] = [
        ("exact map", &exact),
        ("packed, batches folded before", &packed),
        ("packed, folding included", &packed_and_folding),
        ("conservative update", &conservative),
    ];
    let mut seconds = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        for ((_, store), seconds) in methods.iter().zip(&mut seconds) {
            let start = Instant::now();
            store();
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    println!("\n{COUNT} distinct edges, {ROUNDS} rounds in turns, medians");
    println!("{:<32} {:>8} {:>12}", "", "x exact", "M edges/s");
    for ((name, _), own) in methods.iter().zip(&seconds) {
        let ratios = seconds[0].iter().zip(own).map(|(exact, own)| exact / own);
        let rates = own.iter().map(|own| COUNT as f64 / own / 1e6);
        let (ratio, rate) = (median(ratios.collect()), median(rates.collect()));
        println!("{name:<32} {ratio:>8.2} {rate:>12.1}");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
