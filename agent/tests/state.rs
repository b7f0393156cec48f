//! A restart resumes the saved window and keeps the key.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::net::{Cable, wait_for_window};
use common::state::{START, ask, files, of, packets, ready, saved, start};
use common::{AGENT, MOMENT, Running, agent, eventually, series, stderr, values};
use serde_json::Value;

/// Writes a capture with all kinds of traffic and more pairs than a small sketch counts exactly.
/// Returns its path and number of packets.
fn traffic(folder: &Path) -> (PathBuf, f64) {
    let capture = folder.join("traffic.pcap");
    let made = agent(&["sample", capture.to_str().unwrap(), "--packets", "20000"]);
    assert!(made.status.success(), "{}", stderr(&made));
    (capture, 20_000.0)
}

/// Questions of all kinds about the current window.
fn questions() -> Vec<String> {
    let mut paths = vec![
        "/api/v1/heavy-hitters?window=current".into(),
        "/api/v1/heavy-hitters?window=current&by=bytes".into(),
        "/api/v1/flow?window=current&src=10.0.1.0/26&dst=*".into(),
        "/api/v1/flow?window=current&src=*&dst=*".into(),
    ];
    for n in 1..8 {
        paths.push(format!("/api/v1/node?window=current&ip=10.0.1.{n}"));
        paths.push(format!("/api/v1/node?window=current&ip=192.0.2.{n}"));
        paths.push(format!(
            "/api/v1/flow?window=current&src=10.0.1.{n}&dst=192.0.2.1&both=true"
        ));
    }
    paths
}

/// The answers to all questions, which are asked at the same time.
fn answers(cable: &Cable) -> Vec<Value> {
    std::thread::scope(|scope| {
        let ask = |path: String| scope.spawn(move || answer(cable, &path));
        let asked: Vec<_> = questions().into_iter().map(ask).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// The answer without the duration of the window.
fn answer(cable: &Cable, path: &str) -> Value {
    let mut answer: Value = serde_json::from_str(&ask(cable, path)).unwrap();
    for interface in answer["interfaces"].as_array_mut().unwrap() {
        let fields = interface.as_object_mut().unwrap();
        fields.remove("seconds");
        fields.remove("unseen_seconds");
    }
    answer
}

#[test]
fn a_restart_resumes_the_window() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (capture, count) = traffic(folder.path());
    // Counts are exact with 8 MiB, and estimates with 128 KiB.
    for memory in ["8MiB", "128KiB"] {
        let state = folder.path().join(memory);
        let settings = [("CRANE_SKETCH_MEMORY", memory)];
        let mut agent = start(&cable, &state, &settings);
        ready(&mut agent);
        assert!(cable.send("cable", &capture, 20_000, 1).succeeds());
        let stored = eventually("all packets", || {
            let text = cable.metrics();
            let of = |name| series(&text, name, &[("interface", "cable")]);
            let [edges, window] = ["crane_sketch_edges_total", "crane_window_packets"].map(of);
            let ignored = values(&text, "crane_capture_ignored_packets_total").sum::<f64>();
            let dropped = values(&text, "crane_capture_dropped_packets_total").sum::<f64>();
            let all = edges? + ignored + dropped >= count;
            (all && edges == window).then_some(edges?)
        });
        let began = of(&cable, START);
        let before = answers(&cable);
        let heavy = &before[0]["interfaces"][0];
        assert!(heavy["services"].as_array().unwrap().len() > 3);
        let sum = &before[2]["interfaces"][0]["estimate"];
        assert_eq!(sum["low"] == sum["high"], memory == "8MiB", "{sum}");
        let (code, took) = agent.stop("-TERM");
        assert_eq!(code, Some(0));
        assert!(took < MOMENT, "{took:?}");
        assert_eq!(files(&state), ["cable.window", "key"]);
        for (path, mode) in [
            (state.clone(), 0o700),
            (state.join("cable.window"), 0o600),
            (state.join("key"), 0o600),
        ] {
            let found = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{}", path.display());
        }
        let mut agent = start(&cable, &state, &settings);
        let line = agent.wait_for_line("window resumed");
        let logged = format!("{} packets", grouped(stored));
        assert!(line.contains(&logged) && line.contains("cable"), "{line}");
        assert!(line.contains("s since it was saved were not seen"));
        ready(&mut agent);
        assert_eq!(of(&cable, START), began);
        assert_eq!(of(&cable, "crane_window_packets"), Some(stored));
        for ((path, now), before) in questions().iter().zip(answers(&cable)).zip(before) {
            assert!(now == before, "{path} with {memory}");
        }
        // Counters begin at 0, as Prometheus expects.
        assert_eq!(of(&cable, "crane_sketch_edges_total"), Some(0.0));
        // The hosts send some ARP packets.
        assert!(of(&cable, "crane_capture_packets_total").unwrap() < 100.0);
        let unseen = of(&cable, "crane_window_unseen_seconds").unwrap();
        assert!(unseen > 0.0, "{unseen}");
        let seconds = of(&cable, "crane_window_seconds").unwrap();
        assert!(seconds > unseen, "{seconds}, {unseen} unseen");
        let windows: Value = serde_json::from_str(&ask(&cable, "/api/v1/interfaces")).unwrap();
        assert_eq!(
            windows["interfaces"][0]["current"]["unseen_seconds"],
            unseen
        );
        // Further packets are added to the window.
        cable.ping(10);
        packets(&cable, stored + 20.0);
        assert_eq!(of(&cable, "crane_sketch_edges_total"), Some(20.0));
    }
}

fn grouped(number: f64) -> String {
    let digits = (number as u64).to_string();
    let (thousands, rest) = digits.split_at(digits.len() - 3);
    format!("{thousands},{rest}")
}

#[test]
fn an_interface_that_appears_later_resumes_its_window_and_ends_it_with_the_others() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let folder = tempfile::tempdir().unwrap();
    // Starts at the beginning of a window, so that both runs begin in the same one.
    let window = [("CRANE_WINDOW_LENGTH", "30s")];
    wait_for_window(30);
    let mut agent = start(&cable, folder.path(), &window);
    ready(&mut agent);
    cable.ping(5);
    packets(&cable, 10.0);
    let began = of(&cable, START).unwrap();
    // If the window began with the next run, it would end 2 s later.
    std::thread::sleep(Duration::from_secs(2));
    agent.stop("-TERM");
    common::net::ip(&["-n", &cable.left, "link", "delete", "cable"]);
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "-i", "second", "--state"]);
    command.arg(folder.path()).envs(window);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    ready(&mut agent);
    assert_eq!(of(&cable, START), None);
    cable.plug();
    agent.wait_for_line("window resumed: 10 packets");
    eventually("the same window", || {
        (of(&cable, START) == Some(began)).then_some(())
    });
    // The window of `second` ends at the same time as that of `cable`.
    let ends = eventually("both windows to be complete", || {
        let text = cable.metrics();
        let ends = ["cable", "second"].map(|interface| {
            let of = |name| series(&text, name, &[("interface", interface)]);
            let complete = of("crane_window_complete")? == 1.0;
            complete.then_some(of(START)? + of("crane_window_seconds")?)
        });
        ends[0].zip(ends[1])
    });
    assert!((ends.0 - ends.1).abs() < 0.001, "{ends:?}");
    assert!(
        (ends.0 - (began / 30.0).floor() * 30.0 - 30.0).abs() < 0.001,
        "{ends:?}"
    );
    assert!(of(&cable, "crane_window_unseen_seconds").unwrap() > 0.0);
}

