//! Properties of the packed profile that hold for every stream, size and device.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crane_model::PackedWeights;
use crane_model::name::{AnyName, Narrow, Wide};
use crane_model::{Allowance, Amount, Arrival, Crane, DeviceChoice, Edge, Profile, Secret};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashMap;

/// Memory of a sketch.
#[derive(Debug, Clone, Copy)]
enum Memory {
    /// Layers from the start.
    Fixed(usize),
    /// A table that grows from one size to another and then becomes layers.
    Grows(usize, usize),
}

impl Memory {
    fn most(self) -> usize {
        match self {
            Self::Fixed(most) | Self::Grows(_, most) => most,
        }
    }
}

fn secret() -> Secret {
    Secret::from_seed(7)
}

fn profile(device: DeviceChoice) -> Arc<Profile> {
    let weights = Arc::new(PackedWeights::built_in().unwrap());
    Arc::new(Profile::packed(weights, &device.open().unwrap()))
}

fn make(profile: &Arc<Profile>, memory: Memory, secret: Secret) -> crane_model::Result<Crane> {
    match memory {
        Memory::Fixed(bytes) => Crane::layered(profile, secret, 3, Allowance::alone(bytes, bytes)),
        Memory::Grows(start, most) => Crane::new(profile, secret, 3, Allowance::alone(start, most)),
    }
}

fn sketch(memory: Memory, device: DeviceChoice) -> Crane {
    make(&profile(device), memory, secret()).unwrap()
}

fn arrival(edge: Edge, packets: u64) -> Arrival<Narrow> {
    Arrival::new(&secret(), edge.name(), packets, 100 * packets)
}

fn names(edges: &[(Edge, u64)]) -> Vec<Narrow> {
    edges.iter().map(|(edge, _)| edge.name()).collect()
}

type Batch = Vec<Arrival<Narrow>>;

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
            let mut batch: Batch = batch
                .into_iter()
                .map(|(edge, packets)| arrival(edge, packets))
                .collect();
            batch.sort_unstable_by_key(|a| a.name);
            for a in &batch {
                *truth.entry(Edge::of_name(a.name)).or_default() += a.packets;
            }
            batch
        })
        .collect();
    (batches, truth.into_iter().collect())
}

const SIZES: [Memory; 5] = [
    Memory::Fixed(4096),
    Memory::Fixed(16_384),
    Memory::Grows(4096, 16_384),
    Memory::Grows(4096, 65_536),
    Memory::Fixed(1 << 20),
];

fn bounds(sketch: &Crane, truth: &[(Edge, u64)]) -> Vec<u64> {
    sketch.bounds(&names(truth)).unwrap()
}

#[test]
fn no_bound_is_below_the_count_for_any_size_and_growth() {
    for memory in SIZES {
        for seed in 0..4 {
            let (batches, truth) = stream(seed, 60, 20_000);
            let mut sketch = sketch(memory, DeviceChoice::Cpu);
            for batch in &batches {
                sketch.store(batch).unwrap();
                assert!(sketch.memory_bytes() <= memory.most(), "{memory:?}");
            }
            for ((edge, count), bound) in truth.iter().zip(bounds(&sketch, &truth)) {
                assert!(
                    bound >= *count,
                    "{memory:?} {edge:?}: {count} became {bound}"
                );
            }
        }
    }
}

#[test]
fn executors_agree_cell_by_cell() {
    for memory in SIZES {
        for seed in 0..3 {
            let (batches, _) = stream(seed, 25, 4000);
            let mut fused = sketch(memory, DeviceChoice::Cpu);
            let mut tensor = sketch(memory, DeviceChoice::CpuTensor);
            for batch in &batches {
                fused.store(batch).unwrap();
                tensor.store(batch).unwrap();
            }
            assert_eq!(fused.save_state().unwrap(), tensor.save_state().unwrap());
            assert_eq!(fused.loads().unwrap(), tensor.loads().unwrap());
            let edges: Vec<Narrow> = batches[0].iter().map(|a| a.name).collect();
            assert_eq!(fused.flows(&edges).unwrap(), tensor.flows(&edges).unwrap());
        }
    }
}

