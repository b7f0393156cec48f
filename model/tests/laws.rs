//! Properties of the paper profile that hold for every stream, carry, executor and choice
//! of written layers.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crane_model::paper::executor::{CELL_LIMIT, Executor, fused::Fused, tensor::TensorExecutor};
use crane_model::{
    Carry, DeviceChoice, Edge, Hierarchy, HierarchySettings, PaperWeights, Sketch, Weighted, Writes,
};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const CARRIES: [Carry; 3] = [Carry::Sequential, Carry::BatchSynchronous, Carry::MiniBatch];

const WRITES: [Writes; 2] = [Writes::Bottom, Writes::Every];

/// All combinations of carry and written layers.
fn variants() -> impl Iterator<Item = Variant> {
    CARRIES
        .into_iter()
        .flat_map(|carry| WRITES.map(|writes| Variant { carry, writes }))
}

#[derive(Debug, Clone, Copy)]
struct Variant {
    carry: Carry,
    writes: Writes,
}

fn bottom(carry: Carry) -> Variant {
    let writes = Writes::Bottom;
    Variant { carry, writes }
}

fn weights(writes: Writes) -> Arc<PaperWeights> {
    Arc::new(PaperWeights::random(7, 4, writes))
}

fn settings(variant: Variant, start_layers: usize) -> HierarchySettings {
    HierarchySettings {
        start_layers,
        carry: variant.carry,
        ..HierarchySettings::of(&weights(variant.writes))
    }
}

fn fused(variant: Variant, start_layers: usize) -> Hierarchy<Fused> {
    let weights = weights(variant.writes);
    let executor = Fused::new(weights.clone());
    Hierarchy::new(executor, weights, settings(variant, start_layers)).unwrap()
}

fn tensor(variant: Variant, start_layers: usize) -> Hierarchy<TensorExecutor> {
    let weights = weights(variant.writes);
    let x = TensorExecutor::new(&weights, candle_core::Device::Cpu, "cpu-tensor".into()).unwrap();
    Hierarchy::new(x, weights, settings(variant, start_layers)).unwrap()
}

/// Few nodes, so that edges repeat and collide; weights from 0 to `heaviest`.
fn stream(seed: u64, length: usize, nodes: u32, heaviest: u64) -> Vec<Weighted> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let node = |rng: &mut Xoshiro256PlusPlus| rng.random_range(0..nodes).wrapping_mul(0x9e37_79b9);
    (0..length)
        .map(|_| {
            let edge = Edge::new(node(&mut rng), node(&mut rng));
            Weighted::new(edge, rng.random_range(0..=heaviest))
        })
        .collect()
}

/// The cells of all layers, taken from the saved state.
fn cells<X: Executor>(hierarchy: &Hierarchy<X>) -> Vec<f32> {
    let state = hierarchy.save_state().unwrap();
    let (cells, rest) = state[12..].as_chunks::<4>();
    assert!(rest.is_empty());
    cells
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect()
}

#[test]
fn no_carry_makes_a_cell_negative() {
    for variant in variants() {
        for (seed, heaviest) in [(1, 1), (2, 20), (3, 5_000)] {
            let stream = stream(seed, 600, 12, heaviest);
            let mut sketch = fused(variant, 4);
            for batch in stream.chunks(64) {
                sketch.store(batch).unwrap();
                assert!(
                    cells(&sketch).iter().all(|cell| *cell >= 0.0),
                    "{variant:?}"
                );
            }
        }
    }
}

#[test]
fn the_bound_is_never_below_the_truth_without_shared_carry() {
    // Sequential carry also moves packets of other edges, so an edge may lose packets
    // that a colliding edge carried. A single edge loses nothing.
    for carry in CARRIES {
        for weight in [0, 1, 3, 4, 5, 63, 1000, 100_000, 10_000_000, 1 << 26] {
            let edge = Edge::new(0, u32::MAX);
            let mut sketch = fused(bottom(carry), 4);
            sketch.store(&[Weighted::new(edge, weight)]).unwrap();
            let bound = sketch.bound(&sketch.ratios(&[edge]).unwrap()[0]);
            let error = (bound - weight as f64).abs();
            assert!(
                error <= 1e-4 * weight as f64,
                "{carry}: {weight} became {bound}"
            );
            assert!(!sketch.is_saturated(), "{carry} {weight}");
        }
    }
}

