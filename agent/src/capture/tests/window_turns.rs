//! Tests of windows that end while packets arrive.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::capture::testing::agent::TestAgent;
use crate::capture::testing::many;
use crate::capture::testing::network::FakeNetwork;
use crate::config::length::WindowLength;

/// Much longer than the test needs to read the last window.
const WINDOW: Duration = Duration::from_millis(200);

#[test]
fn every_packet_is_counted_in_exactly_one_window() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |config| {
        config.window.length = WindowLength(WINDOW);
    });
    let mut windows: BTreeMap<u64, u64> = BTreeMap::new();
    let (start, mut sent) = (Instant::now(), 0);
    while start.elapsed() < WINDOW + WINDOW / 4 {
        network.send("eth0", &many(7));
        sent += 7;
        agent.work_for(Duration::from_millis(2));
        windows.extend(agent.last_window("eth0"));
    }
    agent.wait_until("all are stored", |agent| agent.stored("eth0") == sent);
    let stored = Instant::now();
    while stored.elapsed() < 2 * WINDOW {
        agent.work_for(Duration::from_millis(2));
        windows.extend(agent.last_window("eth0"));
    }
    assert_eq!(windows.values().sum::<u64>(), sent, "{windows:?}");
    let with_packets = windows.values().filter(|packets| **packets > 0).count();
    assert!(with_packets >= 2, "{windows:?}");
    let length = WINDOW.as_nanos() as u64;
    let aligned = windows
        .keys()
        .skip(1)
        .all(|start| start.is_multiple_of(length));
    assert!(aligned, "{windows:?}");
    agent.stop();
}
