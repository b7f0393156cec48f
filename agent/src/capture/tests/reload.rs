//! Tests of a reload while packets arrive, also with a capture that is read too slowly to
//! be complete when the new one takes over.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::capture::settings::CaptureSettings;
use crate::capture::testing::agent::{TIMING, TestAgent, assert_conserved};
use crate::capture::testing::network::{FakeNetwork, ReadSpeed};
use crate::capture::testing::{many, tcp, udp};
use crate::config::Config;
use crate::config::length::WindowLength;
use crate::config::size::Size;
use crate::traffic::tally::Ignored;

/// Sends UDP packets to eth0 while `work` runs. Returns how many were sent.
fn while_packets_flow(network: &FakeNetwork, work: impl FnOnce()) -> u64 {
    /// Ends the sender even if the work panics.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let packets = many(10);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0;
            while !ended.load(Relaxed) {
                network.send("eth0", &packets);
                sent += packets.len() as u64;
                thread::sleep(Duration::from_micros(200));
            }
            sent
        });
        let end = End(&ended);
        work();
        drop(end);
        sender.join().unwrap()
    })
}

/// Waits until eth0 has one open capture with the right settings.
fn wait_for_settings(
    network: &FakeNetwork,
    agent: &mut TestAgent,
    are_right: impl Fn(&CaptureSettings) -> bool,
) {
    agent.wait_until("a capture with other settings", |_| {
        let open = network.open_settings("eth0");
        open.len() == 1 && are_right(&open[0])
    });
}

#[test]
fn captures_are_replaced_and_no_packet_is_lost_or_counted_twice() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    let tally = agent.tally("eth0").unwrap();
    let sent = while_packets_flow(&network, || {
        let agent = &mut agent;
        for filter in ["udp", "ip", "udp or tcp"] {
            let change = |config: &mut Config| config.capture.filter = Some(filter.into());
            agent.reload(change).unwrap();
            let is_right = |open: &CaptureSettings| open.filter.as_deref() == Some(filter);
            wait_for_settings(&network, agent, is_right);
        }
        // Another buffer, and another ring.
        let slots = tally.ring_slots.load(Relaxed);
        let buffer = Size(2 << 20);
        let change = |config: &mut Config| config.capture.buffer_total = buffer;
        agent.reload(change).unwrap();
        wait_for_settings(&network, agent, |open| open.buffer == buffer.0);
        assert!(tally.ring_slots.load(Relaxed) < slots);
        assert_eq!(tally.buffer_bytes.load(Relaxed), buffer.0);
        // Another ring alone.
        agent.reload(|config| config.sketch.batch = 100).unwrap();
        let stored = agent.stored("eth0");
        agent.wait_until("more packets", |agent| agent.stored("eth0") > stored + 100);
    });
    assert_eq!(agent.last_window("eth0"), None, "the window continues");
    agent.stop();
    assert_eq!(tally.packets.load(Relaxed), sent);
    assert_eq!(tally.edges.load(Relaxed), sent);
    assert_conserved(&tally);
}

#[test]
fn the_filter_of_the_last_reload_takes_effect() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    let send_both = || network.send("eth0", &[udp(1), tcp(1)]);
    send_both();
    agent.wait_until("both", |agent| agent.stored("eth0") == 2);
    // The second reload comes before the first has taken effect.
    for filter in ["tcp", "udp"] {
        let change = |config: &mut Config| config.capture.filter = Some(filter.into());
        agent.reload(change).unwrap();
    }
    let is_udp = |open: &CaptureSettings| open.filter.as_deref() == Some("udp");
    wait_for_settings(&network, &mut agent, is_udp);
    send_both();
    let tally = &agent.stop()[0].tally;
    assert_eq!(tally.packets.load(Relaxed), 3);
    let protocols = tally.protocols();
    let of = |name| protocols.iter().find(|(known, ..)| *known == name).unwrap();
    assert_eq!((of("udp").1, of("tcp").1), (2, 1));
}

#[test]
fn a_reload_that_is_refused_changes_nothing() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    let before = network.open_settings("eth0");
    network.refuse("eth0", Some("no such filter"));
    let change = |config: &mut Config| config.capture.filter = Some("udp".into());
    let refused = agent.reload(change).unwrap_err();
    assert_eq!(refused.to_string(), "no such filter");
    agent.work_for(Duration::from_millis(10));
    assert_eq!(network.open_settings("eth0"), before);
    network.send("eth0", &[udp(1), tcp(1)]);
    agent.wait_until("both", |agent| agent.stored("eth0") == 2);
    agent.stop();
}

