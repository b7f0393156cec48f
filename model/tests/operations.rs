//! The number of tensor operations for a batch is small and does not depend on its size.
//! On a GPU each operation is a kernel launch, which dominates the cost of small batches.
//!
//! This test is alone in its program: candle numbers every tensor of the process, and the
//! numbers used during a call are its operations (and uploads).
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use candle_core::{Device, Tensor};
use crane_model::PackedWeights;
use crane_model::{
    Allowance, Arrival, Crane, DeviceChoice, Edge, HierarchySettings, Profile, Secret, Weighted,
    paper,
};

/// The number of the next tensor.
fn number() -> usize {
    let tensor = Tensor::new(0u8, &Device::Cpu).unwrap();
    let shown = format!("{:?}", tensor.id());
    shown
        .trim_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .unwrap()
}

/// Operations of a call, not including the tensor that is made for counting.
fn operations(call: impl FnOnce()) -> usize {
    let before = number();
    call();
    number() - before - 1
}

fn edge(n: u32) -> Edge {
    Edge::new(n.wrapping_mul(0x9e37_79b9), n ^ 0x5555)
}

#[test]
fn a_batch_takes_few_operations_independent_of_its_size() {
    // Layers from the start, and so small that every layer overflows.
    let weights = Arc::new(PackedWeights::built_in().unwrap());
    let device = DeviceChoice::CpuTensor.open().unwrap();
    let profile = Arc::new(Profile::packed(weights, &device));
    let (secret, allowance) = (Secret::from_seed(1), Allowance::alone(4096, 64 << 10));
    let mut packed = Crane::layered(&profile, secret, 0, allowance).unwrap();
    let mut of_batch = |size: u32, packets: u64| {
        let batch: Vec<_> = (0..size)
            .map(|n| Arrival::new(&secret, edge(n).name(), packets, packets))
            .collect();
        operations(|| packed.store(&batch).unwrap())
    };
    of_batch(4096, 300);
    let (small, large) = (of_batch(64, 300), of_batch(4096, 300));
    assert!(small.abs_diff(large) <= 24, "{small} and {large}");
    assert!(
        large <= 64,
        "{large} operations for a batch of the packed profile"
    );

    println!("a batch of 4096 in the packed profile: {large} operations");

    let weights = include_bytes!("../../weights/paper.safetensors");
    let weights = Arc::new(crane_model::PaperWeights::load(weights).unwrap());
    let settings = HierarchySettings {
        start_layers: weights.layers.len(),
        ..HierarchySettings::of(&weights)
    };
    let profile = paper::PaperProfile::new(weights, &device).unwrap();
    let mut layers = None;
    let made = operations(|| layers = Some(profile.layers(settings.clone()).unwrap()));
    // Uploading the weights for each sketch would take 48 operations.
    assert!(made <= settings.start_layers, "{made} to make a sketch");
    let mut paper = layers.unwrap();
    let mut of_batch = |size: u32| {
        let batch: Vec<Weighted> = (0..size).map(|n| Weighted::new(edge(n), 100)).collect();
        operations(|| paper.store(&batch).unwrap())
    };
    of_batch(512);
    let (small, large) = (of_batch(64), of_batch(512));
    assert_eq!(small, large, "all layers at once, whatever the size");
    assert!(
        large <= 700,
        "{large} operations for a batch of the paper profile"
    );
    println!("a batch in four layers of the paper profile: {large} operations");
}
