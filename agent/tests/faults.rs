//! Faults: a panic, a lack of file descriptors; and the rights that the agent keeps.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Stdio;

use common::net::{AGENT_PORT, Cable, LEFT, RIGHT, fetch};
use common::{AGENT, Running, eventually, series, values};

fn of(cable: &Cable, name: &str, interface: &str) -> Option<f64> {
    series(&cable.metrics(), name, &[("interface", interface)])
}

fn panics(cable: &Cable, thread: &str) -> Option<f64> {
    let labels = [("thread", thread)];
    series(&cable.metrics(), "crane_thread_panics_total", &labels)
}

/// An agent on two interfaces whose threads panic as this file says.
fn fragile(cable: &Cable, file: &Path) -> Running {
    cable.plug_second();
    // One core: both interfaces share a thread.
    let mut command = Cable::command(&cable.left, "taskset");
    command.args(["-c", "0", AGENT, "run", "-i", "cable", "-i", "second"]);
    command.env("TEST_PANIC", file).stderr(Stdio::piped());
    let mut agent = Running::start(&mut command);
    agent.wait_for_line("metrics are at");
    agent
}

fn panic(file: &Path, what: &str) {
    // Renamed into place, so that the reader never finds an incomplete file.
    let new = file.with_extension("new");
    std::fs::write(&new, what).unwrap();
    std::fs::rename(&new, file).unwrap();
}

#[test]
fn a_panic_of_a_capture_interrupts_one_interface() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("panic");
    let mut agent = fragile(&cable, &file);
    assert_eq!(panics(&cable, "capture"), Some(0.0));
    cable.ping(10);
    eventually("packets", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(20.0)).then_some(())
    });
    panic(&file, "capture cable");
    cable.ping(2);
    agent.wait_for_line("a test asked for it");
    let line = agent.wait_for_line("capture");
    assert!(
        line.contains("capture lost") && line.contains("cable"),
        "{line}"
    );
    assert_eq!(of(&cable, "crane_interface_up", "second"), Some(1.0));
    assert_eq!(panics(&cable, "capture"), Some(1.0));
    let line = agent.wait_for_line("capture");
    assert!(line.contains("capture is back"), "{line}");
    let before = of(&cable, "crane_sketch_edges_total", "cable").unwrap();
    assert!(before >= 20.0);
    cable.ping(10);
    eventually("more packets", || {
        let edges = of(&cable, "crane_sketch_edges_total", "cable")?;
        (edges == before + 20.0).then_some(())
    });
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn a_panic_of_the_worker_loses_the_windows_of_one_interface() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("panic");
    let mut agent = fragile(&cable, &file);
    cable.ping(10);
    eventually("packets", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(20.0)).then_some(())
    });
    let second = of(&cable, "crane_window_start_timestamp_seconds", "second");
    panic(&file, "sketch cable");
    cable.ping(5);
    agent.wait_for_line("a test asked for it");
    let line = agent.wait_for_line("begins new windows");
    assert!(
        line.contains("cable") && line.contains("packets=20"),
        "{line}"
    );
    assert_eq!(panics(&cable, "sketch"), Some(1.0));
    cable.ping(10);
    // Every packet is in a counter, and the new window has those since the panic.
    let heavy = eventually("all packets", || {
        let text = cable.metrics();
        let of = |name: &str| series(&text, name, &[("interface", "cable")]);
        let lost = [("interface", "cable"), ("reason", "ring_full")];
        let lost = series(&text, "crane_capture_dropped_packets_total", &lost)?;
        let edges = of("crane_sketch_edges_total")?;
        assert!(edges + lost <= 50.0, "{edges} and {lost}");
        let labels = [("interface", "cable"), ("src", RIGHT), ("dst", LEFT)];
        let heavy = series(&text, "crane_heavy_hitter_packets", &labels)?;
        let window = of("crane_window_packets")?;
        (lost > 0.0 && edges + lost == 50.0 && window == edges - 20.0).then_some(heavy)
    });
    assert!((10.0..15.0).contains(&heavy), "{heavy}");
    let now = of(&cable, "crane_window_start_timestamp_seconds", "second");
    assert_eq!(second, now, "the other interface keeps its window");
    assert_eq!(
        fetch(Some(&cable.left), AGENT_PORT, "/healthz").unwrap(),
        "ok\n"
    );
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn a_panic_of_the_server_closes_one_connection() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("panic");
    let mut agent = fragile(&cable, &file);
    let health = || fetch(Some(&cable.left), AGENT_PORT, "/healthz");
    for (count, what) in (1..).zip(["/healthz", "accept", "thread"]) {
        panic(&file, &format!("http {what}"));
        match what {
            // The thread wakes when addresses may have changed.
            "thread" => agent.signal("-HUP"),
            _ => assert_eq!(health(), None, "{what}"),
        }
        let line = agent.wait_for_line("a test asked for it");
        assert!(line.contains("thread=\"http\""), "{line}");
        assert_eq!(health().unwrap(), "ok\n", "{what}");
        assert_eq!(panics(&cable, "http"), Some(f64::from(count)));
    }
    cable.ping(10);
    eventually("packets", || {
        (of(&cable, "crane_sketch_edges_total", "cable") == Some(20.0)).then_some(())
    });
    let (code, _) = agent.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn new_interfaces_and_scrapes_wait_for_descriptors() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = cable.capture(&["-i", "cable", "-i", "idle*"]);
    let open = std::fs::read_dir(format!("/proc/{}/fd", agent.0.id())).unwrap();
    agent.limit(open.count());
    cable.plug_idle(4);
    let line = agent.wait_for_line("WARN");
    for part in ["idle", "too many open files", "LimitNOFILE", "trying again"] {
        assert!(line.contains(part), "{line}");
    }
    let refused = Cable::command(&cable.left, "bash")
        .args(["-c", "exec 3<>/dev/tcp/127.0.0.1/9732; read -t 2 -u 3 _"])
        .stderr(Stdio::null())
        .status();
    assert!(!refused.unwrap().success());
    agent.wait_for_line("a connection could not be accepted");
    // Interfaces that were open are captured all the time.
    cable.ping(10);
    agent.limit(4096);
    let text = eventually("all interfaces", || {
        let text = cable.metrics();
        let up: f64 = values(&text, "crane_interface_up").sum();
        (up == 5.0).then_some(text)
    });
    let edges = series(&text, "crane_sketch_edges_total", &[("interface", "cable")]);
    assert_eq!(edges, Some(20.0));
}

