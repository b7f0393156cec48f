//! The file of `export.jsonl`: each window is written once, also over restarts, reloads and a
//! full disk.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use common::disk::Disk;
use common::lines::{jq, parsed};
use common::net::{AGENT_PORT, Cable, fetch, wait_for_window};
use common::{AGENT, Running, eventually, series, stderr};
use serde_json::Value;

/// Starts an agent on the cable with windows of `length`, which writes their lines to `file`.
fn start(cable: &Cable, file: &Path, length: &str, args: &[&str]) -> Running {
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "--window", length]);
    command.args(args).env("CRANE_EXPORT_JSONL", file);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    agent
}

/// The lines of the list `window` in the file.
fn windows(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // The last line may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = parsed(whole);
    let is_window = |line: &Value| line["list"] == "window";
    lines.into_iter().filter(is_window).collect()
}

fn packets(windows: &[Value]) -> u64 {
    let packets = windows.iter().map(|window| window["packets"].as_u64());
    packets.map(Option::unwrap).sum()
}

fn lost(cable: &Cable) -> f64 {
    let labels = [("interface", "cable")];
    series(&cable.metrics(), "crane_export_lines_lost_total", &labels).unwrap()
}

#[test]
fn each_window_is_written_once_after_its_end() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windows.jsonl");
    let mut agent = start(&cable, &file, "1s", &[]);
    cable.ping(20);
    eventually("packets of finished windows", || {
        (packets(&windows(&file)) == 40).then_some(())
    });
    let pair = jq("select(.list == \"pairs\") | .src", &file);
    assert!(pair.contains("10.200.0.2"), "{pair}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
    // A stop ends the current window, which is written as well.
    cable.ping(5);
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
    let written = windows(&file);
    assert_eq!(packets(&written), 50);
    let starts: Vec<f64> = written
        .iter()
        .map(|one| one["start"].as_f64().unwrap())
        .collect();
    assert!(
        starts.windows(2).all(|pair| pair[0] < pair[1]),
        "{starts:?}"
    );
    assert!(written.iter().all(|window| window["complete"] == true));
    assert_eq!(written[0]["host"], written[1]["host"]);

    // The next run appends to the file.
    let mut agent = start(&cable, &file, "1s", &[]);
    cable.ping(5);
    eventually("packets of the second run", || {
        (packets(&windows(&file)) == 60).then_some(())
    });
    agent.stop("-TERM");
    assert_eq!(packets(&windows(&file)), 60);
}

/// The start times of windows. Fails if a window is there twice.
fn starts(windows: &[Value]) -> Vec<f64> {
    let starts: Vec<f64> = windows
        .iter()
        .map(|one| one["start"].as_f64().unwrap())
        .collect();
    assert!(
        starts.windows(2).all(|pair| pair[0] < pair[1]),
        "{starts:?}"
    );
    starts
}

/// A window that the next run resumes is written by the run in which it ends.
#[test]
fn every_window_is_written_once_over_restarts() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, state) = (
        folder.path().join("windows.jsonl"),
        folder.path().join("state"),
    );
    let args = ["--state", state.to_str().unwrap()];
    let current = || -> Option<u64> {
        let text = fetch(Some(&cable.left), AGENT_PORT, "/api/v1/interfaces")?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        answer["interfaces"][0]["current"]["packets"].as_u64()
    };
    for sent in [10, 20] {
        let mut agent = start(&cable, &file, "366d", &args);
        cable.ping(5);
        eventually("packets", || (current() == Some(sent)).then_some(()));
        agent.stop("-TERM");
        assert!(windows(&file).is_empty(), "the window has not ended");
    }
    // With short windows, the next run resumes a window or finds that it has ended. In both cases
    // its packets are written once.
    fs::remove_dir_all(&state).unwrap();
    for run in 1..=4 {
        let mut agent = start(&cable, &file, "3s", &args);
        cable.ping(5);
        eventually("stored packets", || {
            let labels = [("interface", "cable")];
            let edges = series(&cable.metrics(), "crane_sketch_edges_total", &labels);
            (edges == Some(10.0)).then_some(())
        });
        agent.stop("-TERM");
        if run % 2 == 0 {
            wait_for_window(3);
        }
    }
    let mut agent = start(&cable, &file, "3s", &args);
    eventually("windows of all runs", || {
        (packets(&windows(&file)) >= 40).then_some(())
    });
    agent.stop("-TERM");
    assert_eq!(packets(&windows(&file)), 40);
    let before = starts(&windows(&file)).len();

    // As after a crash between writing the lines of a window and removing its saved file.
    let mut agent = start(&cable, &file, "3s", &args);
    cable.ping(5);
    let saved = state.join("cable.window");
    let copy = eventually("a saved window", || fs::read(&saved).ok());
    eventually("its lines", || {
        (packets(&windows(&file)) == 50).then_some(())
    });
    agent.0.kill().unwrap();
    agent.0.wait().unwrap();
    fs::write(&saved, copy).unwrap();
    let mut agent = start(&cable, &file, "3s", &args);
    agent.stop("-TERM");
    let written = windows(&file);
    assert_eq!(packets(&written), 50);
    assert!(starts(&written).len() > before);
}

