//! Laws of the packed profile, for every stream, size and device.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crane_model::packed::{Budget, Packed, Parts, Weights};
use crane_model::{Arrival, DeviceChoice, Edge};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashMap;

fn sketch(budget: Budget, device: DeviceChoice) -> Packed<Edge> {
    let weights = Arc::new(Weights::built_in().unwrap());
    Packed::new(weights, budget, Parts::ALL, 7, device).unwrap()
}

fn arrival(edge: Edge, packets: u64) -> Arrival<Edge> {
    Arrival {
        key: edge,
        packets,
        bytes: 100 * packets,
    }
}

type Batch = Vec<Arrival<Edge>>;

/// Batches without equal edges, a few of which are heavy, and all counts.
fn stream(seed: u64, batches: usize, edges: u32) -> (Vec<Batch>, Vec<(Edge, u64)>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut truth: FxHashMap<Edge, u64> = FxHashMap::default();
    let batches = (0..batches)
        .map(|_| {
            let mut batch: FxHashMap<Edge, u64> = FxHashMap::default();
            for _ in 0..500 {
                let n = (f64::from(edges) * rng.random::<f64>().powi(3)) as u32;
                let packets = if n.is_multiple_of(50) {
                    rng.random_range(1..400)
                } else {
                    1
                };
                *batch.entry(Edge::new(n, n ^ 0x55)).or_default() += packets;
            }
            let mut batch: Vec<Arrival<Edge>> = batch
                .into_iter()
                .map(|(edge, packets)| arrival(edge, packets))
                .collect();
            batch.sort_unstable_by_key(|a| a.key);
            for a in &batch {
                *truth.entry(a.key).or_default() += a.packets;
            }
            batch
        })
        .collect();
    (batches, truth.into_iter().collect())
}

const SIZES: [Budget; 5] = [
    Budget {
        start: 4096,
        most: 4096,
    },
    Budget {
        start: 16_384,
        most: 16_384,
    },
    Budget {
        start: 4096,
        most: 16_384,
    },
    Budget {
        start: 4096,
        most: 65_536,
    },
    Budget {
        start: 1 << 20,
        most: 1 << 20,
    },
];

fn bounds(sketch: &Packed<Edge>, truth: &[(Edge, u64)]) -> Vec<u64> {
    let edges: Vec<Edge> = truth.iter().map(|(edge, _)| *edge).collect();
    sketch.bounds(&edges).unwrap()
}

#[test]
fn nothing_counted_is_lost_whatever_the_size_and_however_it_grows() {
    for budget in SIZES {
        for seed in 0..4 {
            let (batches, truth) = stream(seed, 60, 20_000);
            let mut sketch = sketch(budget, DeviceChoice::Cpu);
            for batch in &batches {
                sketch.store(batch).unwrap();
                assert!(sketch.memory_bytes() <= budget.most, "{budget:?}");
            }
            for ((edge, count), bound) in truth.iter().zip(bounds(&sketch, &truth)) {
                assert!(
                    bound >= *count,
                    "{budget:?} {edge:?}: {count} became {bound}"
                );
            }
        }
    }
}

#[test]
fn executors_agree_cell_by_cell() {
    for budget in SIZES {
        for seed in 0..3 {
            let (batches, _) = stream(seed, 25, 4000);
            let mut fused = sketch(budget, DeviceChoice::Cpu);
            let mut tensor = sketch(budget, DeviceChoice::CpuTensor);
            for batch in &batches {
                fused.store(batch).unwrap();
                tensor.store(batch).unwrap();
            }
            assert_eq!(fused.save_state().unwrap(), tensor.save_state().unwrap());
            assert_eq!(fused.loads(), tensor.loads());
            let edges: Vec<Edge> = batches[0].iter().map(|a| a.key).collect();
            assert_eq!(fused.flows(&edges).unwrap(), tensor.flows(&edges).unwrap());
        }
    }
}

#[test]
fn a_batch_can_come_in_any_order() {
    let (batches, truth) = stream(5, 20, 6000);
    let budget = Budget::fixed(1 << 16);
    let (mut forward, mut backward) = (
        sketch(budget, DeviceChoice::Cpu),
        sketch(budget, DeviceChoice::Cpu),
    );
    for batch in &batches {
        forward.store(batch).unwrap();
        let reversed: Vec<Arrival<Edge>> = batch.iter().rev().copied().collect();
        backward.store(&reversed).unwrap();
    }
    let error = |sketch: &Packed<Edge>| -> f64 {
        let edges: Vec<Edge> = truth.iter().map(|(edge, _)| *edge).collect();
        let flows = sketch.flows(&edges).unwrap();
        let errors = flows
            .iter()
            .zip(&truth)
            .map(|(flow, (_, count))| flow.packets.abs_diff(*count));
        errors.sum::<u64>() as f64 / truth.len() as f64
    };
    let (a, b) = (error(&forward), error(&backward));
    assert!(a < 1.3 * b + 0.05 && b < 1.3 * a + 0.05, "{a} {b}");
}

