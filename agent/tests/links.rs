//! Interfaces that appear and disappear while the agent runs.
#![allow(clippy::unwrap_used)]

mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::net::{AGENT_PORT, Cable, LEFT, RIGHT, fetch, ip};
use common::{AGENT, MOMENT, Running, eventually, series, values};

fn of(cable: &Cable, name: &str, interface: &str) -> Option<f64> {
    series(&cable.metrics(), name, &[("interface", interface)])
}

fn up(cable: &Cable, interface: &str) -> Option<f64> {
    of(cable, "crane_interface_up", interface)
}

fn ready(cable: &Cable) -> String {
    fetch(Some(&cable.left), AGENT_PORT, "/readyz").unwrap()
}

/// Waits until an interface is captured. Returns how long that took.
fn captured(cable: &Cable, interface: &str) -> Duration {
    let start = Instant::now();
    eventually("a capture", || {
        (up(cable, interface) == Some(1.0)).then_some(())
    });
    start.elapsed()
}

fn delete(cable: &Cable, interface: &str) {
    ip(&["-n", &cable.left, "link", "delete", interface]);
}

#[test]
fn an_interface_that_matches_is_captured_soon_after_it_appears() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = cable.capture(&["-i", "cable", "-i", "sec*"]);
    assert_eq!(up(&cable, "second"), None);
    assert_eq!(ready(&cable), "ok\n", "a pattern may match nothing");
    cable.plug_second();
    let took = captured(&cable, "second");
    assert!(took < MOMENT, "{took:?}");
    let line = agent.wait_for_line("second");
    assert!(line.contains("capturing"), "{line}");
    // All counters exist from the start.
    let text = cable.metrics();
    for reason in ["ring_full", "kernel", "interface"] {
        let labels = [("interface", "second"), ("reason", reason)];
        let dropped = series(&text, "crane_capture_dropped_packets_total", &labels);
        assert_eq!(dropped, Some(0.0));
    }
    let count = "crane_sketch_batch_edges_count";
    assert_eq!(series(&text, count, &[("interface", "second")]), Some(0.0));
    assert_eq!(ready(&cable), "ok\n");
    let (code, took) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < MOMENT, "{took:?}");
}

#[test]
fn missing_interfaces_are_waited_for() {
    let Some(cable) = Cable::lay() else { return };
    delete(&cable, "cable");
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "-i", "sec*"]);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    let line = agent.wait_for_line("WARN");
    for part in ["no such interface: cable", "this machine has lo", "waiting"] {
        assert!(line.contains(part), "{line}");
    }
    let line = agent.wait_for_line("sec*");
    assert!(line.contains("no interface matches sec*"), "{line}");
    agent.wait_for_line("metrics are at");
    assert_eq!(ready(&cable), "waiting for: cable, sec*\n");
    cable.plug_second();
    let took = captured(&cable, "second");
    assert!(took < MOMENT, "{took:?}");
    assert_eq!(
        ready(&cable),
        "waiting for: cable\n",
        "an interface that is configured by name is waited for"
    );
    cable.plug();
    let took = captured(&cable, "cable");
    assert!(took < MOMENT, "{took:?}");
    assert_eq!(ready(&cable), "ok\n");
    cable.ping(5);
    eventually("its packets", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(10.0)).then_some(())
    });
    let line = agent.wait_for_line("cable");
    assert!(line.contains("INFO"), "one warning is enough: {line}");
}

#[test]
fn an_agent_that_starts_before_the_network_replaces_loopback_by_it() {
    let Some(cable) = Cable::lay() else { return };
    delete(&cable, "cable");
    let _agent = cable.capture(&[]);
    assert_eq!(up(&cable, "lo"), Some(1.0));
    cable.plug();
    let took = captured(&cable, "cable");
    assert!(took < MOMENT, "{took:?}");
    eventually("loopback to be left alone", || {
        up(&cable, "lo").is_none().then_some(())
    });
    assert_eq!(ready(&cable), "ok\n");
    // Loopback does not replace an interface that may soon be back.
    delete(&cable, "cable");
    eventually("the cable to be down", || {
        (up(&cable, "cable") == Some(0.0)).then_some(())
    });
    cable.plug();
    captured(&cable, "cable");
    assert_eq!(up(&cable, "lo"), None);
}

