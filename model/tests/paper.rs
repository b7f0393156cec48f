//! A [`Crane`] with the layers of the paper profile.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crane_model::name::Narrow;
use crane_model::{Allowance, Arrival, Crane, DeviceChoice, PaperWeights, Profile, Secret};

const WEIGHTS: &[u8] = include_bytes!("../../weights/paper.safetensors");

fn empty(start: usize, most: usize) -> Crane {
    let weights = Arc::new(PaperWeights::load(WEIGHTS).unwrap());
    let device = DeviceChoice::Cpu.open().unwrap();
    let profile = Arc::new(Profile::paper(weights, &device).unwrap());
    Crane::new(&profile, secret(), 1, Allowance::alone(start, most)).unwrap()
}

fn secret() -> Secret {
    Secret::from_seed(5)
}

/// Edge n has 20,000 / n packets of 100 bytes, in four batches.
fn filled(start: usize, most: usize) -> Crane {
    let mut sketch = empty(start, most);
    for quarter in 0..4 {
        let packets = |n: u64| (20_000 / n + quarter) / 4;
        let batch: Vec<Arrival<Narrow>> = (1..20_000)
            .map(|n| Arrival::new(&secret(), [n], packets(n), 100 * packets(n)))
            .collect();
        for batch in batch.chunks(1000) {
            sketch.store(batch).unwrap();
            assert!(sketch.memory_bytes() <= most);
        }
    }
    sketch
}

#[test]
fn the_heaviest_are_known_by_name_and_bytes_follow_their_packets() {
    for (start, most) in [(32 << 10, 64 << 10), (64 << 10, 64 << 10)] {
        let sketch = filled(start, most);
        assert!(!sketch.is_exact() && sketch.expansions() > 0);
        for n in 1..50u64 {
            let (flow, truth) = (sketch.flow([n]).unwrap(), 20_000 / n);
            let error = flow.packets.estimate.abs_diff(truth) as f64 / truth as f64;
            assert!(error < 0.05, "{n}: {flow:?}");
            let packets = flow.packets;
            assert!(packets.low <= packets.estimate && packets.estimate <= packets.high);
            assert_eq!(
                (packets.at_least, packets.at_most),
                (None, None),
                "no guaranteed bounds"
            );
        }
        let named: Vec<_> = sketch.named::<Narrow>().collect();
        assert!((1..50).all(|n| named.iter().any(|flow| flow.key == [n])));
        for flow in named {
            let packets = flow.packets.estimate;
            assert_eq!(
                flow.bytes.estimate,
                100 * packets,
                "all packets have one size"
            );
        }
    }
}

#[test]
fn a_saved_state_answers_the_same_and_one_of_another_profile_is_refused() {
    let first = filled(32 << 10, 64 << 10);
    let state = first.save_state().unwrap();
    assert!(state.len() <= first.memory_bytes() + 4096);
    let mut second = empty(32 << 10, 64 << 10);
    second.load_state(&state).unwrap();
    let names: Vec<Narrow> = (1..20_000).map(|n| [n]).collect();
    assert_eq!(first.flows(&names).unwrap(), second.flows(&names).unwrap());
    assert_eq!(
        first.bounds(&names).unwrap(),
        second.bounds(&names).unwrap()
    );
    assert!(second.load_state(&state[..state.len() - 1]).is_err());

    let weights = Arc::new(crane_model::PackedWeights::built_in().unwrap());
    let device = DeviceChoice::Cpu.open().unwrap();
    let profile = Arc::new(Profile::packed(weights, &device));
    let allowance = Allowance::alone(32 << 10, 64 << 10);
    let mut packed = Crane::new(&profile, secret(), 1, allowance).unwrap();
    let error = packed.load_state(&state).unwrap_err().to_string();
    assert!(error.contains("another profile"), "{error}");
}
