//! The unit file is valid for systemd, and the agent reports its state to systemd.
//! `make test-boot` tests both with a real systemd.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::net::Cable;
use common::{AGENT, MOMENT, Running, agent, eventually, stderr, workspace};
use nix::sys::ptrace;
use nix::unistd::Pid;

/// Runs `make install` into an empty root.
fn install(root: &Path, prefix: &str) {
    let output = Command::new("make")
        .args(["--silent", "--old-file", AGENT, "install"])
        .arg(format!("AGENT={AGENT}"))
        .arg(format!("PREFIX={prefix}"))
        .arg(format!("DESTDIR={}", root.display()))
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn systemd_accepts_the_unit_wherever_it_is_installed() {
    for prefix in ["/usr", "/usr/local"] {
        let root = tempfile::tempdir().unwrap();
        install(root.path(), prefix);
        let place = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
        };
        // Units that exist in every installed system.
        for target in ["sysinit", "basic", "shutdown", "network", "multi-user"] {
            let text = format!("[Unit]\nDescription={target}\n");
            place(&format!("usr/lib/systemd/system/{target}.target"), &text);
        }
        for slice in ["-", "system"] {
            let text = "[Unit]\nDescription=slice\n";
            place(&format!("usr/lib/systemd/system/{slice}.slice"), text);
        }
        std::fs::create_dir_all(root.path().join("bin")).unwrap();
        std::fs::copy("/bin/sh", root.path().join("bin/sh")).unwrap();
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(format!("--root={}", root.path().display()))
            .arg("crane-agent.service")
            .output()
            .unwrap();
        // An unknown key is only a warning with exit code 0, so there must be no output.
        let said = stderr(&output);
        assert!(output.status.success() && said.trim().is_empty(), "{said}");
    }
}

#[test]
fn the_unit_has_a_low_exposure() {
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=17", "--no-pager"])
        .arg(workspace().join("systemd/crane-agent.service"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", stderr(&output));
}

#[test]
fn memory_max_has_room_for_all_budgets() {
    let text = std::fs::read_to_string(workspace().join("agent/crane-agent.toml")).unwrap();
    let mebibytes = |key: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let value = line.unwrap().trim_start_matches([' ', '=', '"']);
        value.trim_end_matches("MiB\"").parse().unwrap()
    };
    let unit = std::fs::read_to_string(workspace().join("systemd/crane-agent.service")).unwrap();
    let max = unit
        .lines()
        .find_map(|line| line.strip_prefix("MemoryMax="));
    let max: u64 = max.unwrap().trim_end_matches('M').parse().unwrap();
    let buffers = mebibytes("buffer_total");
    assert_eq!(
        max,
        mebibytes("memory_total") + buffers + buffers / 4 + 224,
        "as the comment above MemoryMax says"
    );
}

/// A service manager that records the messages it receives.
struct Manager {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        Self { socket, folder }
    }

    /// Starts the agent as a service that has to notify the watchdog in each period of
    /// `watchdog`.
    fn start(&self, cable: &Cable, watchdog: Duration) -> Running {
        let mut command = Cable::command(&cable.left, AGENT);
        command
            .args(["run", "-i", "cable"])
            .env("NOTIFY_SOCKET", self.folder.path().join("notify"))
            .env("WATCHDOG_USEC", watchdog.as_micros().to_string())
            .stderr(Stdio::null());
        Running::start(&mut command)
    }

    /// The next message within `limit`, if there is one.
    fn receive(&self, limit: Duration) -> Option<String> {
        let mut message = [0; 1024];
        self.socket.set_read_timeout(Some(limit)).unwrap();
        let length = self.socket.recv(&mut message).ok()?;
        Some(String::from_utf8_lossy(&message[..length]).into_owned())
    }

    /// Waits for a message with this beginning.
    fn wait_for(&self, beginning: &str) -> String {
        let start = Instant::now();
        while start.elapsed() < MOMENT {
            if let Some(message) = self.receive(Duration::from_secs(1))
                && message.starts_with(beginning)
            {
                return message;
            }
        }
        panic!("no message {beginning}");
    }
}

#[test]
fn the_service_manager_is_notified_of_the_state() {
    let Some(cable) = Cable::lay() else { return };
    let manager = Manager::new();
    let limit = Duration::from_millis(1500);
    let mut agent = manager.start(&cable, limit);
    manager.wait_for("READY=1");
    // An agent that is ready can be scraped at once.
    let text = cable.metrics();
    assert!(
        text.contains("crane_interface_up{interface=\"cable\"} 1"),
        "{text}"
    );
    manager.wait_for("WATCHDOG=1");
    let start = Instant::now();
    // Several are measured, because a delayed message is followed by the next one sooner.
    (0..8).for_each(|_| drop(manager.wait_for("WATCHDOG=1")));
    let passed = start.elapsed();
    assert!(passed >= 8 * limit / 4, "{passed:?}: not more than needed");
    cable.ping(20);
    // A status sent before does not include these packets.
    let status = eventually("packets in the status", || {
        Some(manager.wait_for("STATUS=")).filter(|status| !status.contains(" 0 packets/s"))
    });
    assert!(
        status.starts_with("STATUS=1 of 1 interfaces up, ")
            && status.contains(" packets/s, 0 dropped since start"),
        "{status}"
    );
    agent.signal("-HUP");
    let reloading = manager.wait_for("RELOADING=1");
    let begun = reloading
        .trim()
        .strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
    assert!(begun.unwrap().parse::<u64>().unwrap() > 0, "{reloading}");
    manager.wait_for("READY=1");
    agent.signal("-TERM");
    manager.wait_for("STOPPING=1");
    assert!(agent.succeeds());
}

