//! Live capture on a veth pair, scraped by a real Prometheus.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::net::{
    AGENT_PORT, Cable, LEFT, PROMETHEUS_PORT, Prometheus, RIGHT, fetch, ip, wait_for_window,
};
use common::{
    AGENT, MOMENT, Running, address, eventually, frame, free_port, get, series, write_pcap,
};

#[test]
fn prometheus_shows_the_packets_that_were_sent() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = cable.capture(&["-i", "cable"]);
    let prometheus = Prometheus::start(AGENT_PORT, PROMETHEUS_PORT, Some(&cable.left));
    cable.ping(50);

    let there = format!("crane_heavy_hitter_packets{{src=\"{RIGHT}\",dst=\"{LEFT}\"}}");
    let back = format!("crane_heavy_hitter_packets{{src=\"{LEFT}\",dst=\"{RIGHT}\"}}");
    prometheus.wait_for(&there, |packets| packets == 50.0);
    prometheus.wait_for(&back, |packets| packets == 50.0);
    prometheus.wait_for("crane_sketch_edges_total", |edges| edges == 100.0);
    prometheus.wait_for("crane_interface_up", |up| up == 1.0);
    let uncounted = "crane_capture_packets_total - crane_sketch_edges_total - on (interface) \
                 sum by (interface) (crane_capture_ignored_packets_total) - on (interface) \
                 sum by (interface) (crane_capture_dropped_packets_total{reason=\"ring_full\"})";
    prometheus.wait_for(uncounted, |outstanding| outstanding == 0.0);

    let (code, took) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < MOMENT, "{took:?}");
}

#[test]
fn the_exported_text_passes_the_check_of_promtool() {
    let Some(cable) = Cable::lay() else { return };
    let _agent = cable.capture(&["-i", "cable"]);
    cable.ping(5);
    let text = eventually("heavy hitters", || {
        Some(cable.metrics()).filter(|text| text.contains("crane_heavy_hitter_packets{"))
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("metrics.txt");
    std::fs::write(&file, &text).unwrap();
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&check.stderr).into_owned()
        + &String::from_utf8_lossy(&check.stdout);
    assert!(
        check.status.success() && said.trim().is_empty(),
        "{said}\n{text}"
    );
    let complete = series(&text, "crane_window_complete", &[("interface", "cable")]);
    assert_eq!(complete, Some(0.0), "the first window lasts long");
    // Counters exist from the start, also those that are 0.
    for reason in ["ring_full", "kernel", "interface"] {
        let labels = [("interface", "cable"), ("reason", reason)];
        assert_eq!(
            series(&text, "crane_capture_dropped_packets_total", &labels),
            Some(0.0)
        );
    }
}

#[test]
fn an_idle_link_stops_at_once_on_either_signal() {
    let Some(cable) = Cable::lay() else { return };
    for signal in ["-INT", "-TERM"] {
        let mut agent = cable.capture(&["-i", "cable"]);
        let (code, took) = agent.stop(signal);
        assert_eq!(code, Some(0), "{signal}");
        assert!(took < MOMENT, "{signal} took {took:?}");
    }
}

#[test]
fn an_interface_that_goes_away_and_comes_back_is_captured_again() {
    let Some(cable) = Cable::lay() else { return };
    let _agent = cable.capture(&["-i", "cable"]);
    let up = |text: &str| series(text, "crane_interface_up", &[("interface", "cable")]);
    ip(&["-n", &cable.left, "link", "delete", "cable"]);
    eventually("the interface to be down", || {
        Some(up(&cable.metrics()) == Some(0.0)).filter(|down| *down)
    });
    cable.plug();
    eventually("the interface to be back", || {
        Some(up(&cable.metrics()) == Some(1.0)).filter(|up| *up)
    });
    cable.ping(3);
    eventually("its packets", || {
        let labels = [("src", RIGHT), ("dst", LEFT)];
        series(&cable.metrics(), "crane_heavy_hitter_packets", &labels)
            .filter(|packets| *packets == 3.0)
    });
}

/// An interface that is down counts as down even if libpcap reports no error.
#[test]
fn an_interface_that_is_set_down_is_not_ready_until_it_is_up_again() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let mut agent = cable.capture(&["-i", "cable", "-i", "second"]);
    let up = |name: &str| {
        let labels = [("interface", name)];
        series(&cable.metrics(), "crane_interface_up", &labels)
    };
    let ready = || fetch(Some(&cable.left), AGENT_PORT, "/readyz").unwrap();
    assert_eq!((up("cable"), up("second")), (Some(1.0), Some(1.0)));
    assert_eq!(ready(), "ok\n");
    for _ in 0..2 {
        ip(&["-n", &cable.left, "link", "set", "cable", "down"]);
        eventually("the cable to be down", || {
            (up("cable") == Some(0.0)).then_some(())
        });
        agent.wait_for_line("interface is down");
        assert_eq!(ready(), "not captured: cable\n");
        assert_eq!(up("second"), Some(1.0));
        ip(&["-n", &cable.left, "link", "set", "cable", "up"]);
        eventually("the cable to be up", || {
            (up("cable") == Some(1.0)).then_some(())
        });
        assert_eq!(ready(), "ok\n");
    }
    // Its packets count again.
    cable.ping(3);
    eventually("its packets", || {
        let labels = [("interface", "cable")];
        let edges = series(&cable.metrics(), "crane_sketch_edges_total", &labels);
        edges.filter(|edges| *edges >= 6.0)
    });
}