/// The distinct lines about capabilities in the status of all threads.
fn capabilities(agent: &Running) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.0.id())).unwrap();
    let mut lines = Vec::new();
    let mut threads = 0;
    for task in tasks {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let own = status.lines().filter(|line| line.starts_with("Cap"));
        lines.extend(own.map(|line| line.replace('\t', " ")));
        threads += 1;
    }
    assert!(threads >= 4, "only {threads} threads");
    lines.sort();
    lines.dedup();
    lines
}

#[test]
fn only_the_right_to_capture_is_kept() {
    let Some(cable) = Cable::lay() else { return };
    let agent = cable.capture(&["-i", "cable", "-i", "sec*"]);
    let (none, raw) = ("0000000000000000", "0000000000002000");
    let right = [
        format!("CapAmb: {none}"),
        format!("CapBnd: {raw}"),
        format!("CapEff: {raw}"),
        format!("CapInh: {none}"),
        format!("CapPrm: {raw}"),
    ];
    assert_eq!(capabilities(&agent), right);
    // That is enough for interfaces that appear later.
    cable.plug_second();
    eventually("a capture", || {
        (of(&cable, "crane_interface_up", "second") == Some(1.0)).then_some(())
    });
    assert_eq!(capabilities(&agent), right);
    drop(agent);
    let agent = cable.capture(&["-i", "cable", "--keep-privileges"]);
    assert!(!capabilities(&agent).contains(&right[2]));
}