#[test]
fn a_light_load_is_exact_and_what_never_occurred_is_zero() {
    for budget in [Budget::fixed(1 << 18), Budget::up_to(1 << 18)] {
        let (batches, truth) = stream(2, 10, 1000);
        let mut sketch = sketch(budget, DeviceChoice::Cpu);
        for batch in &batches {
            sketch.store(batch).unwrap();
        }
        for (edge, count) in &truth {
            let flow = sketch.flow(*edge).unwrap();
            assert_eq!(
                (flow.low, flow.packets, flow.high),
                (*count, *count, *count)
            );
        }
        let absent = sketch.flow(Edge::new(9_999_999, 1)).unwrap();
        assert_eq!((absent.packets, absent.high), (0, 0));
    }
}

#[test]
fn a_window_grows_and_the_next_one_starts_with_what_it_needed() {
    let budget = Budget {
        start: 4096,
        most: 1 << 16,
    };
    let mut sketch = sketch(budget, DeviceChoice::Cpu);
    let few: Vec<Arrival<Edge>> = (0..100).map(|n| arrival(Edge::new(n, n), 1)).collect();
    sketch.store(&few).unwrap();
    assert_eq!(sketch.expansions(), 0);
    assert!(sketch.memory_bytes() <= 4096);
    let (batches, _) = stream(1, 100, 50_000);
    for batch in &batches {
        sketch.store(batch).unwrap();
    }
    assert!(sketch.expansions() > 0);
    assert_eq!(sketch.loads().len(), 3);
    let grown = sketch.memory_bytes();
    assert!(grown > 60_000, "{grown}");
    sketch.reset().unwrap();
    assert_eq!((sketch.expansions(), sketch.memory_bytes()), (0, grown));
    assert_eq!(sketch.flow(Edge::new(1, 1)).unwrap().packets, 0);
    sketch.store(&few).unwrap();
    sketch.reset().unwrap();
    assert!(sketch.memory_bytes() <= 4096, "quiet windows shrink back");
}

#[test]
fn counts_beyond_32_bits_are_kept_and_cells_at_their_limit_stay_there() {
    let huge = 1u64 << 40;
    for budget in [Budget::fixed(4096), Budget::up_to(1 << 16)] {
        let mut sketch = sketch(budget, DeviceChoice::Cpu);
        // More huge edges than the crown has places.
        let batch: Vec<Arrival<Edge>> = (0..200)
            .map(|n| arrival(Edge::new(n, 3), huge + u64::from(n)))
            .collect();
        for _ in 0..3 {
            sketch.store(&batch).unwrap();
        }
        assert!(sketch.is_saturated());
        let heavy = sketch.crown().entries().map(|(_, count)| count.packets);
        assert!(heavy.max().unwrap() >= 3 * huge);
        for a in &batch {
            let flow = sketch.flow(a.key).unwrap();
            assert!(flow.low <= flow.packets && flow.packets <= flow.high);
            assert!(flow.high >= u64::from(u32::MAX), "{flow:?}");
        }
    }
}

