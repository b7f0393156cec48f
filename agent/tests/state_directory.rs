//! The state directory: a full disk, use by one agent only, and removal of files.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::disk::Disk;
use common::net::{Cable, LEFT, RIGHT};
use common::state::{ask, files, of, packets, ready, saved, start};
use common::{AGENT, MOMENT, Running, eventually, stderr, write_pcap};

#[test]
fn a_full_disk_only_prevents_saving() {
    let Some(cable) = Cable::lay() else { return };
    let disk = Disk::mount("512k");
    let state = disk.path().join("state");
    let often = [("CRANE_STATE_INTERVAL", "200ms")];
    let mut agent = start(&cable, &state, &often);
    ready(&mut agent);
    assert_eq!(of(&cable, "crane_window_save_failures_total"), Some(0.0));
    cable.ping(5);
    let file = saved(&state);
    disk.fill();
    // A save may just have succeeded; further ones fail.
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
    eventually("no unfinished file except during a save", || {
        (files(&state) == ["cable.window", "key"]).then_some(())
    });
    assert!(
        fs::read(&file).unwrap() == before,
        "the previously saved window stays"
    );
    assert_eq!(ask(&cable, "/healthz"), "ok\n");
    disk.make_room();
    let line = agent.wait_for_line("cable");
    assert!(
        line.contains("saved again"),
        "more than one warning: {line}"
    );
    agent.stop("-TERM");
    // The window is complete after the next start.
    let mut agent = start(&cable, &state, &often);
    agent.wait_for_line("window resumed: 20 packets");
    ready(&mut agent);
    // If the disk is full at a stop, the agent ends in time, and the next run resumes the window
    // that was saved before.
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

/// The key cannot be saved at the start, but later together with the first window.
#[test]
fn a_disk_that_is_full_at_the_start_is_used_later() {
    let Some(cable) = Cable::lay() else { return };
    let disk = Disk::mount("256k");
    let state = disk.path().join("state");
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
fn a_state_directory_is_used_by_one_agent_and_can_be_set_by_the_service_manager() {
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
    // An empty state.directory turns saving off.
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
fn the_file_of_a_removed_interface_is_removed_when_its_window_ends() {
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