#[test]
fn sampling_begins_with_a_window_and_all_packets_are_counted() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    let tally = agent.tally("eth0").unwrap();
    let sent = while_packets_flow(&network, || {
        let agent = &mut agent;
        for sample in [4, 1, 2] {
            let ignored = tally.ignored(Ignored::Sampled);
            let change = |config: &mut Config| config.capture.sample = sample;
            agent.reload(change).unwrap();
            agent.wait_until("packets are left out", |_| {
                sample == 1 || tally.ignored(Ignored::Sampled) > ignored + 50
            });
        }
    });
    agent.stop();
    assert_eq!(tally.packets.load(Relaxed), sent);
    let ignored = tally.ignored(Ignored::Sampled);
    assert_eq!(tally.edges.load(Relaxed) + ignored, sent);
    assert_conserved(&tally);
}

#[test]
fn windows_of_another_length_begin_at_once_and_share_no_packet() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    let sent = while_packets_flow(&network, || {
        let agent = &mut agent;
        let some = |agent: &TestAgent| agent.stored("eth0") > 100;
        agent.wait_until("some packets", some);
        let change = |config: &mut Config| config.window.length = WindowLength::seconds(1800);
        agent.reload(change).unwrap();
        let stored = agent.stored("eth0");
        let more = |agent: &TestAgent| agent.stored("eth0") > stored + 100;
        agent.wait_until("more packets", more);
    });
    agent.wait_until("all are stored", |agent| agent.stored("eth0") == sent);
    let (_, before) = agent.last_window("eth0").unwrap();
    let ended = agent.stop();
    // No window was complete before the reload, so there are exactly two.
    let after = ended[0].view.last.as_ref().unwrap().packets;
    assert!(before > 0 && after > 0, "{before} {after}");
    assert_eq!(before + after, sent);
}

/// With this speed, reading a thousand packets takes much longer than the delivery time.
const SLOW: ReadSpeed = ReadSpeed {
    at_once: 20,
    pause: Duration::from_millis(1),
};

/// Another buffer size, which replaces the capture.
const BUFFER: Size = Size(2 << 20);

fn replace_capture(agent: &mut TestAgent) {
    let change = |config: &mut Config| config.capture.buffer_total = BUFFER;
    agent.reload(change).unwrap();
}

fn wait_for_switch(agent: &mut TestAgent) {
    let tally = agent.tally("eth0").unwrap();
    agent.wait_until("the new capture", |_| {
        tally.buffer_bytes.load(Relaxed) == BUFFER.0
    });
}

fn wait_for_end(network: &FakeNetwork, agent: &mut TestAgent) {
    agent.wait_until("one capture without packets", |_| {
        network.open_settings("eth0").len() == 1 && network.waiting_packets() == 0
    });
}

#[test]
fn a_capture_stays_open_until_all_of_its_packets_are_taken() {
    assert!(1000 / SLOW.at_once as u32 * SLOW.pause > 10 * TIMING.delivery);
    let network = FakeNetwork::of(&["eth0"]);
    network.set_speed("eth0", SLOW);
    let mut agent = TestAgent::start(&network, |_| {});
    network.send("eth0", &many(1000));
    replace_capture(&mut agent);
    wait_for_switch(&mut agent);
    assert!(
        network.waiting_packets() > 500,
        "packets were read too fast for this test"
    );
    // Both captures have these packets; the new one counts them.
    network.send("eth0", &many(200));
    wait_for_end(&network, &mut agent);
    network.send("eth0", &many(10));
    let tally = &agent.stop()[0].tally;
    assert_eq!(tally.packets.load(Relaxed), 1210);
    assert_conserved(tally);
}

#[test]
fn packets_that_both_captures_have_are_counted_once() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |_| {});
    network.set_speed("eth0", SLOW);
    network.set_opening_time("eth0", Duration::from_millis(20));
    replace_capture(&mut agent);
    agent.wait_until("both are open", |_| {
        network.open_settings("eth0").len() == 2
    });
    network.send("eth0", &many(1000));
    wait_for_switch(&mut agent);
    network.send("eth0", &many(10));
    // The previous capture is closed long before the new one has skipped the overlap.
    wait_for_end(&network, &mut agent);
    let tally = &agent.stop()[0].tally;
    assert_eq!(tally.packets.load(Relaxed), 1010);
    assert_conserved(tally);
}

#[test]
fn a_new_capture_that_fails_loses_no_packet_of_the_previous_one() {
    let network = FakeNetwork::of(&["eth0"]);
    network.set_speed("eth0", SLOW);
    let mut agent = TestAgent::start(&network, |_| {});
    network.send("eth0", &many(1000));
    replace_capture(&mut agent);
    wait_for_switch(&mut agent);
    let attempts = network.attempts("eth0");
    network.fail("eth0", "the network went down");
    agent.wait_until("another attempt", |_| network.attempts("eth0") > attempts);
    wait_for_end(&network, &mut agent);
    network.send("eth0", &many(10));
    let tally = &agent.stop()[0].tally;
    assert_eq!(tally.packets.load(Relaxed), 1010);
    assert_conserved(tally);
}