#[test]
fn layers_that_all_arrivals_are_written_to_are_never_below_the_truth() {
    // Nothing is carried out of the top layer, and in this stream nothing out of the
    // others either.
    for carry in CARRIES {
        let variant = Variant {
            carry,
            writes: Writes::Every,
        };
        let settings = HierarchySettings {
            theta: 65_536.0,
            ..settings(variant, 3)
        };
        let weights = weights(variant.writes);
        let mut sketch = Hierarchy::new(Fused::new(weights.clone()), weights, settings).unwrap();
        let stream = stream(9, 3000, 50, 3);
        for batch in stream.chunks(100) {
            sketch.store(batch).unwrap();
        }
        for whole in crane_model::fold::fold(&stream) {
            let ratios = sketch.ratios(&[whole.edge]).unwrap().remove(0);
            let truth = whole.weight as f32;
            let below = |q: &f32| *q < truth * 0.999;
            assert!(
                !ratios[..3].iter().any(below),
                "{carry}: {ratios:?} of {truth}"
            );
            assert!(sketch.bound(&ratios) >= 0.999 * whole.weight as f64);
        }
    }
}

#[test]
fn carried_packets_are_added_to_layers_that_every_arrival_is_written_to() {
    let edge = Edge::new(5, 6);
    let variant = Variant {
        carry: Carry::BatchSynchronous,
        writes: Writes::Every,
    };
    let mut sketch = fused(variant, 3);
    sketch.store(&[Weighted::new(edge, 103)]).unwrap();
    // 103 = 25·4 + 3; then 103 + 25 = 32·4; then 103 + 32.
    let ratios = sketch.ratios(&[edge]).unwrap().remove(0);
    for (ratio, expected) in ratios.iter().zip([3.0, 0.0, 135.0]) {
        assert!((ratio - expected).abs() < 0.1, "{ratios:?}");
    }
}

#[test]
fn executors_agree() {
    for variant in variants() {
        let carry = variant.carry;
        for seed in 0..4 {
            let (mut a, mut b) = (fused(variant, 1), tensor(variant, 1));
            let length = if carry == Carry::Sequential { 120 } else { 600 };
            let stream = stream(seed, length, 40, 30);
            for batch in stream.chunks(100) {
                a.store(batch).unwrap();
                b.store(batch).unwrap();
            }
            let (x, y) = (cells(&a), cells(&b));
            assert_eq!(x.len(), y.len(), "{carry}: same number of layers");
            for (x, y) in x.iter().zip(&y) {
                assert!(
                    (x - y).abs() <= 1e-4 * x.abs().max(1.0),
                    "{carry}: {x} and {y}"
                );
            }
            let edges: Vec<Edge> = stream.iter().map(|w| w.edge).collect();
            let (x, y) = (a.query(&edges).unwrap(), b.query(&edges).unwrap());
            for (x, y) in x.iter().zip(&y) {
                assert!(
                    (x - y).abs() <= 1e-3 * x.abs().max(1.0),
                    "{carry}: {x} and {y}"
                );
            }
            let loads = a.loads().iter().zip(b.loads());
            for (x, y) in loads {
                assert!((x.mean - y.mean).abs() <= 1e-4 * x.mean.max(1.0));
            }
        }
    }
}

#[test]
fn a_batch_of_one_is_the_sequential_carry() {
    let stream = stream(5, 300, 15, 9);
    for writes in WRITES {
        let variant = |carry| Variant { carry, writes };
        let mut one_by_one = fused(variant(Carry::BatchSynchronous), 3);
        let mut sequential = fused(variant(Carry::Sequential), 3);
        for arrival in &stream {
            one_by_one.store(std::slice::from_ref(arrival)).unwrap();
            sequential.store(std::slice::from_ref(arrival)).unwrap();
        }
        assert_eq!(cells(&one_by_one), cells(&sequential), "{writes}");
    }
}

#[test]
fn a_hundred_thousand_equal_edges_in_a_batch_count_as_one_heavy_edge() {
    let edge = Edge::new(17, 4);
    for carry in [Carry::BatchSynchronous, Carry::MiniBatch] {
        let mut sketch = fused(bottom(carry), 4);
        sketch
            .store(&vec![Weighted::new(edge, 1); 100_000])
            .unwrap();
        let estimate = sketch.query(&[edge]).unwrap()[0];
        assert!((estimate - 100_000.0).abs() < 10.0, "{estimate}");
    }
}