#[test]
fn the_order_of_a_batch_does_not_change_the_accuracy() {
    let (batches, truth) = stream(5, 20, 6000);
    let memory = Memory::Fixed(1 << 16);
    let (mut forward, mut backward) = (
        sketch(memory, DeviceChoice::Cpu),
        sketch(memory, DeviceChoice::Cpu),
    );
    for batch in &batches {
        forward.store(batch).unwrap();
        let reversed: Batch = batch.iter().rev().copied().collect();
        backward.store(&reversed).unwrap();
    }
    let error = |sketch: &Crane| -> f64 {
        let flows = sketch.flows(&names(&truth)).unwrap();
        let errors = flows
            .iter()
            .zip(&truth)
            .map(|(flow, (_, count))| flow.packets.estimate.abs_diff(*count));
        errors.sum::<u64>() as f64 / truth.len() as f64
    };
    let (a, b) = (error(&forward), error(&backward));
    assert!(a < 1.3 * b + 0.05 && b < 1.3 * a + 0.05, "{a} {b}");
}

#[test]
fn a_light_load_is_exact_and_absent_pairs_are_zero() {
    for memory in [Memory::Fixed(1 << 18), Memory::Grows(1 << 14, 1 << 18)] {
        let (batches, truth) = stream(2, 10, 1000);
        let mut sketch = sketch(memory, DeviceChoice::Cpu);
        for batch in &batches {
            sketch.store(batch).unwrap();
        }
        for (edge, count) in &truth {
            let flow = sketch.flow(edge.name()).unwrap();
            let packets = flow.packets;
            assert_eq!((packets.low, packets.high), (*count, *count));
            assert_eq!(flow.bytes.estimate, 100 * count);
            assert!(flow.bytes.is_exact() || !sketch.is_exact());
        }
        let absent = sketch.flow(Edge::new(9_999_999, 1).name()).unwrap();
        assert_eq!(absent.packets, Amount::exact(0), "did not occur");
        assert_eq!(absent.bytes, Amount::exact(0));
    }
}

#[test]
fn a_sketch_takes_memory_on_demand_and_returns_it_when_dropped() {
    let pool = crane_model::Pool::new(1 << 16);
    let profile = profile(DeviceChoice::Cpu);
    let make = || {
        let allowance = Allowance::new(4096, 1 << 16, &pool);
        Crane::new(&profile, secret(), 1, allowance).unwrap()
    };
    let (mut idle, mut busy) = (make(), make());
    let few: Batch = (0..100).map(|n| arrival(Edge::new(n, n), 1)).collect();
    idle.store(&few).unwrap();
    assert_eq!((idle.expansions(), pool.free()), (0, 1 << 16));
    let (batches, _) = stream(1, 100, 50_000);
    let mut weights = Vec::new();
    for batch in &batches {
        busy.store(batch).unwrap();
        weights.push(busy.memory_bytes());
        assert!(busy.memory_bytes() <= 4096 + (1 << 16) - pool.free());
    }
    assert!(weights.is_sorted() && weights[0] < 16_384, "{weights:?}");
    assert_eq!(busy.loads().unwrap().len(), 3);
    assert!(weights[99] > 65_000, "{weights:?}");
    // The rest of the pool is too small to double the table, so it becomes layers.
    for batch in &batches {
        idle.store(batch).unwrap();
    }
    assert_eq!(idle.loads().unwrap().len(), 3);
    assert!(idle.memory_bytes() <= 8192 && pool.free() == 0);
    drop(busy);
    assert!(pool.free() >= 61_000);
    drop(idle);
    assert_eq!(pool.free(), 1 << 16);
}