#[test]
fn a_reload_changes_the_file_and_hides_addresses() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let config = path("agent.toml");
    let configure = |export: &str| {
        let text = format!("[window]\nlength = \"1s\"\n[export]\n{export}");
        fs::write(&config, text).unwrap();
    };
    let [first, second] = ["first", "second"].map(path);
    configure(&format!("jsonl = {first:?}\n"));
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "-c"]).arg(&config);
    // `Cable::command` sets one long window.
    command
        .env_remove("CRANE_WINDOW_LENGTH")
        .stderr(Stdio::piped());
    let mut agent = Running::start(&mut command);
    agent.wait_for_line("metrics are at");
    cable.ping(5);
    eventually("the first file", || {
        (packets(&windows(&first)) == 10).then_some(())
    });
    // A configuration with an error is refused completely.
    configure(&format!("jsonl = {:?}\n", path("none/file")));
    agent.signal("-HUP");
    let line = agent.wait_for_line("not reloaded");
    assert!(
        line.contains("export.jsonl") && line.contains("No such file"),
        "{line}"
    );
    configure(&format!("jsonl = {second:?}\nanonymise = \"prefix\"\n"));
    agent.signal("-HUP");
    let line = agent.wait_for_line("configuration reloaded");
    assert!(line.contains("export.jsonl"), "{line}");
    let before = windows(&first);
    cable.ping(5);
    eventually("the second file", || {
        (packets(&windows(&second)) == 10).then_some(())
    });
    assert_eq!(packets(&before), 10);
    let shown = fs::read_to_string(&second).unwrap();
    assert!(
        shown.contains("10.200.0.0") && !shown.contains("10.200.0.1\""),
        "{shown}"
    );
    // Without export.jsonl, no lines are written.
    configure("");
    agent.signal("-HUP");
    agent.wait_for_line("configuration reloaded");
    let (done, windows_before) = (fs::read(&second).unwrap(), windows(&first).len());
    cable.ping(5);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(fs::read(&second).unwrap() == done);
    assert_eq!(windows(&first).len(), windows_before);
    assert_eq!(
        lost(&cable),
        0.0,
        "lines that are not exported are not lost"
    );
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn a_full_disk_loses_lines_but_no_packets() {
    let Some(cable) = Cable::lay() else { return };
    let disk = Disk::mount("256k");
    let file = disk.path().join("windows.jsonl");
    let filler = disk.path().join("filler");
    let mut agent = start(&cable, &file, "500ms", &[]);
    eventually("a window", || (!windows(&file).is_empty()).then_some(()));
    assert_eq!(lost(&cable), 0.0);
    // Fills the disk in small steps, because the agent also writes.
    let mut full = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut full, &[0; 512]).is_ok() {}
    let line = agent.wait_for_line("WARN");
    for part in ["cable", "lines are lost", "No space left on device"] {
        assert!(line.contains(part), "{line}");
    }
    cable.ping(20);
    let seen = eventually("lost lines", || {
        let lost = lost(&cable);
        (lost > 3.0).then_some(lost)
    });
    let edges = eventually("all packets", || {
        let labels = [("interface", "cable")];
        let edges = series(&cable.metrics(), "crane_sketch_edges_total", &labels)?;
        (edges == 40.0).then_some(edges)
    });
    assert_eq!(edges, 40.0, "packets are stored in spite of the full disk");
    let before = windows(&file).len();
    drop(full);
    fs::remove_file(&filler).unwrap();
    let line = agent.wait_for_line("INFO");
    assert!(
        line.contains("are written") && line.contains("again"),
        "{line}"
    );
    cable.ping(5);
    eventually("more windows", || {
        (packets(&windows(&file)[before..]) >= 10).then_some(())
    });
    // All lines in the file are complete.
    let counted = lost(&cable);
    assert!(counted >= seen, "{counted}");
    parsed(&fs::read_to_string(&file).unwrap());
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn files_are_rotated_by_size() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("windows.jsonl");
    // An existing file that is larger than the limit below.
    fs::write(&file, "{}\n".repeat(400_000)).unwrap();
    let mut agent = start(&cable, &file, "500ms", &[]);
    agent.stop("-TERM");
    let limits = [
        ("CRANE_EXPORT_JSONL_SIZE", "1MiB"),
        ("CRANE_EXPORT_JSONL_FILES", "2"),
    ];
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "--window", "500ms"]);
    command.env("CRANE_EXPORT_JSONL", &file).envs(limits);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    eventually("another file", || {
        let small = fs::metadata(&file).ok()?.len() < 1 << 20;
        (small && folder.path().join("windows.jsonl.1").exists()).then_some(())
    });
    agent.stop("-TERM");
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["windows.jsonl", "windows.jsonl.1"]);
}

/// The exit code is that of a wrong configuration, so that systemd does not restart the service.
#[test]
fn a_file_that_cannot_be_written_is_refused_at_the_start() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    for (path, why) in [
        (folder.path().join("none/file"), "No such file"),
        (folder.path().to_owned(), "directory"),
        (link, "symbolic link"),
    ] {
        let mut command = Cable::command(&cable.left, AGENT);
        command.args(["run", "-i", "cable"]);
        let output = command.env("CRANE_EXPORT_JSONL", path).output().unwrap();
        assert_eq!(output.status.code(), Some(78));
        let said = stderr(&output);
        assert!(
            said.contains("export.jsonl") && said.contains(why),
            "{said}"
        );
    }
}
