//! Stores a stream, queries a pair, lists the heaviest pairs, saves and loads the sketch.
//!
//! `cargo run -p crane-model --example quickstart`
#![allow(clippy::print_stdout)]

use std::cmp::Reverse;
use std::sync::Arc;

use crane_model::fold::arrivals;
use crane_model::name::Narrow;
use crane_model::{
    Allowance, Crane, DeviceChoice, Edge, PackedWeights, Profile, Result, Secret, Weighted,
};

/// Half a million packets between 50,000 pairs, in 64 KiB.
pub fn main() -> Result<()> {
    // Once per process: the weights on a device.
    let device = DeviceChoice::Cpu.open()?;
    let weights = Arc::new(PackedWeights::built_in()?);
    let profile = Arc::new(Profile::packed(weights, &device));

    // Once per window: a sketch, which starts small. Without the secret, edges that
    // collide in it cannot be chosen.
    let secret = Secret::from_seed(1);
    let empty = || Crane::new(&profile, secret, 0, Allowance::alone(8 << 10, 64 << 10));
    let mut sketch = empty()?;

    // Node n sends 50,000 / n packets to node 0.
    let edges = (1..=50_000).map(|n| Weighted::new(Edge::new(n, 0), u64::from(50_000 / n)));
    let stream: Vec<Weighted> = edges.collect();
    for batch in stream.chunks(4096) {
        // Equal edges of a batch become one arrival with all their packets.
        sketch.store(arrivals(&secret, batch).arrivals())?;
    }

    // Any pair can be queried.
    let pair = Edge::new(10_000, 0);
    let packets = sketch.flow(pair.name())?.packets;
    println!(
        "{} → {}: about {} packets, most likely {} to {}",
        pair.src, pair.dst, packets.estimate, packets.low, packets.high
    );

    // The heaviest pairs are known by name.
    let mut heaviest: Vec<_> = sketch.named::<Narrow>().collect();
    heaviest.sort_unstable_by_key(|flow| Reverse(flow.packets.estimate));
    for flow in heaviest.iter().take(5) {
        let Edge { src, dst } = Edge::of_name(flow.key);
        println!("{src} → {dst}: {} packets", flow.packets.estimate);
    }

    // A saved sketch gives the same answers in another process.
    let state = sketch.save_state()?;
    let mut again = empty()?;
    again.load_state(&state)?;
    assert_eq!(again.flow(pair.name())?.packets, packets);
    println!("{} bytes saved and loaded", state.len());
    Ok(())
}
