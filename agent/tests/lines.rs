//! Windows for other programs: the lines of `export.jsonl`, of `crane-agent export` and of
//! `--format csv`. `make test-lines` has DuckDB read them as well.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::net::{AGENT_PORT, Cable, fetch, wait_for_window};
use common::{AGENT, Running, agent, eventually, get, json, series, serving, stderr};
use serde_json::Value;

/// What the agent prints.
fn printed(args: &[&str]) -> String {
    let output = agent(args);
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn parsed(lines: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    lines.lines().map(parse).collect()
}

/// Lines of CSV as JSON has them: values by the names of their columns.
fn rows(csv: &str) -> Vec<Vec<(String, String)>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned));
    let head: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|line| {
            let row: Vec<_> = head.iter().cloned().zip(line).collect();
            assert_eq!(row.len(), head.len());
            row
        })
        .collect()
}

/// What jq makes of lines.
fn jq(filter: &str, file: &Path) -> String {
    let output = Command::new("jq").args(["-r", filter]).arg(file).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_running_agent_exports_what_its_api_says() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("s.pcap");
    printed(&["sample", capture.to_str().unwrap(), "--packets", "6000"]);
    let (_serving, port) = serving(folder.path(), "s.pcap", &["--window", "2s"]);
    let at = format!("127.0.0.1:{port}");
    let lines = printed(&["export", "--agent", &at]);
    let file = folder.path().join("window.jsonl");
    fs::write(&file, &lines).unwrap();
    let lines = parsed(&lines);
    let lists = |by: &str| -> Value {
        let (_, body) = get(port, &format!("/api/v1/heavy-hitters?by={by}")).unwrap();
        serde_json::from_str::<Value>(&body).unwrap()["interfaces"][0].take()
    };
    let window = &lines[0];
    let [by_packets, by_bytes] = ["packets", "bytes"].map(lists);
    assert_eq!(window["list"], "window");
    assert_eq!(window["complete"], true);
    for key in ["interface", "start", "end", "seconds", "packets", "bytes"] {
        assert_eq!(window[key], by_packets[key], "{key}");
    }
    for name in [
        "pairs",
        "conversations",
        "sources",
        "destinations",
        "services",
    ] {
        for (lists, rank, column) in [
            (&by_packets, "rank", "packets"),
            (&by_bytes, "rank_bytes", "bytes"),
        ] {
            let rows = lists[name].as_array().unwrap();
            assert!(!rows.is_empty(), "{name}");
            let expected: u64 = rows.iter().map(|row| row[column].as_u64().unwrap()).sum();
            let filter = format!("select(.list == \"{name}\" and .{rank} != null) | .{column}");
            let told = jq(&filter, &file);
            let told: Vec<u64> = told.lines().map(|number| number.parse().unwrap()).collect();
            let found = (told.iter().sum(), told.len());
            assert_eq!(found, (expected, rows.len()), "{name} by {column}");
        }
    }
    let fans = jq("select(.list == \"fan_out\") | .peers", &file);
    let expected = by_packets["fan_out"].as_array().unwrap().iter();
    let expected: String = expected.map(|row| format!("{}\n", row["peers"])).collect();
    assert_eq!(fans, expected);

    // The same in CSV, value by value.
    let csv = printed(&["export", "--agent", &at, "--format", "csv", "-i", "s.pcap"]);
    let rows = rows(&csv);
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        for (column, value) in row {
            let expected = match &line[column] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(*value, expected, "{column} of {line}");
        }
    }
    let wrong = agent(&["export", "--agent", &at, "-i", "eth9"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        stderr(&wrong).contains("interface=eth9"),
        "{}",
        stderr(&wrong)
    );
    let (status, body) = get(port, "/api/v1/export?format=xml").unwrap();
    assert!(
        status.contains("400") && body.contains("jsonl or csv"),
        "{body}"
    );

    // Answers to questions have the same columns.
    let ask = [
        "query",
        "--agent",
        &at,
        "--src",
        "10.0.0.0/8",
        "--dst",
        "*",
        "--both",
    ];
    let told = json(&agent(&[&ask[..], &["--format", "json"]].concat()));
    let flow = self::rows(&printed(&[&ask[..], &["--format", "csv"]].concat()));
    let value = |row: &[(String, String)], name: &str| {
        row.iter()
            .find(|(column, _)| column == name)
            .unwrap()
            .1
            .clone()
    };
    for (row, direction, src) in [
        (&flow[0], "estimate", "10.0.0.0/8"),
        (&flow[1], "back", "*"),
    ] {
        assert_eq!(value(row, "list"), "flow");
        assert_eq!(value(row, "src"), src);
        let expected = &told["interfaces"][0][direction];
        for column in ["packets", "at_most", "bytes", "bytes_high"] {
            assert_eq!(
                value(row, column),
                expected[column].to_string(),
                "{direction} {column}"
            );
        }
    }
    let node = printed(&[
        "query", "--agent", &at, "--node", "10.0.1.8", "--format", "csv",
    ]);
    let lists: Vec<String> = self::rows(&node)
        .iter()
        .map(|row| value(row, "list"))
        .collect();
    assert_eq!(lists, ["sent", "received", "fan_out", "fan_in"]);
    let top = printed(&["top", "--agent", &at, "--format", "csv", "--by", "bytes"]);
    let top = self::rows(&top);
    let pair = top
        .iter()
        .find(|row| value(row, "list") == "pairs")
        .unwrap();
    assert_eq!(value(pair, "rank_bytes"), "1");
    assert_eq!(
        value(pair, "bytes"),
        by_bytes["pairs"][0]["bytes"].to_string()
    );
}

