//! Tests with more packets than can be stored.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::capture::live::LiveInterface;
use crate::capture::settings::CaptureSettings;
use crate::capture::testing::agent::{TIMING, TestAgent, assert_conserved};
use crate::capture::testing::network::FakeNetwork;
use crate::capture::testing::sink;
use crate::capture::testing::{many, source};
use crate::capture::thread::{CaptureThread, Message};
use crate::config;
use crate::traffic::edge::Pair;
use crate::traffic::slot::Slot;
use crate::traffic::tally::Tally;

/// Waits until this many packets were received.
fn wait_for(tally: &Tally, packets: u64) {
    let start = Instant::now();
    while tally.packets.load(Relaxed) != packets {
        assert!(start.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(1));
    }
}

/// The ring is not read for a while.
#[test]
fn a_full_ring_drops_the_newest_packets_and_counts_them() {
    const SLOTS: u32 = 1024;
    const SENT: u32 = 3000;
    let network = FakeNetwork::of(&["eth0"]);
    let (sink, mut reader, tally) = sink(SLOTS as usize);
    let settings = CaptureSettings::new(&config::Capture::default(), 8 << 20);
    let mut interface =
        LiveInterface::new("eth0", Arc::new(network.clone()), sink, settings, TIMING);
    interface.open().unwrap();
    let stop: &AtomicBool = Box::leak(Box::default());
    let thread = CaptureThread::start(TIMING, stop).unwrap();
    thread.send(Message::Capture(Box::new(interface)));

    network.send("eth0", &many(SENT));
    wait_for(&tally, SENT.into());
    let mut slots = Vec::new();
    reader.take(&mut slots, reader.used()).unwrap();
    let pairs = Slot::edges(&slots).map(|edge| Pair::of_name(edge.name));
    let sources: Vec<IpAddr> = pairs.map(|pair| pair.src()).collect();
    let oldest: Vec<IpAddr> = (0..SLOTS).map(|n| source(n).into()).collect();
    assert_eq!(sources, oldest);
    assert_eq!(tally.ring_full.load(Relaxed), u64::from(SENT - SLOTS));

    // The ring has room again.
    network.send("eth0", &many(10));
    wait_for(&tally, u64::from(SENT) + 10);
    stop.store(true, Relaxed);
    thread.join().unwrap();
    assert_eq!(reader.used(), 10);
    assert_eq!(tally.ring_full.load(Relaxed), u64::from(SENT - SLOTS));
}

#[test]
fn every_packet_of_a_flood_is_in_a_counter() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |config| config.capture.ring_slots = 1024);
    let packets = many(20_000);
    for _ in 0..3 {
        network.send("eth0", &packets);
        agent.wait_until("all were taken", |_| network.waiting_packets() == 0);
    }
    let tally = &agent.stop()[0].tally;
    assert_eq!(tally.packets.load(Relaxed), 60_000);
    let stored = tally.edges.load(Relaxed);
    assert_eq!(stored + tally.ring_full.load(Relaxed), 60_000);
    assert!(stored >= 1024, "{stored}");
    assert_conserved(tally);
}