/// One thread of a process by its name.
fn thread(agent: &Running, name: &str) -> Pid {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", agent.0.id())).unwrap();
    let task = tasks
        .map(|task| task.unwrap().path())
        .find(|task| std::fs::read_to_string(task.join("comm")).unwrap().trim() == name);
    let id = task.unwrap().file_name().unwrap().to_str().unwrap().parse();
    Pid::from_raw(id.unwrap())
}

#[test]
fn a_hanging_worker_stops_the_watchdog_messages() {
    let Some(cable) = Cable::lay() else { return };
    let manager = Manager::new();
    let agent = manager.start(&cable, Duration::from_millis(900));
    manager.wait_for("WATCHDOG=1");
    // Only this thread stops; all others continue.
    let worker = thread(&agent, "sketch");
    ptrace::attach(worker).unwrap();
    eventually("the worker to stop", || {
        let state = std::fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        state.contains("State:\tt").then_some(())
    });
    while manager.receive(Duration::from_millis(10)).is_some() {}
    let (start, mut received) = (Instant::now(), String::new());
    while start.elapsed() < Duration::from_secs(2) {
        received += &manager
            .receive(Duration::from_millis(500))
            .unwrap_or_default();
    }
    let metrics = cable.metrics();
    // Detached before any assertion, because a stopped process does not end either.
    ptrace::detach(worker, None).unwrap();
    assert!(!received.contains("WATCHDOG"), "{received}");
    assert!(metrics.contains("crane_interface_up"), "other threads work");
    manager.wait_for("WATCHDOG=1");
}

/// As under `ProcSubset=pid`, where there is no `/proc/stat`.
#[test]
fn the_process_is_described_without_the_rest_of_proc() {
    let Some(cable) = Cable::lay() else { return };
    let mut command = Cable::command(&cable.left, "unshare");
    let script = format!("mount -t proc -o subset=pid proc /proc && exec {AGENT} run -i cable");
    command.args(["--mount", "sh", "-c", &script]);
    let mut agent = Running::start(command.stderr(Stdio::piped()));
    agent.wait_for_line("metrics are at");
    let text = cable.metrics();
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_threads",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(text.contains(&format!("\n{name} ")), "{name}: {text}");
    }
}

#[test]
fn the_version_contains_weights_and_devices() {
    let version = agent(&["--version"]);
    let version = String::from_utf8(version.stdout).unwrap();
    let number = env!("CARGO_PKG_VERSION");
    assert!(version.starts_with(&format!("crane-agent {number} (debug build)\n")));
    // The checksums that the documentation of the weights has.
    let weights = std::fs::read_to_string(workspace().join("weights/README.md")).unwrap();
    let sums: Vec<&str> = weights
        .lines()
        .filter_map(|line| line.strip_prefix("| sha256 | `")?.strip_suffix("` |"))
        .collect();
    assert_eq!(sums.len(), 2);
    for (profile, sum) in ["packed (default)", "paper"].into_iter().zip(sums) {
        let line = format!("\nprofile {profile}: weights sha256 {sum}\n");
        assert!(version.contains(&line), "{version}");
    }
    assert!(version.contains("\ndevices: cpu, cpu-tensor"), "{version}");
    let short = agent(&["-V"]);
    assert_eq!(short.stdout, format!("crane-agent {number}\n").into_bytes());
}

/// The delays of restart-delay before each start, with a `sleep` that only prints them.
#[test]
fn delays_of_restarts_grow_until_a_regular_stop() {
    let folder = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    let sleep = tools.path().join("sleep");
    std::fs::write(&sleep, "#!/bin/sh\necho $1\n").unwrap();
    let made = Command::new("chmod").arg("755").arg(&sleep).status();
    assert!(made.unwrap().success());
    let path = format!(
        "{}:{}",
        tools.path().display(),
        std::env::var("PATH").unwrap()
    );
    let run = |args: &[&str], result: &str| -> String {
        let output = Command::new(workspace().join("systemd/restart-delay"))
            .args(args)
            .env("RUNTIME_DIRECTORY", folder.path())
            .env("SERVICE_RESULT", result)
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let mut delays = Vec::new();
    for _ in 0..9 {
        delays.push(run(&[], ""));
        run(&["--forget"], "exit-code");
    }
    assert_eq!(delays, ["0", "1", "3", "7", "15", "31", "63", "63", "63"]);
    run(&["--forget"], "success");
    assert_eq!(run(&[], ""), "0");
    // A start that lasted long enough is not counted either.
    run(&[], "");
    let starts = folder.path().join("starts");
    let old = Command::new("touch")
        .args(["-d", "6 minutes ago"])
        .arg(starts)
        .status();
    assert!(old.unwrap().success());
    assert_eq!(run(&[], ""), "0");
}