#[test]
fn a_replay_writes_the_lines_of_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("s.pcap");
    let capture = capture.to_str().unwrap();
    printed(&["sample", capture, "--packets", "6000"]);
    let replay = |args: &[&str]| rows(&printed(&[&["replay", capture], args].concat()));
    let csv = |args: &[&str]| replay(&[args, &["--format", "csv"]].concat());
    let value = |row: &[(String, String)], name: &str| {
        row.iter()
            .find(|(column, _)| column == name)
            .unwrap()
            .1
            .clone()
    };
    let number = |row: &[(String, String)], name: &str| value(row, name).parse::<u64>().unwrap();
    let of = |rows: &[Vec<(String, String)>], list: &str| -> Vec<Vec<(String, String)>> {
        let found = rows.iter().filter(|row| value(row, "list") == list);
        found.cloned().collect()
    };
    let report = json(&agent(&["replay", capture, "--format", "json"]));
    let report = &report["captures"][0];
    let whole = csv(&["--ask", "10.0.1.8"]);
    let window = &of(&whole, "window")[0];
    assert_eq!(number(window, "packets"), report["edges"].as_u64().unwrap());
    assert_eq!(value(window, "end"), report["end"].to_string());
    let pairs = of(&whole, "pairs");
    assert_eq!(
        value(&pairs[0], "src"),
        report["top"][0]["src"].as_str().unwrap()
    );
    assert_eq!(of(&whole, "sent").len(), 1);
    let windows = csv(&["--window", "1s"]);
    let windows = of(&windows, "window");
    assert_eq!(windows.len(), 6);
    let sum: u64 = windows.iter().map(|row| number(row, "packets")).sum();
    assert_eq!(sum, report["edges"].as_u64().unwrap());
    for pair in windows.windows(2) {
        assert_eq!(value(&pair[0], "end"), value(&pair[1], "start"));
    }
}

/// An agent on the cable that writes lines of windows of `length`.
fn start(cable: &Cable, file: &Path, length: &str, args: &[&str]) -> Running {
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "--window", length]);
    command.args(args).env("CRANE_EXPORT_JSONL", file);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    agent
}

/// Lines of windows that are in the file.
fn windows(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // The last line may be on its way.
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
fn each_window_is_written_once_when_it_ends() {
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
    // What has ended by the stop is written, too: also the window that it cuts.
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

    // The next run appends to them.
    let mut agent = start(&cable, &file, "1s", &[]);
    cable.ping(5);
    eventually("packets of the second run", || {
        (packets(&windows(&file)) == 60).then_some(())
    });
    agent.stop("-TERM");
    assert_eq!(packets(&windows(&file)), 60);
}

/// The beginnings of windows; each is there once.
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

/// A window that the next run goes on with is written by the run in which it ends.
#[test]
fn a_restart_writes_no_window_twice_and_loses_none() {
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
        assert!(windows(&file).is_empty(), "it goes on");
    }
    // Short ones: whether a window goes on or has ended meanwhile, its packets are there once.
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

    // As after a crash between the lines of a window and the removal of its file.
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
    // Set for tests that want one long window.
    command
        .env_remove("CRANE_WINDOW_LENGTH")
        .stderr(Stdio::piped());
    let mut agent = Running::start(&mut command);
    agent.wait_for_line("metrics are at");
    cable.ping(5);
    eventually("the first file", || {
        (packets(&windows(&first)) == 10).then_some(())
    });
    // Refused as a whole: nothing changes.
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
    // Off.
    configure("");
    agent.signal("-HUP");
    agent.wait_for_line("configuration reloaded");
    let (done, windows_before) = (fs::read(&second).unwrap(), windows(&first).len());
    cable.ping(5);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(fs::read(&second).unwrap() == done);
    assert_eq!(windows(&first).len(), windows_before);
    assert_eq!(lost(&cable), 0.0, "what is turned off is not lost");
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

/// A disk of its own, small enough to be filled.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .status();
        assert!(mounted.unwrap().success());
        Self(folder)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_costs_lines_and_no_packet() {
    let Some(cable) = Cable::lay() else { return };
    let disk = Disk::mount("256k");
    let file = disk.0.path().join("windows.jsonl");
    let filler = disk.0.path().join("filler");
    let mut agent = start(&cable, &file, "500ms", &[]);
    eventually("a window", || (!windows(&file).is_empty()).then_some(()));
    assert_eq!(lost(&cable), 0.0);
    // Until nothing fits, while the agent writes as well.
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
    assert_eq!(edges, 40.0, "stored all the same");
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
    // Every line is whole, and nothing more is lost.
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
    // A file of another size, as if the agent had written it.
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

/// A mistake is one of the configuration: the service is not started again and again.
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
