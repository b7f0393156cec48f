use std::thread;

use crane_model::Secret;

use super::*;
use crate::config;
use crate::config::length::WindowLength;
use crate::edge::{Edge, Pair};
use crate::service::Service;
use crate::sketch::ring::ring;
use crate::sketch::window::Cadence;

/// Batches end within an edge of two slots, and one more slot is taken.
#[test]
fn a_window_turns_with_many_batches_of_ipv6_in_the_ring() {
    let config = config::Sketch::default();
    let blueprint = Blueprint::new(&config, Secret::from_seed(1)).unwrap();
    let (mut writer, ring) = ring(64, thread::current(), 3);
    let tally = Arc::new(Tally::default());
    let past = Instant::now() - Duration::from_secs(1);
    let cadence = Cadence::new(past, WindowLength(Duration::from_millis(100)), past);
    let mut interface = Interface::new(Options {
        name: "eth0".into(),
        tally: Arc::clone(&tally),
        ring,
        past: None,
        clock: WindowClock::Monotonic(cadence),
        scale: 1,
        stores: true,
        budget: Budget::new(&config, 1, 2, blueprint.least()).unwrap(),
        blueprint: Arc::new(blueprint),
        names: None,
        settings: None,
    })
    .unwrap();
    let (src, dst) = (1u128.into(), 2u128.into());
    let edge = Edge {
        name: Pair::V6(src, dst).name(),
        service: Service::FRAGMENT,
        bytes: 100,
        time: 0,
    };
    let mut slots = Vec::new();
    (0..4).for_each(|_| Slot::write(&edge, &mut slots));
    writer.push(&mut slots);
    let mut buffers = Buffers::default();
    let work = interface.work(&mut buffers, Cut::Count);
    assert_eq!(work.unwrap(), Progress::Stored);
    assert_eq!(tally.edges.load(Relaxed), 4);
    assert_eq!(interface.windows.last().unwrap().packets, 4);
    let batches = tally.batches.edges();
    assert_eq!((batches.count, batches.sum), (2, 4.0), "packets, not slots");
}