#[test]
fn a_window_that_has_ended_meanwhile_is_not_resumed() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let window = [("CRANE_WINDOW_LENGTH", "20s")];
    wait_for_window(20);
    let mut agent = start(&cable, folder.path(), &window);
    ready(&mut agent);
    cable.ping(5);
    packets(&cable, 10.0);
    let began = of(&cable, START).unwrap();
    agent.stop("-TERM");
    assert!(folder.path().join("cable.window").exists());
    wait_for_window(20);
    let mut agent = start(&cable, folder.path(), &window);
    let line = agent.wait_for_line("has ended meanwhile");
    assert!(line.contains("INFO"), "{line}");
    ready(&mut agent);
    // The first window begins at the start of the agent.
    let ended = (began / 20.0).floor() * 20.0 + 20.0;
    assert!(of(&cable, START).unwrap() >= ended);
    assert_eq!(of(&cable, "crane_window_packets"), Some(0.0));
    assert_eq!(of(&cable, "crane_window_unseen_seconds"), Some(0.0));
    assert!(!folder.path().join("cable.window").exists());
}

/// After a kill during a save, the file has either the previous window or the new one.
#[test]
fn a_kill_at_any_time_leaves_a_complete_saved_window() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (capture, _) = traffic(folder.path());
    let state = folder.path().join("state");
    let often = [
        ("CRANE_STATE_INTERVAL", "100ms"),
        ("CRANE_SKETCH_MEMORY", "512KiB"),
    ];
    let _traffic = cable.send("cable", &capture, 3000, 100);
    let mut agent = start(&cable, &state, &often);
    ready(&mut agent);
    let window = saved(&state);
    // Every save replaces the file by another one.
    let place = |path: &Path| {
        fs::metadata(path)
            .ok()
            .map(|meta| (meta.ino(), meta.mtime_nsec()))
    };
    let began = of(&cable, START);
    let mut least = 0.0;
    for round in 0..12u64 {
        // The agent saves ten times a second. It is killed at different times after a save, in
        // every other round during a save. A slow machine may need longer for the next save.
        let before = place(&window);
        eventually("another save", || (place(&window) != before).then_some(()));
        std::thread::sleep(Duration::from_millis(250 + round * 37 % 110));
        if round % 2 == 0 {
            let unfinished = state.join("cable.window.tmp");
            let begun = Instant::now();
            while !unfinished.exists() && begun.elapsed() < Duration::from_secs(1) {}
        }
        agent.0.kill().unwrap();
        agent.0.wait().unwrap();
        let left = files(&state);
        let unfinished = left.iter().filter(|name| name.ends_with(".tmp")).count();
        let others = left.len() - unfinished;
        assert!(unfinished <= 1 && others == 2, "{left:?}");
        agent = start(&cable, &state, &often);
        let line = agent.wait_for_line("cable");
        assert!(line.contains("window resumed"), "{line}");
        ready(&mut agent);
        assert_eq!(of(&cable, START), began);
        let packets = of(&cable, "crane_window_packets").unwrap();
        assert!(packets > least, "{packets} after {least}");
        least = packets;
    }
    agent.stop("-TERM");
    assert_eq!(files(&state), ["cable.window", "key"]);
}

