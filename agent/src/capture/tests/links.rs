//! Tests of interfaces that appear, vanish or go down, and of captures that fail, lose
//! packets or cannot be opened.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::capture::source::Losses;
use crate::capture::testing::agent::{TestAgent, assert_conserved};
use crate::capture::testing::many;
use crate::capture::testing::network::FakeNetwork;
use crate::config::length::WindowLength;

/// Sends packets to eth0 and waits until these and `before` are stored.
fn send(network: &FakeNetwork, agent: &mut TestAgent, before: u64, packets: u32) {
    network.send("eth0", &many(packets));
    let all = before + u64::from(packets);
    agent.wait_until("packets are stored", |agent| agent.stored("eth0") == all);
}

#[test]
fn an_interface_that_appears_is_captured() {
    let network = FakeNetwork::default();
    let mut agent = TestAgent::start(&network, |config| {
        config.capture.exclude = vec!["docker*".parse().unwrap()];
    });
    assert_eq!(agent.waiting(), ["any interface that is up"]);
    network.add("docker0");
    network.add("eth0");
    agent.wait_until("eth0 is captured", |agent| agent.is_up("eth0"));
    assert_eq!(agent.waiting(), [""; 0]);
    send(&network, &mut agent, 0, 10);
    assert_eq!(network.attempts("docker0"), 0);
    let summaries = agent.stop();
    assert_eq!(summaries.len(), 1);
    assert_eq!(summaries[0].tally.packets.load(Relaxed), 10);
    assert_conserved(&summaries[0].tally);
}

#[test]
fn an_interface_that_comes_back_continues_its_counters() {
    let network = FakeNetwork::of(&["eth0", "eth1"]);
    let mut agent = TestAgent::start(&network, |_| {});
    send(&network, &mut agent, 0, 10);
    let tally = agent.tally("eth0").unwrap();
    network.remove("eth0");
    agent.wait_until("eth0 is gone", |_| {
        tally.gone.load(Relaxed) && !tally.up.load(Relaxed)
    });
    assert!(agent.is_up("eth1"));
    network.add("eth0");
    agent.wait_until("eth0 is back", |_| {
        !tally.gone.load(Relaxed) && tally.up.load(Relaxed)
    });
    send(&network, &mut agent, 10, 5);
    assert!(Arc::ptr_eq(&tally, &agent.tally("eth0").unwrap()));
    assert_eq!(agent.ended.len(), 0);
    assert_eq!(agent.stop().len(), 2);
    assert_conserved(&tally);
}

#[test]
fn an_interface_that_is_gone_for_two_windows_is_removed() {
    const WINDOW: Duration = Duration::from_millis(25);
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |config| {
        config.window.length = WindowLength(WINDOW);
    });
    send(&network, &mut agent, 0, 10);
    let removed = Instant::now();
    network.remove("eth0");
    agent.wait_until("eth0 is removed", |agent| !agent.ended.is_empty());
    let kept = removed.elapsed();
    assert!(kept >= 2 * WINDOW, "kept for {kept:?} only");
    assert!(agent.tally("eth0").is_none());
    assert_eq!(agent.waiting(), ["any interface that is up"]);
    let summary = agent.ended.remove(0);
    assert_eq!(summary.name, "eth0");
    assert_eq!(summary.tally.packets.load(Relaxed), 10);
    assert_conserved(&summary.tally);

    network.add("eth0");
    agent.wait_until("another eth0", |agent| agent.is_up("eth0"));
    send(&network, &mut agent, 0, 3);
    agent.stop();
}

/// The old capture never receives a packet again and gets no error.
#[test]
fn an_interface_that_is_created_again_is_opened_again() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    send(&network, &mut agent, 0, 10);
    network.remove("eth0");
    network.add("eth0");
    agent.wait_until("a capture of the new eth0", |agent| {
        network.open_settings("eth0").len() == 1 && agent.is_up("eth0")
    });
    send(&network, &mut agent, 10, 5);
    agent.stop();
}