#[test]
fn without_any_interface_the_agent_waits_for_one() {
    let Some(cable) = Cable::lay() else { return };
    let _agent = cable.capture(&["-x", "lo", "-x", "cable"]);
    assert_eq!(ready(&cable), "waiting for: any interface that is up\n");
    cable.plug_second();
    captured(&cable, "second");
    assert_eq!(ready(&cable), "ok\n");
}

#[test]
fn an_interface_that_returns_keeps_its_window_and_its_counters() {
    let Some(cable) = Cable::lay() else { return };
    let _agent = cable.capture(&["-i", "cable"]);
    cable.ping(10);
    eventually("its packets", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(20.0)).then_some(())
    });
    let began = of(&cable, "crane_window_start_timestamp_seconds", "cable");
    // Replaced by another interface of the same name before its absence can be noticed.
    delete(&cable, "cable");
    cable.plug();
    cable.ping(1);
    let sees = || {
        cable.ping(1);
        of(&cable, "crane_sketch_edges_total", "cable").filter(|edges| *edges > 20.0)
    };
    let start = Instant::now();
    eventually("packets of the new one", sees);
    assert!(start.elapsed() < MOMENT, "{:?}", start.elapsed());
    delete(&cable, "cable");
    eventually("the cable to be waited for", || {
        (ready(&cable) == "waiting for: cable\n").then_some(())
    });
    let before = of(&cable, "crane_sketch_edges_total", "cable").unwrap();
    cable.plug();
    captured(&cable, "cable");
    cable.ping(10);
    eventually("more packets", || {
        let edges = of(&cable, "crane_sketch_edges_total", "cable");
        (edges == Some(before + 20.0)).then_some(())
    });
    let text = eventually("a view of them", || {
        let text = cable.metrics();
        let packets = series(&text, "crane_window_packets", &[("interface", "cable")]);
        (packets == Some(before + 20.0)).then_some(text)
    });
    let labels = [("interface", "cable"), ("src", RIGHT), ("dst", LEFT)];
    let heavy = series(&text, "crane_heavy_hitter_packets", &labels);
    assert_eq!(
        heavy,
        Some(before / 2.0 + 10.0),
        "packets before and after are in one window"
    );
    let now = of(&cable, "crane_window_start_timestamp_seconds", "cable");
    assert_eq!(began, now);
}

#[test]
fn a_deleted_interface_is_removed_after_two_windows() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let mut agent = cable.capture(&["-i", "cab*", "-i", "sec*", "--window", "2s"]);
    assert_eq!(up(&cable, "second"), Some(1.0));
    let start = Instant::now();
    delete(&cable, "second");
    let text = eventually("the interface to vanish", || {
        let text = cable.metrics();
        (!text.contains("interface=\"second\"")).then_some(text)
    });
    let took = start.elapsed();
    assert!(
        took > Duration::from_secs(3),
        "{took:?}: it is kept because it might return"
    );
    assert!(text.contains("interface=\"cable\""));
    assert_eq!(ready(&cable), "ok\n", "it was not configured by name");
    let line = agent.wait_for_line("stopped");
    assert!(line.contains("second"), "{line}");
    // Its counters begin at 0 again.
    cable.plug_second();
    captured(&cable, "second");
    assert_eq!(
        of(&cable, "crane_capture_packets_total", "second"),
        Some(0.0)
    );
}