#[test]
fn one_edge_ten_million_times_is_counted() {
    let edge = Edge::new(0, 0);
    let shipped = include_bytes!("../../weights/paper.safetensors");
    let shipped = Arc::new(PaperWeights::load(shipped).unwrap());
    // If every layer is written to, the decoder corrects for the load, part of which
    // is the edge's own.
    for (weights, error) in [(weights(Writes::Bottom), 1e3), (shipped, 2e6)] {
        let settings = HierarchySettings::of(&weights);
        let writes = settings.writes;
        let mut sketch = Hierarchy::new(Fused::new(weights.clone()), weights, settings).unwrap();
        let batch = vec![Weighted::new(edge, 1); 100_000];
        for _ in 0..100 {
            sketch.store(&batch).unwrap();
        }
        let estimate = sketch.query(&[edge]).unwrap()[0];
        assert!((estimate - 1e7).abs() < error, "{writes}: {estimate}");
        let bound = sketch.bound(&sketch.ratios(&[edge]).unwrap()[0]);
        assert!((0.96e7..1.02e7).contains(&bound), "{writes}: {bound}");
    }
}

#[test]
fn an_estimate_does_not_grow_with_the_load_that_others_make() {
    let shipped = include_bytes!("../../weights/paper.safetensors");
    let weights = Arc::new(PaperWeights::load(shipped).unwrap());
    let settings = HierarchySettings::of(&weights);
    let mut sketch = Hierarchy::new(Fused::new(weights.clone()), weights, settings).unwrap();
    let edges: Vec<Edge> = (0..200_000).map(|n| Edge::new(n, !n)).collect();
    for load in edges.chunks(100_000) {
        for batch in load.chunks(4096) {
            let batch: Vec<Weighted> = batch.iter().map(|e| Weighted::new(*e, 1)).collect();
            sketch.store(&batch).unwrap();
        }
        let estimates = sketch.query(&edges[..1000]).unwrap();
        let mean = estimates.iter().sum::<f64>() / 1000.0;
        assert!(
            (0.5..2.0).contains(&mean),
            "{mean} for edges that occurred once"
        );
    }
}

#[test]
fn layers_are_added_when_the_top_is_full_and_only_then() {
    let mut sketch = fused(bottom(Carry::BatchSynchronous), 1);
    sketch.store(&stream(1, 50, 1000, 1)).unwrap();
    assert_eq!(
        (sketch.loads().len(), sketch.expansions()),
        (1, 0),
        "a light load needs one layer"
    );
    for batch in stream(2, 40_000, 1 << 20, 2).chunks(1000) {
        sketch.store(batch).unwrap();
    }
    assert_eq!((sketch.loads().len(), sketch.expansions()), (4, 3));
    assert_eq!(sketch.memory_bytes(), 4 * 64 * 64 * 4);
    sketch.reset().unwrap();
    assert_eq!(sketch.loads().len(), 1);
    assert_eq!(sketch.query(&[Edge::new(1, 2)]).unwrap(), [0.0]);
}

#[test]
fn a_saved_state_continues_where_it_was() {
    let stream = stream(3, 2000, 300, 4);
    let (first, second) = stream.split_at(1000);
    let mut whole = fused(bottom(Carry::BatchSynchronous), 1);
    whole.store(first).unwrap();
    let mut resumed = fused(bottom(Carry::BatchSynchronous), 1);
    resumed.load_state(&whole.save_state().unwrap()).unwrap();
    whole.store(second).unwrap();
    resumed.store(second).unwrap();
    assert_eq!(cells(&whole), cells(&resumed));

    let state = whole.save_state().unwrap();
    for bad in [
        &state[..0],
        &state[..11],
        &state[..state.len() - 1],
        b"CRANEp01\xff\0\0\0",
    ] {
        assert!(resumed.load_state(bad).is_err());
    }
    let mut nan = state.clone();
    nan[12..16].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(resumed.load_state(&nan).is_err());
    assert_eq!(
        cells(&whole),
        cells(&resumed),
        "a refused state changes nothing"
    );
}

#[test]
fn counts_beyond_the_cells_mark_the_sketch_as_saturated() {
    let edge = Edge::new(1, 2);
    for carry in [Carry::Sequential, Carry::BatchSynchronous] {
        let weights = weights(Writes::Every);
        let settings = HierarchySettings {
            start_layers: 1,
            max_layers: 1,
            carry,
            ..HierarchySettings::of(&weights)
        };
        let mut sketch = Hierarchy::new(Fused::new(weights.clone()), weights, settings).unwrap();
        sketch.store(&[Weighted::new(edge, 1 << 28)]).unwrap();
        assert!(sketch.is_saturated());
        let answer = sketch.query(&[edge]).unwrap()[0];
        assert!(answer > 0.0 && answer.is_finite());
        assert!(cells(&sketch).iter().all(|cell| *cell <= CELL_LIMIT));
    }
}