#[test]
fn an_interface_that_is_down_is_captured_when_it_comes_up() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    ip(&["-n", &cable.left, "link", "set", "second", "down"]);
    let _agent = cable.capture(&["-i", "cable", "-i", "second"]);
    let up = |name: &str| {
        series(
            &cable.metrics(),
            "crane_interface_up",
            &[("interface", name)],
        )
    };
    assert_eq!((up("cable"), up("second")), (Some(1.0), Some(0.0)));
    ip(&["-n", &cable.left, "link", "set", "second", "up"]);
    eventually("the second interface", || {
        (up("second") == Some(1.0)).then_some(())
    });
}

#[test]
fn windows_end_by_the_clock_and_drop_old_pairs() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = cable.capture(&["-i", "cable", "--window", "4s"]);
    let labels = [("src", RIGHT), ("dst", LEFT)];
    let heavy = |text: &str| series(text, "crane_heavy_hitter_packets", &labels);
    let complete = |text: &str| series(text, "crane_window_complete", &[("interface", "cable")]);
    let mut sent = 0.0;
    // On a slow machine a window may end between two of the packets.
    eventually("a window with all packets", || {
        wait_for_window(4);
        cable.ping(20);
        sent += 40.0;
        let packets = eventually("a complete window", || {
            let text = cable.metrics();
            heavy(&text).filter(|_| complete(&text) == Some(1.0))
        });
        (packets == 20.0).then_some(())
    });
    // No more packets arrive, so only the clock ends the window.
    eventually("the pair to vanish", || {
        let text = cable.metrics();
        let source = series(&text, "crane_top_source_packets", &[("ip", RIGHT)]);
        (heavy(&text).is_none() && source.is_none()).then_some(())
    });
    let text = cable.metrics();
    assert_eq!(
        series(&text, "crane_sketch_edges_total", &[("interface", "cable")]),
        Some(sent),
        "totals never go back"
    );
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn a_wall_clock_that_jumps_neither_stalls_nor_skips_a_window() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let offset = folder.path().join("offset");
    // A reader must never find the file empty.
    let set = |days: &str| {
        let new = folder.path().join("new");
        std::fs::write(&new, days).unwrap();
        std::fs::rename(&new, &offset).unwrap();
    };
    set("+0d");
    let mut command = Cable::command(&cable.left, "env");
    command
        .arg(format!("LD_PRELOAD={}", libfaketime().display()))
        .arg(format!("FAKETIME_TIMESTAMP_FILE={}", offset.display()))
        .args(["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"])
        .args([AGENT, "run", "-i", "cable", "--window", "1s"])
        .stderr(Stdio::piped());
    let mut agent = Running::start(&mut command);
    agent.wait_for_line("metrics are at");
    let value = |text: &str, name: &str| series(text, name, &[("interface", "cable")]).unwrap();
    // When the last complete window began by the wall clock, and its number of packets.
    let window = |text: &str| {
        let seconds = value(text, "crane_window_seconds");
        if value(text, "crane_window_complete") == 1.0 {
            // The window after a step of the clock is short.
            assert!((0.0..=1.0).contains(&seconds), "{seconds}");
        }
        let start = value(text, "crane_window_start_timestamp_seconds");
        (start, value(text, "crane_window_packets"))
    };
    for (days, offset) in [("-1d", -86_400.0), ("+1d", 86_400.0), ("+0d", 0.0)] {
        set(days);
        let is_here = |start: f64| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            (start - offset - now.as_secs_f64()).abs() < 60.0
        };
        eventually("a window by the new time", || {
            is_here(window(&cable.metrics()).0).then_some(())
        });
        cable.ping(10);
        eventually(
            "its packets, although their time stamps are of the other clock",
            || {
                let (start, packets) = window(&cable.metrics());
                (is_here(start) && packets > 0.0).then_some(())
            },
        );
        eventually("a window without them", || {
            let (start, packets) = window(&cable.metrics());
            (is_here(start) && packets == 0.0).then_some(())
        });
    }
    assert_eq!(value(&cable.metrics(), "crane_sketch_edges_total"), 60.0);
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn packets_that_wait_for_a_full_batch_count_in_the_window_of_their_arrival() {
    let Some(cable) = Cable::lay() else { return };
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "--window", "1s"]);
    command.env("CRANE_SKETCH_LINGER_MS", "10000");
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    cable.ping(10);
    let sent = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let labels = [("interface", "cable")];
    let began = eventually("a complete window with packets", || {
        let text = cable.metrics();
        let complete = series(&text, "crane_window_complete", &labels) == Some(1.0);
        let packets = series(&text, "crane_window_packets", &labels)?;
        let began = series(&text, "crane_window_start_timestamp_seconds", &labels)?;
        (complete && packets > 0.0).then_some(began)
    });
    let late = began - sent.as_secs_f64();
    assert!(late < 5.0, "{late} s: they were counted in a later window");
}

