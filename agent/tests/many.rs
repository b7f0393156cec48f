//! One agent on hundreds of interfaces.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::net::{Cable, LEFT, RIGHT};
use common::{eventually, series, values};

/// Interfaces besides the one with packets.
const IDLE: usize = 500;

#[test]
fn hundreds_of_idle_interfaces_cost_little() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_idle(IDLE);
    let agent = cable.capture(&["--window", "2s"]);
    // With two windows on every interface the memory is at its maximum.
    let text = eventually("a complete window on every interface", || {
        let text = cable.metrics();
        let complete = values(&text, "crane_window_complete").filter(|complete| *complete == 1.0);
        (complete.count() == IDLE + 1).then_some(text)
    });
    assert_eq!(
        values(&text, "crane_interface_up").sum::<f64>() as usize,
        IDLE + 1
    );
    let sketches: f64 = values(&text, "crane_sketch_memory_bytes").sum();
    assert!(
        sketches <= f64::from(64 << 20),
        "{sketches} bytes of sketches"
    );
    let resident = agent.resident_bytes();
    assert!(resident <= 256 << 20, "{resident} bytes resident");

    // This is a build without optimisation, on a machine that may be busy, with very
    // short windows. The benchmark has the real figures.
    let (before, seconds) = (agent.cpu_seconds(), 4);
    std::thread::sleep(Duration::from_secs(seconds));
    let share = (agent.cpu_seconds() - before) / seconds as f64;
    assert!(share < 0.25, "{share} of a core to do nothing");

    // The only interface with packets is among the exported ones.
    cable.ping(100);
    eventually("its packets", || {
        let edges = series(
            &cable.metrics(),
            "crane_sketch_edges_total",
            &[("interface", "cable")],
        );
        (edges == Some(200.0)).then_some(())
    });
    let text = eventually("its heavy hitters", || {
        Some(cable.metrics()).filter(|text| text.contains("crane_heavy_hitter_packets{"))
    });
    let labels = [("interface", "cable"), ("src", RIGHT), ("dst", LEFT)];
    let heavy = series(&text, "crane_heavy_hitter_packets", &labels);
    assert!(heavy.is_some());
    assert_eq!(
        values(&text, "crane_capture_dropped_packets_total").sum::<f64>(),
        0.0
    );
}