#[test]
fn tables_of_both_name_lengths_grow_and_become_layers_together() {
    let profile = profile(DeviceChoice::Cpu);
    let allowance = Allowance::alone(4096, 1 << 17);
    let mut sketch = Crane::new(&profile, secret(), 1, allowance).unwrap();
    let wide = |n: u64| [n, 7, n, 0];
    let mut exact = true;
    for n in 0..8000u64 {
        let packets = 1 + n % 3 + 5000 * u64::from(n.is_multiple_of(1000));
        sketch
            .store(&[Arrival::new(&secret(), [n], packets, 10)])
            .unwrap();
        sketch
            .store(&[Arrival::new(&secret(), wide(n), packets, 10)])
            .unwrap();
        if exact && !sketch.is_exact() {
            assert!(n > 1000, "only {n} of each fitted");
            exact = false;
        }
        assert!(sketch.memory_bytes() <= 1 << 17);
        if n == 999 {
            assert_eq!(sketch.named::<Narrow>().count(), 1000);
            assert_eq!(sketch.named::<[u64; 4]>().count(), 1000);
        }
    }
    assert!(!exact);
    for n in (0..8000).step_by(1000) {
        for flow in [
            sketch.flow([n]).unwrap().rename(|_| ()),
            sketch.flow(wide(n)).unwrap().rename(|_| ()),
        ] {
            let packets = 5001 + n % 3;
            assert_eq!(flow.packets, Amount::exact(packets), "{n}");
            assert_eq!(flow.bytes, Amount::exact(10), "{n}");
        }
    }
}

#[test]
fn counts_beyond_32_bits_are_kept_and_cells_at_their_limit_stay_there() {
    let huge = 1u64 << 40;
    for memory in [Memory::Fixed(4096), Memory::Grows(4096, 1 << 13)] {
        let mut sketch = sketch(memory, DeviceChoice::Cpu);
        // More huge edges than the crown has slots.
        let batch: Batch = (0..400)
            .map(|n| arrival(Edge::new(n, 3), huge + u64::from(n)))
            .collect();
        for _ in 0..3 {
            sketch.store(&batch).unwrap();
        }
        assert!(sketch.is_saturated().unwrap());
        let heavy = sketch.named::<Narrow>().map(|flow| flow.packets.estimate);
        assert!(heavy.max().unwrap() >= 3 * huge);
        for a in &batch {
            let flow = sketch.flow(a.name).unwrap();
            let packets = flow.packets;
            assert!(packets.low <= packets.estimate && packets.estimate <= packets.high);
            assert!(packets.high >= u64::from(u32::MAX), "{flow:?}");
            assert!(packets.at_most.is_none_or(|most| most >= 3 * a.packets));
        }
    }
}

#[test]
fn a_saved_state_answers_the_same_and_a_damaged_one_is_refused() {
    for memory in SIZES {
        let (batches, truth) = stream(3, 30, 8000);
        let mut first = sketch(memory, DeviceChoice::Cpu);
        for batch in &batches {
            first.store(batch).unwrap();
        }
        let state = first.save_state().unwrap();
        assert!(state.len() <= first.memory_bytes() + 4096);
        let mut second = sketch(memory, DeviceChoice::Cpu);
        second.load_state(&state).unwrap();
        let edges = names(&truth);
        assert_eq!(first.flows(&edges).unwrap(), second.flows(&edges).unwrap());
        assert_eq!(second.memory_bytes(), first.memory_bytes());
        assert!(second.save_state().unwrap() == state, "{memory:?}");
        for cut in [0, 7, 8, 40, state.len() / 2, state.len() - 1] {
            assert!(second.load_state(&state[..cut]).is_err(), "{cut}");
        }
        let longer = [&state[..], &[0]].concat();
        assert!(second.load_state(&longer).is_err());
        let profile = profile(DeviceChoice::Cpu);
        let mut other = make(&profile, memory, Secret::from_seed(8)).unwrap();
        let error = other.load_state(&state).unwrap_err().to_string();
        assert!(error.contains("another seed"), "{error}");
    }
}

