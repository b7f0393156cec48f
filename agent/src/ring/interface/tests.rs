use std::thread;

use crane_model::Secret;

use super::*;
use crate::config;
use crate::config::length::WindowLength;
use crate::lookup::Lookup;
use crate::ring::edge_ring::{RingWriter, ring};
use crate::sketches::Blueprint;
use crate::sketches::budget::Budget;
use crate::traffic::edge::{Edge, Pair};
use crate::traffic::service::Service;
use crate::window::{WallWindows, WindowClock};

/// An interface whose windows have this length and began a second ago, the writer of its ring
/// and its counters.
pub fn interface(length: Duration, batch: usize) -> (Interface, RingWriter, Arc<Tally>) {
    let config = config::Sketch::default();
    let blueprint = Blueprint::new(&config, Secret::from_seed(1)).unwrap();
    let (writer, ring) = ring(65536, thread::current(), batch);
    let tally = Arc::new(Tally::default());
    let past = Instant::now() - Duration::from_secs(1);
    let windows = windows::Options {
        interface: "eth0".into(),
        tally: Arc::clone(&tally),
        clock: WindowClock::Wall(WallWindows::new(WindowLength(length), past, wall_clock())),
        scale: 1,
        budget: Budget::new(&config, 1, 2, blueprint.least()).unwrap(),
        blueprint: Arc::new(blueprint),
        names: None,
        lookup: Lookup::none(),
        whole: false,
        exact: false,
        on_turn: None,
    };
    let interface = Interface::new(Options {
        ring,
        stores: true,
        settings: None,
        windows,
    });
    (interface.unwrap(), writer, tally)
}

/// Batches end within an edge of two slots, and one more slot is taken.
#[test]
fn a_window_ends_with_many_batches_of_ipv6_in_the_ring() {
    let (mut interface, mut writer, tally) = interface(Duration::from_millis(100), 3);
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
    let mut run = Run::new(false);
    let work = interface.work(&mut run, Cut::Count, &mut |_| {});
    assert_eq!(work.unwrap(), Progress::Stored);
    assert_eq!(tally.edges.load(Relaxed), 4);
    assert_eq!(interface.windows.last().unwrap().packets, 4);
    let batches = tally.batches.edges();
    assert_eq!((batches.count, batches.sum), (2, 4.0), "packets, not slots");
}
