//! A restart keeps the window and the key; a disk that is full costs nothing else.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::net::{AGENT_PORT, Cable, LEFT, RIGHT, fetch, wait_for_window};
use serde_json::Value;

use common::{AGENT, MOMENT, Running, agent, eventually, series, stderr, values, write_pcap};

const START: &str = "crane_window_start_timestamp_seconds";

/// An agent on the cable that keeps its windows in `folder`, with these variables.
fn start(cable: &Cable, folder: &Path, variables: &[(&str, &str)]) -> Running {
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "--state"]).arg(folder);
    command.envs(variables.iter().copied());
    Running::start(command.stderr(Stdio::piped()))
}

fn ready(agent: &mut Running) {
    agent.wait_for_line("metrics are at");
}

fn of(cable: &Cable, name: &str) -> Option<f64> {
    series(&cable.metrics(), name, &[("interface", "cable")])
}

/// Waits until the window has so many packets.
fn packets(cable: &Cable, count: f64) {
    eventually("packets of the window", || {
        (of(cable, "crane_window_packets") == Some(count)).then_some(())
    });
}

fn ask(cable: &Cable, path: &str) -> String {
    fetch(Some(&cable.left), AGENT_PORT, path).unwrap()
}

/// The names of all files.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Stops an agent by force, and waits for its window to be there before.
fn saved(folder: &Path) -> PathBuf {
    let file = folder.join("cable.window");
    eventually("a saved window", || file.exists().then_some(()));
    file
}

/// Traffic of all kinds, as many pairs as a small sketch cannot count exactly.
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