/// If one table has taken the memory that the other one would have needed, a loaded state
/// has to divide it in the same way.
#[test]
fn tables_of_short_and_long_names_are_loaded_when_memory_is_short() {
    let memory = Memory::Grows(4096, 100_000);
    let mut first = sketch(memory, DeviceChoice::Cpu);
    let short = |n: u32| arrival(Edge { src: n, dst: 1 }, 1);
    let long = |n: u32| Arrival::new(&secret(), [n.into(), 0, 0, 1], 1, 100);
    // Long names come first, then short names take the remaining memory.
    let long: Vec<Arrival<Wide>> = (0..800).map(long).collect();
    first.store(&long).unwrap();
    let mut state = first.save_state().unwrap();
    for n in 0.. {
        first.store(&[short(n)]).unwrap();
        if !first.is_exact() {
            break;
        }
        state = first.save_state().unwrap();
    }
    let mut second = sketch(memory, DeviceChoice::Cpu);
    second.load_state(&state).unwrap();
    assert!(second.is_exact() && second.distinct() > Some(1500));
    assert!(second.save_state().unwrap() == state);
}

#[test]
fn too_little_memory_and_weights_of_another_profile_are_refused() {
    for bytes in [0, 1, 4095] {
        let made = make(&profile(DeviceChoice::Cpu), Memory::Fixed(bytes), secret());
        let error = made.err().unwrap().to_string();
        assert!(error.contains("4096 bytes or more"), "{error}");
    }
    let paper = include_bytes!("../../weights/paper.safetensors");
    let error = PackedWeights::load(paper).unwrap_err().to_string();
    assert!(error.contains("\"paper\", not \"packed\""), "{error}");
    let packed = include_bytes!("../../weights/packed.safetensors");
    let error = crane_model::PaperWeights::load(packed)
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"packed\", not \"paper\""), "{error}");
}

#[test]
fn a_load_outside_of_the_training_is_answered_with_the_bound() {
    let mut weights = PackedWeights::built_in().unwrap();
    // As if the decoder had been trained on empty sketches only.
    weights.decoder.range = [[-9.0; 12], [-8.0; 12]];
    let device = DeviceChoice::Cpu.open().unwrap();
    let profile = Arc::new(Profile::packed(Arc::new(weights), &device));
    let mut sketch = make(&profile, Memory::Fixed(4096), secret()).unwrap();
    let (batches, truth) = stream(1, 20, 5000);
    for batch in &batches {
        sketch.store(batch).unwrap();
    }
    for ((edge, _), bound) in truth.iter().zip(bounds(&sketch, &truth)) {
        // Witnesses are exact.
        let flow = sketch.flow(edge.name()).unwrap();
        assert!(
            flow.packets.high == bound || flow.packets.low == flow.packets.high,
            "{flow:?} {bound}"
        );
    }
}