/// A paced replay is shown like a live capture, not only at the end of a batch.
#[test]
fn a_slow_replay_shows_its_packets_before_a_batch_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let frames = vec![frame(address(1), address(2), 100); 300];
    write_pcap(&folder.path().join("slow.pcap"), &frames);
    let port = free_port();
    let mut command = Command::new(AGENT);
    // Their time stamps are a millisecond apart, so ten packets are replayed per second.
    command.args(["replay", "slow.pcap", "--serve", "--speed", "0.01"]);
    command.arg(format!("--listen=127.0.0.1:{port}"));
    command.current_dir(folder.path()).stdout(Stdio::null());
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    let (packets, listed) = eventually("packets", || {
        let (_, text) = get(port, "/metrics")?;
        let labels = [("interface", "slow.pcap")];
        let packets = series(&text, "crane_sketch_edges_total", &labels)?;
        let listed = series(&text, "crane_heavy_hitter_packets", &[("src", "10.0.0.1")])?;
        (packets >= 5.0).then_some((packets, listed))
    });
    // No batch gets full, so without a time limit all packets would appear together at
    // the end.
    assert!(packets < 300.0 && listed > 0.0, "{packets} {listed}");
}

/// The library that changes the wall clock of a program.
fn libfaketime() -> PathBuf {
    let mut folders = std::fs::read_dir("/usr/lib").unwrap();
    let found = folders.find_map(|folder| {
        let path = folder.ok()?.path().join("faketime/libfaketimeMT.so.1");
        path.exists().then_some(path)
    });
    found.expect("libfaketime: `make setup-test` installs it")
}

#[test]
fn interfaces_are_chosen_by_pattern_and_flags_override_variables() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let names = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = Cable::command(&cable.left, AGENT);
        command.arg("run").args(args).stderr(Stdio::piped());
        command.envs(variables.iter().copied());
        let mut agent = Running::start(&mut command);
        let line = agent.wait_for_line("capturing");
        let (_, rest) = line.split_once("interfaces=\"").unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let both = names(&[], &[]);
    assert!(
        both == "cable,second" || both == "second,cable",
        "{both}: without loopback"
    );
    assert_eq!(names(&[], &["-x", "sec*"]), "cable");
    assert_eq!(names(&[], &["-i", "/^se/"]), "second");
    let variable = [("CRANE_CAPTURE_INTERFACES", "[\"second\"]")];
    assert_eq!(names(&variable, &[]), "second");
    assert_eq!(names(&variable, &["-i", "cab*"]), "cable");
}

#[test]
fn a_direction_and_a_sample_can_be_chosen() {
    let Some(cable) = Cable::lay() else { return };
    let total = |name: &str| series(&cable.metrics(), name, &[("interface", "cable")]);
    for (direction, source) in [("in", RIGHT), ("out", LEFT)] {
        let mut command = Cable::command(&cable.left, AGENT);
        command.args(["run", "-i", "cable"]).stderr(Stdio::piped());
        let mut agent = Running::start(command.env("CRANE_CAPTURE_DIRECTION", direction));
        agent.wait_for_line("metrics are at");
        cable.ping(10);
        eventually("one half of the packets", || {
            let seen = series(
                &cable.metrics(),
                "crane_heavy_hitter_packets",
                &[("src", source)],
            );
            (total("crane_sketch_edges_total") == Some(10.0) && seen == Some(10.0)).then_some(())
        });
    }
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable"]).stderr(Stdio::piped());
    // Hosts send ARP from time to time, and packets outside of a sample are not decoded, so
    // they would count as sampled.
    command.env("CRANE_CAPTURE_FILTER", "icmp");
    let mut agent = Running::start(command.env("CRANE_CAPTURE_SAMPLE", "4"));
    agent.wait_for_line("metrics are at");
    cable.ping(200);
    let (edges, scaled) = eventually("the counters to agree", || {
        let text = cable.metrics();
        let labels = [("interface", "cable"), ("reason", "sampled")];
        let sampled = series(&text, "crane_capture_ignored_packets_total", &labels)?;
        let edges = series(&text, "crane_sketch_edges_total", &labels[..1])?;
        let scaled = series(&text, "crane_window_packets", &labels[..1])?;
        (sampled + edges == 400.0 && scaled == 4.0 * edges).then_some((edges, scaled))
    });
    assert!(
        (50.0..150.0).contains(&edges),
        "{edges} of 400, estimated {scaled}"
    );
}

#[test]
fn a_hangup_signal_does_not_end_the_agent() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = cable.capture(&["-i", "cable"]);
    agent.signal("-HUP");
    agent.signal("-HUP");
    std::thread::sleep(Duration::from_millis(300));
    cable.ping(5);
    eventually("its packets", || {
        let labels = [("interface", "cable")];
        let edges = series(&cable.metrics(), "crane_sketch_edges_total", &labels);
        (edges == Some(10.0)).then_some(())
    });
    assert_eq!(agent.stop("-TERM").0, Some(0));
}