#[test]
fn damaged_and_foreign_windows_are_set_aside_with_a_warning() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut agent = start(&cable, folder.path(), &[]);
    ready(&mut agent);
    cable.ping(5);
    packets(&cable, 10.0);
    agent.stop("-TERM");
    let file = saved(folder.path());
    let good = fs::read(&file).unwrap();
    let mut older = good.clone();
    older[6..8].copy_from_slice(b"01");
    let [mut head, mut body] = [good.clone(), good.clone()];
    head[40] ^= 1;
    body[good.len() - 7] ^= 1;
    let longer = [&good[..], &[0]].concat();
    let random: Vec<u8> = (0..5000u32).map(|n| ((n * n) >> 3) as u8).collect();
    let other = ("CRANE_CAPTURE_FILTER", "ip");
    for (content, variable, aside, why) in [
        (&older, None, "foreign", "its format is version 01"),
        (&head, None, "bad", "checksum is wrong"),
        (&body, None, "bad", "checksum is wrong"),
        (&longer, None, "bad", "too long"),
        (&random, None, "bad", "does not begin like a window"),
        (&good[..0].to_vec(), None, "bad", "truncated"),
        (&good[..100].to_vec(), None, "bad", "truncated"),
        (&good[..good.len() - 1].to_vec(), None, "bad", "truncated"),
        (&good, Some(other), "foreign", "another capture.filter"),
        (
            &good,
            Some(("CRANE_SKETCH_MEMORY", "4MiB")),
            "foreign",
            "another sketch.memory",
        ),
        (
            &good,
            Some(("CRANE_WINDOW_LENGTH", "2h")),
            "foreign",
            "another window.length",
        ),
        (
            &good,
            Some(("CRANE_SKETCH_PROFILE", "paper")),
            "foreign",
            "another sketch.profile",
        ),
    ] {
        fs::write(&file, content).unwrap();
        let mut agent = start(&cable, folder.path(), variable.as_slice());
        let line = agent.wait_for_line("cable");
        let set_aside = format!("cable.window.{aside}");
        for part in ["WARN", "is not used", why, &set_aside] {
            assert!(line.contains(part), "{line} has no {part}");
        }
        assert_eq!(fs::read(folder.path().join(set_aside)).unwrap(), *content);
        assert!(!file.exists());
        ready(&mut agent);
        assert_eq!(of(&cable, "crane_window_packets"), Some(0.0));
        cable.ping(1);
        packets(&cable, 2.0);
        agent.stop("-KILL");
    }
    // One file of each kind is kept. With a new key, no saved window can be used.
    let kept = ["cable.window.bad", "cable.window.foreign", "key"];
    fs::remove_file(&file).unwrap_or_default();
    assert_eq!(files(folder.path()), kept);
    fs::write(&file, &good).unwrap();
    fs::write(folder.path().join("key"), "nonsense").unwrap();
    let mut agent = start(&cable, folder.path(), &[]);
    let line = agent.wait_for_line("WARN");
    assert!(line.contains("key.bad"), "{line}");
    let line = agent.wait_for_line("WARN");
    assert!(line.contains("made with another key"), "{line}");
    ready(&mut agent);
}

#[test]
fn a_window_of_other_weights_is_not_resumed() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut agent = start(&cable, folder.path(), &[]);
    ready(&mut agent);
    cable.ping(2);
    packets(&cable, 4.0);
    agent.stop("-TERM");
    let weights = folder.path().join("other.safetensors");
    fs::write(&weights, common::other_weights()).unwrap();
    let settings = [("CRANE_SKETCH_WEIGHTS", weights.to_str().unwrap())];
    let mut agent = start(&cable, folder.path(), &settings);
    let line = agent.wait_for_line("cable");
    assert!(line.contains("another sketch.weights"), "{line}");
    ready(&mut agent);
}