#[test]
fn a_saved_state_answers_the_same_and_a_damaged_one_is_refused() {
    for budget in SIZES {
        let (batches, truth) = stream(3, 30, 8000);
        let mut first = sketch(budget, DeviceChoice::Cpu);
        for batch in &batches {
            first.store(batch).unwrap();
        }
        let state = first.save_state().unwrap();
        assert!(state.len() <= first.memory_bytes() + 4096);
        let mut second = sketch(budget, DeviceChoice::Cpu);
        second.load_state(&state).unwrap();
        let edges: Vec<Edge> = truth.iter().map(|(edge, _)| *edge).collect();
        assert_eq!(first.flows(&edges).unwrap(), second.flows(&edges).unwrap());
        for cut in [0, 7, 8, 40, state.len() / 2, state.len() - 1] {
            assert!(second.load_state(&state[..cut]).is_err(), "{cut}");
        }
        let longer = [&state[..], &[0]].concat();
        assert!(second.load_state(&longer).is_err());
        let weights = Arc::new(Weights::built_in().unwrap());
        let mut other = Packed::new(weights, budget, Parts::ALL, 8, DeviceChoice::Cpu).unwrap();
        let error = other.load_state(&state).unwrap_err().to_string();
        assert!(error.contains("another seed"), "{error}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let weights = Arc::new(Weights::built_in().unwrap());
    for bytes in [0, 1, 4095] {
        let budget = Budget::fixed(bytes);
        let made = Packed::<Edge>::new(
            Arc::clone(&weights),
            budget,
            Parts::ALL,
            1,
            DeviceChoice::Cpu,
        );
        let error = made.err().unwrap().to_string();
        assert!(error.contains("4096 or more"), "{error}");
    }
    let paper = include_bytes!("../../weights/paper.safetensors");
    let error = Weights::load(paper).unwrap_err().to_string();
    assert!(error.contains("\"paper\", not \"packed\""), "{error}");
    let packed = include_bytes!("../../weights/packed.safetensors");
    let error = crane_model::Weights::load(packed).unwrap_err().to_string();
    assert!(error.contains("\"packed\", not \"paper\""), "{error}");
}

#[test]
fn a_load_that_was_never_trained_is_answered_with_the_bound() {
    let mut weights = Weights::built_in().unwrap();
    // As if only empty sketches had been seen.
    weights.decoder.range = [[-9.0; 12], [-8.0; 12]];
    let budget = Budget::fixed(4096);
    let mut sketch =
        Packed::new(Arc::new(weights), budget, Parts::ALL, 1, DeviceChoice::Cpu).unwrap();
    let (batches, truth) = stream(1, 20, 5000);
    for batch in &batches {
        sketch.store(batch).unwrap();
    }
    for ((edge, _), bound) in truth.iter().zip(bounds(&sketch, &truth)) {
        let flow = sketch.flow(*edge).unwrap();
        assert!(
            flow.high == bound && flow.packets <= bound,
            "{flow:?} {bound}"
        );
    }
}

#[test]
fn a_star_a_scan_and_a_flood_are_like_any_other_stream() {
    let error = |edge: fn(u32) -> Edge| {
        let mut sketch = sketch(Budget::fixed(1 << 14), DeviceChoice::Cpu);
        let all: Vec<Arrival<Edge>> = (0..20_000)
            .map(|n| arrival(edge(n), 1 + u64::from(n.is_multiple_of(97))))
            .collect();
        for batch in all.chunks(1000) {
            sketch.store(batch).unwrap();
        }
        let keys: Vec<Edge> = all.iter().map(|a| a.key).collect();
        let flows = sketch.flows(&keys).unwrap();
        let errors = flows
            .iter()
            .zip(&all)
            .map(|(flow, a)| flow.packets.abs_diff(a.packets));
        errors.sum::<u64>() as f64 / all.len() as f64
    };
    let random = error(|n| Edge::new(n.wrapping_mul(0x9e37_79b9), n.wrapping_mul(0x85eb_ca6b)));
    for (name, error) in [
        ("star", error(|n| Edge::new(1, n))),
        ("scan", error(|n| Edge::new(1, 0x0a00_0000 + n))),
        ("flood", error(|n| Edge::new(n.wrapping_mul(77_777), 1))),
    ] {
        assert!(
            error < 1.5 * random + 0.05,
            "{name}: {error}, random pairs {random}"
        );
    }
}

/// Half of the edges with 1 packet and half with 100 is nothing the decoder
/// has learnt from; its witnesses see that, and the bound is the answer.
#[test]
fn a_stream_unlike_all_others_is_answered_no_worse_than_by_the_bound() {
    for seed in 0..4 {
        let mut sketch = sketch(Budget::fixed(64 << 10), DeviceChoice::Cpu);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let edges: Vec<(Edge, u64)> = (0..12_000)
            .map(|_| {
                (
                    Edge::new(rng.random(), rng.random()),
                    [1, 100][rng.random_range(0..2)],
                )
            })
            .collect();
        for chunk in edges.chunks(40) {
            let batch: Batch = chunk.iter().map(|(edge, n)| arrival(*edge, *n)).collect();
            sketch.store(&batch).unwrap();
        }
        let keys: Vec<Edge> = edges.iter().map(|(edge, _)| *edge).collect();
        let wrong = |answers: Vec<u64>| -> u64 {
            let answers = answers.into_iter().zip(&edges);
            answers
                .map(|(answer, (_, count))| answer.abs_diff(*count))
                .sum()
        };
        let flows = sketch.flows(&keys).unwrap();
        let decoded = wrong(flows.iter().map(|flow| flow.packets).collect());
        let bound = wrong(sketch.bounds(&keys).unwrap());
        assert!(
            decoded <= 2 * bound,
            "{decoded} wrong, {bound} by the bound"
        );
    }
}