#[test]
fn an_interface_that_goes_down_keeps_its_capture() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    let tally = agent.tally("eth0").unwrap();
    assert!(agent.is_up("eth0"));
    network.set_up("eth0", false);
    agent.wait_until("eth0 is down", |agent| !agent.is_up("eth0"));
    assert!(!tally.gone.load(Relaxed));
    network.set_up("eth0", true);
    agent.wait_until("eth0 is up", |agent| agent.is_up("eth0"));
    network.send("eth0", &many(10));
    agent.wait_until("packets are stored", |agent| agent.stored("eth0") == 10);
    assert_eq!(network.attempts("eth0"), 1, "it was not opened again");
    agent.stop();
}

#[test]
fn an_interface_that_cannot_be_opened_is_tried_again() {
    let network = FakeNetwork::of(&["eth0", "eth1"]);
    network.refuse("eth1", Some("out of memory"));
    let mut agent = TestAgent::start(&network, |_| {});
    agent.wait_until("some attempts", |_| network.attempts("eth1") >= 3);
    assert!(!agent.is_up("eth1"));
    network.send("eth0", &many(10));
    agent.wait_until("others are captured", |agent| agent.stored("eth0") == 10);
    network.refuse("eth1", None);
    agent.wait_until("eth1 is captured", |agent| agent.is_up("eth1"));
    network.send("eth1", &many(5));
    agent.wait_until("packets of eth1", |agent| agent.stored("eth1") == 5);
    agent.stop();
}

#[test]
fn an_agent_that_can_open_nothing_does_not_start() {
    let network = FakeNetwork::of(&["eth0"]);
    network.refuse("eth0", Some("no permission"));
    let Err(error) = TestAgent::try_start(&network, |_| {}) else {
        panic!("it started");
    };
    assert_eq!(error.to_string(), "no permission");
    // An interface that is down may come up later.
    network.set_up("eth0", false);
    let named = |config: &mut crate::config::Config| {
        config.capture.interfaces = vec!["eth0".parse().unwrap()];
    };
    let mut agent = TestAgent::start(&network, named);
    network.refuse("eth0", None);
    network.set_up("eth0", true);
    agent.wait_until("eth0 is captured", |agent| agent.is_up("eth0"));
    agent.stop();
}

#[test]
fn a_capture_that_fails_is_opened_again_and_its_packets_are_kept() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    network.refuse("eth0", Some("the interface is busy"));
    network.send("eth0", &many(10));
    let losses = Losses {
        kernel: 7,
        interface: 2,
    };
    network.add_losses("eth0", losses);
    network.fail("eth0", "the network went down");
    agent.wait_until("eth0 is closed", |agent| !agent.is_up("eth0"));
    assert_eq!(network.open_settings("eth0"), []);
    network.refuse("eth0", None);
    agent.wait_until("eth0 is open", |agent| agent.is_up("eth0"));
    network.send("eth0", &many(5));
    agent.wait_until("packets are stored", |agent| agent.stored("eth0") == 15);
    let tally = &agent.stop()[0].tally;
    assert_eq!(tally.kernel_drops.load(Relaxed), 7);
    assert_eq!(tally.interface_drops.load(Relaxed), 2);
    assert_conserved(tally);
}

#[test]
fn losses_are_counted_with_and_without_traffic() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    let tally = agent.tally("eth0").unwrap();
    for times in 1..=3 {
        let losses = Losses {
            kernel: 3,
            interface: 1,
        };
        network.add_losses("eth0", losses);
        agent.wait_until("losses are counted", |_| {
            tally.kernel_drops.load(Relaxed) == 3 * times
                && tally.interface_drops.load(Relaxed) == times
        });
        network.send("eth0", &many(10));
    }
    agent.stop();
    assert_eq!(tally.packets.load(Relaxed), 30);
    assert_conserved(&tally);
}