#[test]
fn a_star_a_scan_and_a_flood_are_as_accurate_as_random_pairs() {
    let error = |edge: fn(u32) -> Edge| {
        let mut sketch = sketch(Memory::Fixed(1 << 14), DeviceChoice::Cpu);
        let all: Batch = (0..20_000)
            .map(|n| arrival(edge(n), 1 + u64::from(n.is_multiple_of(97))))
            .collect();
        for batch in all.chunks(1000) {
            sketch.store(batch).unwrap();
        }
        let keys: Vec<Narrow> = all.iter().map(|a| a.name).collect();
        let flows = sketch.flows(&keys).unwrap();
        let errors = flows
            .iter()
            .zip(&all)
            .map(|(flow, a)| flow.packets.estimate.abs_diff(a.packets));
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

/// The decoder was not trained on streams with half of the edges at 1 packet and half at
/// 100. The witnesses show that, and the bound is used instead.
#[test]
fn a_stream_unlike_the_training_is_answered_about_as_well_as_by_the_bound() {
    for seed in 0..4 {
        let mut sketch = sketch(Memory::Fixed(64 << 10), DeviceChoice::Cpu);
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
        let keys = names(&edges);
        let wrong = |answers: Vec<u64>| -> u64 {
            let answers = answers.into_iter().zip(&edges);
            answers
                .map(|(answer, (_, count))| answer.abs_diff(*count))
                .sum()
        };
        let flows = sketch.flows(&keys).unwrap();
        let decoded = wrong(flows.iter().map(|flow| flow.packets.estimate).collect());
        let bound = wrong(sketch.bounds(&keys).unwrap());
        assert!(
            decoded <= 2 * bound,
            "{decoded} wrong, {bound} by the bound"
        );
    }
}

/// More edges of the same weight than the crown has slots. The cells of edges that are
/// known from elsewhere are not considered; those of the others are.
#[test]
fn cells_of_known_edges_do_not_raise_the_bound_of_unknown_ones() {
    let mut sketch = sketch(Memory::Fixed(64 << 10), DeviceChoice::Cpu);
    let heavy: Vec<Edge> = (0..600).map(|n| Edge::new(1, n)).collect();
    for round in 0..200 {
        let light = (0..100).map(|n| Edge::new(2, round * 100 + n));
        let batch: Vec<Edge> = heavy.iter().copied().chain(light).collect();
        let arrivals: Vec<_> = batch.iter().map(|edge| arrival(*edge, 1)).collect();
        sketch.store(&arrivals).unwrap();
    }
    let names = |edges: &[Edge]| -> Vec<AnyName> {
        let names = edges.iter().map(|edge| AnyName::Narrow(edge.name()));
        names.collect()
    };
    assert!(sketch.most_unnamed().packets >= 200, "some have no entry");
    let unknown = sketch.most_unknown(&names(&heavy)).unwrap();
    assert!((1..20).contains(&unknown), "{unknown}");
    // An unknown edge without an entry is detected.
    let named: Vec<Narrow> = sketch.named::<Narrow>().map(|flow| flow.key).collect();
    let at = heavy.iter().position(|edge| !named.contains(&edge.name()));
    let mut others = heavy.clone();
    others.remove(at.unwrap());
    assert!(sketch.most_unknown(&names(&others)).unwrap() >= 200);
}

#[test]
fn no_unnamed_edge_is_heavier_than_the_bound() {
    for (seed, memory) in [
        (1, Memory::Fixed(16 << 10)),
        (2, Memory::Grows(4 << 10, 24 << 10)),
        (3, Memory::Fixed(64 << 10)),
        (4, Memory::Grows(4 << 10, 1 << 20)),
    ] {
        let mut sketch = sketch(memory, DeviceChoice::Cpu);
        let (batches, truth) = stream(seed, 60, 20_000);
        batches
            .iter()
            .for_each(|batch| sketch.store(batch).unwrap());
        let named: Vec<Narrow> = sketch.named::<Narrow>().map(|flow| flow.key).collect();
        let most = sketch.most_unnamed().packets;
        assert_eq!(most == 0, sketch.is_exact());
        for (edge, count) in &truth {
            assert!(*count <= most || named.contains(&edge.name()), "{count}");
        }
        let (distinct, edges) = (sketch.distinct().unwrap() as f64, truth.len() as f64);
        let off = (distinct - edges).abs() / edges;
        // At least 32 witnesses, which gives a standard error of one sixth.
        assert!(off <= if sketch.is_exact() { 0.0 } else { 0.5 }, "{off}");
        let above = sketch
            .named::<Narrow>()
            .filter(|flow| flow.packets.estimate > most);
        assert!(above.count() >= 50, "too high: {most}");
    }
}