/// The answers to all of them, which are given together.
fn answers(cable: &Cable) -> Vec<Value> {
    std::thread::scope(|scope| {
        let ask = |path: String| scope.spawn(move || answer(cable, &path));
        let asked: Vec<_> = questions().into_iter().map(ask).collect();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// What is answered, but for how long the window has lasted.
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
fn a_restart_goes_on_with_the_window() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (capture, count) = traffic(folder.path());
    // Exact in the one, with all that a sketch has in the other.
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
        let told = format!("{} packets", grouped(stored));
        assert!(line.contains(&told) && line.contains("cable"), "{line}");
        assert!(line.contains("s since it was saved were not seen"));
        ready(&mut agent);
        assert_eq!(of(&cable, START), began);
        assert_eq!(of(&cable, "crane_window_packets"), Some(stored));
        for ((path, now), before) in questions().iter().zip(answers(&cable)).zip(before) {
            assert!(now == before, "{path} with {memory}");
        }
        // Counters begin at 0, as Prometheus expects.
        assert_eq!(of(&cable, "crane_sketch_edges_total"), Some(0.0));
        // Hosts ask for each other now and then.
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
        // What comes now is counted with it.
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
fn an_interface_that_appears_later_goes_on_as_well_and_turns_with_the_others() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let folder = tempfile::tempdir().unwrap();
    // Both runs begin in one window, also on a slow machine.
    let window = [("CRANE_WINDOW_LENGTH", "30s")];
    wait_for_window(30);
    let mut agent = start(&cable, folder.path(), &window);
    ready(&mut agent);
    cable.ping(5);
    packets(&cable, 10.0);
    let began = of(&cable, START).unwrap();
    // Windows that begin with the next run would end later by this.
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
    // The window of the other one is the rest of this one.
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
fn a_window_that_has_ended_meanwhile_is_not_taken_up() {
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
    // The first window of a run begins with it.
    let ended = (began / 20.0).floor() * 20.0 + 20.0;
    assert!(of(&cable, START).unwrap() >= ended);
    assert_eq!(of(&cable, "crane_window_packets"), Some(0.0));
    assert_eq!(of(&cable, "crane_window_unseen_seconds"), Some(0.0));
    assert!(!folder.path().join("cable.window").exists());
}

/// Killed at any moment it leaves the window before or the one after, and nothing else.
#[test]
fn who_is_killed_at_any_moment_leaves_a_whole_window() {
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
    // Every save is another file.
    let place = |path: &Path| {
        fs::metadata(path)
            .ok()
            .map(|meta| (meta.ino(), meta.mtime_nsec()))
    };
    let began = of(&cable, START);
    let mut least = 0.0;
    for round in 0..12u64 {
        // Saves come ten times a second; kills at all distances from them, and in their
        // midst. On a slow machine there may have been none yet.
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
fn what_is_not_its_own_is_set_aside_and_said() {
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
        (&older, None, "foreign", "another version"),
        (&head, None, "bad", "checksum is wrong"),
        (&body, None, "bad", "checksum is wrong"),
        (&longer, None, "bad", "too long"),
        (&random, None, "bad", "does not begin like a window"),
        (&good[..0].to_vec(), None, "bad", "breaks off"),
        (&good[..100].to_vec(), None, "bad", "breaks off"),
        (&good[..good.len() - 1].to_vec(), None, "bad", "breaks off"),
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
    // One of each is kept. Without a key no window is its own.
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
fn other_weights_are_other_sketches() {
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

/// A small disk of our own.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(bytes: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]);
        assert!(mount.arg(folder.path()).status().unwrap().success());
        Self(folder)
    }

    fn fill(&self) {
        let all = vec![0; 1 << 20];
        // All there is: what is left of a page is not to be had.
        let _ = fs::write(self.0.path().join("full"), all);
    }

    fn make_room(&self) {
        fs::remove_file(self.0.path().join("full")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_costs_nothing_but_what_would_have_been_saved() {
    let Some(cable) = Cable::lay() else { return };
    let disk = Disk::mount("512k");
    let state = disk.0.path().join("state");
    let often = [("CRANE_STATE_INTERVAL", "200ms")];
    let mut agent = start(&cable, &state, &often);
    ready(&mut agent);
    assert_eq!(of(&cable, "crane_window_save_failures_total"), Some(0.0));
    cable.ping(5);
    let file = saved(&state);
    disk.fill();
    // Saved in the last moment, maybe; from now on never.
    let line = agent.wait_for_line("WARN");
    for part in ["cable", "cannot be saved", "No space left on device"] {
        assert!(line.contains(part), "{line}");
    }
    let before = fs::read(&file).unwrap();
    cable.ping(5);
    packets(&cable, 20.0);
    let failures = "crane_window_save_failures_total";
    let seen = of(&cable, failures).unwrap();
    eventually("more failures", || {
        (of(&cable, failures)? > seen + 3.0).then_some(())
    });
    eventually("nothing half, but for the moment of a save", || {
        (files(&state) == ["cable.window", "key"]).then_some(())
    });
    assert!(fs::read(&file).unwrap() == before, "the old one stays");
    assert_eq!(ask(&cable, "/healthz"), "ok\n");
    disk.make_room();
    let line = agent.wait_for_line("cable");
    assert!(
        line.contains("saved again"),
        "one warning is enough: {line}"
    );
    agent.stop("-TERM");
    // As if nothing had been.
    let mut agent = start(&cable, &state, &often);
    agent.wait_for_line("window resumed: 20 packets");
    ready(&mut agent);
    // Full when it stops: it ends all the same, and the next run has the older one.
    disk.fill();
    agent.wait_for_line("cannot be saved");
    cable.ping(5);
    packets(&cable, 30.0);
    let (code, took) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
    assert!(took < MOMENT, "{took:?}");
    let mut agent = start(&cable, &state, &often);
    agent.wait_for_line("window resumed: 20 packets");
}

/// A disk that is full from the start has no room for the key either.
#[test]
fn a_disk_that_is_full_at_the_start_is_used_later() {
    let Some(cable) = Cable::lay() else { return };
    let disk = Disk::mount("256k");
    let state = disk.0.path().join("state");
    fs::create_dir(&state).unwrap();
    disk.fill();
    let often = [("CRANE_STATE_INTERVAL", "200ms")];
    let mut agent = start(&cable, &state, &often);
    let line = agent.wait_for_line("WARN");
    assert!(line.contains("key cannot be saved"), "{line}");
    ready(&mut agent);
    cable.ping(5);
    packets(&cable, 10.0);
    agent.wait_for_line("cannot be saved");
    disk.make_room();
    agent.wait_for_line("saved again");
    agent.stop("-KILL");
    let mut agent = start(&cable, &state, &often);
    agent.wait_for_line("window resumed: 10 packets");
}

#[test]
fn a_folder_belongs_to_one_agent_and_is_where_the_service_manager_says() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable"]);
    command.env("STATE_DIRECTORY", &state);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    ready(&mut agent);
    assert_eq!(files(&state), ["key"]);
    let mut second = Cable::command(&cable.left, AGENT);
    second.args(["run", "-i", "cable", "--listen", "127.0.0.1:9733"]);
    let refused = second.arg("--state").arg(&state).output().unwrap();
    assert_eq!(refused.status.code(), Some(78), "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(
        said.contains("state.directory") && said.contains("another agent uses it"),
        "{said}"
    );
    agent.stop("-KILL");
    // Who wants nothing on a disk says so.
    let other = folder.path().join("other");
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable"]);
    command.env("STATE_DIRECTORY", &other);
    command.env("CRANE_STATE_DIRECTORY", "");
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    ready(&mut agent);
    assert!(!other.exists());
    drop(agent);
    let no_folder = folder.path().join("file");
    fs::write(&no_folder, "").unwrap();
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "--state"]);
    let refused = command.arg(&no_folder).output().unwrap();
    assert_eq!(refused.status.code(), Some(78), "{}", stderr(&refused));
}

#[test]
fn the_file_of_an_interface_that_is_gone_for_good_goes_too() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let often = [
        ("CRANE_STATE_INTERVAL", "100ms"),
        ("CRANE_WINDOW_LENGTH", "4s"),
    ];
    let mut agent = start(&cable, folder.path(), &often);
    ready(&mut agent);
    cable.ping(20);
    let file = saved(folder.path());
    common::net::ip(&["-n", &cable.left, "link", "delete", "cable"]);
    agent.wait_for_line("stopped");
    eventually("no file", || (!file.exists()).then_some(()));
    assert_eq!(files(folder.path()), ["key"]);
}

#[test]
fn a_replay_saves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("some.pcap");
    write_pcap(
        &capture,
        &[common::frame(
            LEFT.parse().unwrap(),
            RIGHT.parse().unwrap(),
            9,
        )],
    );
    let state = folder.path().join("state");
    let replayed = Command::new(AGENT)
        .arg("replay")
        .arg(&capture)
        .env("STATE_DIRECTORY", &state)
        .env("CRANE_STATE_DIRECTORY", &state)
        .output()
        .unwrap();
    assert!(replayed.status.success());
    assert!(!state.exists());
    let said = stderr(&replayed);
    assert!(
        said.contains("not for replay") && said.contains("state.directory"),
        "{said}"
    );
}