#[test]
fn buffers_are_resized_and_no_packet_is_lost_or_counted_twice() {
    let Some(cable) = Cable::lay() else { return };
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "-i", "idle*", "--window", "1s"]);
    command.env("CRANE_CAPTURE_BUFFER_TOTAL", "4MiB");
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    let sizes = || {
        let text = cable.metrics();
        ["crane_capture_buffer_bytes", "crane_ring_slots"].map(|name| {
            let all: Vec<f64> = values(&text, name).collect();
            (all.len(), all.iter().sum::<f64>(), all[0])
        })
    };
    let [(_, buffers, _), (_, _, alone)] = sizes();
    assert_eq!(buffers, f64::from(4 << 20));
    assert_eq!(alone, f64::from((1 << 20) / 24));
    // Packets are sent all the time.
    let mut ping = Cable::command(&cable.right, "ping");
    ping.args(["-q", "-c", "3000", "-i", "0.002", LEFT]);
    let mut ping = Running::start(ping.stdout(Stdio::null()));
    cable.plug_idle(6);
    let shared = eventually("smaller shares for all", || {
        let [buffers, rings] = sizes();
        (buffers.0 == 7 && buffers.1 == f64::from(7 << 19) && rings.2 < alone / 6.0)
            .then_some([buffers, rings])
    });
    let [(_, _, buffer), (_, slots, _)] = shared;
    assert_eq!(buffer, f64::from(512 << 10), "an eighth");
    assert!(slots <= f64::from((1 << 20) / 24), "{slots}");
    for n in 0..3 {
        delete(&cable, &format!("idle{n}"));
    }
    eventually("larger shares", || {
        let [buffers, _] = sizes();
        (buffers.0 == 1 && buffers.2 >= f64::from(2 << 20)).then_some(())
    });
    assert!(ping.succeeds());
    let labels = [("interface", "cable")];
    eventually("all packets", || {
        let text = cable.metrics();
        let edges = series(&text, "crane_sketch_edges_total", &labels)?;
        assert!(edges <= 6000.0, "{edges}");
        (edges == 6000.0).then_some(())
    });
}

/// What a process uses: descriptors, threads, memory in bytes.
fn resources(agent: &Running) -> [u64; 3] {
    let count = |what: &str| {
        let folder = format!("/proc/{}/{what}", agent.0.id());
        std::fs::read_dir(folder).unwrap().count() as u64
    };
    [count("fd"), count("task"), agent.resident_bytes()]
}

#[test]
fn hundreds_of_short_lived_interfaces_leave_no_resources_in_use() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = Cable::command(&cable.left, AGENT);
    agent.args(["run", "-i", "cable", "-i", "idle*", "--window", "1s"]);
    // Its log is discarded, because no test reads the lines about all these.
    let agent = Running::start(agent.stderr(Stdio::null()));
    captured(&cable, "cable");
    let come_and_go = |pairs: usize, name: &str| {
        let folder = tempfile::tempdir().unwrap();
        let batch = folder.path().join("batch");
        let pairs = (0..pairs).map(|n| {
            let (one, other) = (format!("idle{name}{n}"), format!("idle{name}{n}b"));
            format!(
                "link add {one} type veth peer name {other}\n\
                 link set {one} up\nlink set {other} up\n"
            )
        });
        for ten in pairs.collect::<Vec<_>>().chunks(10) {
            std::fs::write(&batch, ten.concat()).unwrap();
            ip(&["-n", &cable.left, "-batch", batch.to_str().unwrap()]);
            // By now some are captured, some are about to be, and some never will be.
            std::thread::sleep(Duration::from_millis(200));
            let gone = ten.iter().map(|pair| {
                let name = pair.split(' ').nth(2).unwrap();
                format!("link delete {name}\n")
            });
            std::fs::write(&batch, gone.collect::<String>()).unwrap();
            ip(&["-n", &cable.left, "-batch", batch.to_str().unwrap()]);
        }
    };
    let removed = || {
        eventually("all to be removed", || {
            let text = cable.metrics();
            (!text.contains("idle")).then(|| text.lines().count())
        })
    };
    // After these, threads and buffers that are kept for reuse exist.
    come_and_go(50, "w");
    let series = removed();
    std::thread::sleep(Duration::from_secs(1));
    let [descriptors, threads, memory] = resources(&agent);
    come_and_go(300, "");
    assert_eq!(removed(), series);
    eventually("descriptors and threads as before", || {
        let [now_descriptors, now_threads, _] = resources(&agent);
        (now_descriptors <= descriptors && now_threads <= threads).then_some(())
    });
    let [.., now] = resources(&agent);
    assert!(
        now < memory + (16 << 20),
        "{memory} bytes before, {now} now"
    );
    assert_eq!(ready(&cable), "ok\n");
    cable.ping(5);
    eventually("packets", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(10.0)).then_some(())
    });
}