#[test]
fn taking_an_edge_out_leaves_the_rest() {
    let (a, b) = (Edge::new(1, 2), Edge::new(0x8000_0000, 77));
    for (writes, theta) in [(Writes::Bottom, 4.0), (Writes::Every, 1024.0)] {
        let carry = Carry::BatchSynchronous;
        let settings = HierarchySettings {
            theta,
            ..settings(Variant { carry, writes }, 4)
        };
        let weights = weights(writes);
        let mut sketch = Hierarchy::new(Fused::new(weights.clone()), weights, settings).unwrap();
        sketch
            .store(&[Weighted::new(a, 100), Weighted::new(b, 9)])
            .unwrap();
        let taken = sketch.take(a, 100).unwrap();
        assert!((99..=100).contains(&taken), "{writes}: {taken}");
        let left = sketch.ratios(&[a, b]).unwrap();
        let left: Vec<f64> = left.iter().map(|ratios| sketch.bound(ratios)).collect();
        assert!(left[0] < 12.0, "{writes}: {left:?}");
        assert!(left[1] > 5.0, "{writes}: {left:?}");
        assert!(cells(&sketch).iter().all(|cell| *cell >= 0.0));
        assert_eq!(sketch.take(Edge::new(3, 3), 0).unwrap(), 0);
    }
}

#[test]
fn an_empty_stream_is_accepted() {
    for mut sketch in [
        fused(bottom(Carry::Sequential), 1),
        fused(bottom(Carry::MiniBatch), 2),
    ] {
        sketch.store(&[]).unwrap();
        sketch.store(&[Weighted::new(Edge::new(1, 1), 0)]).unwrap();
        assert!(sketch.query(&[]).unwrap().is_empty());
        assert_eq!(sketch.flux(&[Edge::new(1, 1)]).unwrap(), 0.0);
    }
    let mut tensor = tensor(bottom(Carry::BatchSynchronous), 1);
    tensor.store(&[]).unwrap();
    assert!(tensor.store_and_query(&[]).unwrap().is_empty());
    assert!(tensor.query(&[]).unwrap().is_empty());
}

#[test]
fn impossible_settings_are_refused_with_a_reason() {
    let weights = || weights(Writes::Every);
    let good = HierarchySettings::of(&weights());
    let bad = [
        HierarchySettings {
            max_layers: 5,
            ..good.clone()
        },
        HierarchySettings {
            max_layers: 0,
            ..good.clone()
        },
        HierarchySettings {
            start_layers: 0,
            ..good.clone()
        },
        HierarchySettings {
            theta: 1.0,
            ..good.clone()
        },
        HierarchySettings {
            theta: 2.5,
            ..good.clone()
        },
        HierarchySettings {
            tau: f32::NAN,
            ..good.clone()
        },
    ];
    let device = DeviceChoice::Cpu.open().unwrap();
    let profile = crane_model::paper::PaperProfile::new(weights(), &device).unwrap();
    for settings in bad {
        let error = profile.layers(settings).err().unwrap().to_string();
        assert!(error.contains("must be"), "{error}");
    }
    if !cfg!(feature = "cuda") {
        let error = DeviceChoice::Cuda(0).open().err().unwrap().to_string();
        assert!(error.contains("--features cuda"), "{error}");
    }
    assert!("gpu".parse::<DeviceChoice>().is_err());
    assert_eq!(
        "cuda:3".parse::<DeviceChoice>().unwrap(),
        DeviceChoice::Cuda(3)
    );
}

/// Weight beyond the capacity of the layers is cut off, because it would only take time.
/// Weight below is stored in full.
#[test]
fn a_weight_without_bound_takes_a_bounded_time_and_saturates() {
    let edge = Edge::new(1, 2);
    for writes in [Writes::Every, Writes::Bottom] {
        for layers in [1, 2] {
            let weights = weights(writes);
            let settings = HierarchySettings {
                start_layers: layers,
                max_layers: layers,
                ..HierarchySettings::of(&weights)
            };
            let store = |weight: u64| {
                let fused = Fused::new(weights.clone());
                let mut sketch = Hierarchy::new(fused, weights.clone(), settings.clone()).unwrap();
                sketch.store(&[Weighted::new(edge, weight)]).unwrap();
                let answer = sketch.query(&[edge]).unwrap()[0];
                (sketch.is_saturated(), answer)
            };
            let (huge, most) = (store(u64::MAX), store(1 << 36));
            assert!(huge.0 && most.0, "{writes} {layers}");
            assert_eq!(huge.1, most.1, "{writes} {layers}");
            assert!(!store(1 << 20).0);
        }
    }
}
