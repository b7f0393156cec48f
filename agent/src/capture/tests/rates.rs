//! Tests of the rates of captured packets.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::capture::testing::agent::TestAgent;
use crate::capture::testing::many;
use crate::capture::testing::network::FakeNetwork;
use crate::config::length::WindowLength;
use crate::window::rates::{Moment, Track};

/// Destination of all packets.
const TARGET: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 1);

/// Whatever the time between two queries, and however many windows end in between, the rate
/// is that of the packets sent between them.
#[test]
fn rates_match_the_packets_sent_across_ends_of_windows() {
    let network = FakeNetwork::of(&["eth0"]);
    let mut agent = TestAgent::start(&network, |config| {
        config.window.length = WindowLength(Duration::from_millis(700));
    });
    let reader = agent.reader();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let mut track = Track::default();
    let (mut sent, mut sent_at, mut turned) = (0, Vec::new(), 0);
    let start = Instant::now();
    for round in 0u64.. {
        let packets = if round % 3 == 0 { 7 } else { 40 };
        network.send("eth0", &many(packets));
        sent += u64::from(packets);
        agent.wait_until("all are stored", |agent| agent.stored("eth0") == sent);
        let known = track.window();
        let query = reader.query("eth0", move |windows| Moment::of(windows, known));
        let moment = runtime.block_on(query).unwrap().unwrap();
        turned += usize::from(known.is_some_and(|known| known != moment.window));
        track.add(moment);
        sent_at.push(sent);
        let recent = track.recent();
        let seconds = recent.seconds.rate_2s;
        if let Some(seconds) = seconds {
            let rate = recent.rates(&recent.destinations, &[TARGET.into()]);
            let rate = rate.rate_2s.unwrap();
            let came = (rate.packets_per_second * seconds).round() as u64;
            let is_sum = sent_at.iter().any(|before| sent - before == came);
            assert!(
                is_sum,
                "{came} in {seconds} s, sent until each query {sent_at:?}"
            );
        }
        if seconds.is_some() && turned >= 3 {
            break;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{turned} windows"
        );
        agent.work_for(Duration::from_millis(50 + 30 * (round % 4)));
    }
    agent.stop();
}
