//! SIGHUP: a running agent reads its configuration again and replaces only what changed.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use common::net::{AGENT_PORT, Cable, LEFT, RIGHT, fetch};
use common::{AGENT, Running, eventually, series};

/// An agent on the left side of a cable, with its configuration.
struct Agent<'a> {
    cable: &'a Cable,
    folder: tempfile::TempDir,
    process: Running,
}

impl<'a> Agent<'a> {
    /// Starts an agent whose windows last longer than the test.
    fn start(cable: &'a Cable, config: &str) -> Self {
        Self::start_with(cable, config, &["--window=366d"])
    }

    fn start_with(cable: &'a Cable, config: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("agent.toml"), config).unwrap();
        let mut command = Cable::command(&cable.left, AGENT);
        command
            .env_remove("CRANE_WINDOW_LENGTH")
            .arg("run")
            .args(flags)
            .arg("--config")
            .arg(folder.path().join("agent.toml"))
            .stderr(Stdio::piped());
        let mut process = Running::start(&mut command);
        process.wait_for_line("metrics are at");
        Self {
            cable,
            folder,
            process,
        }
    }

    /// The file of this name beside the configuration.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes the configuration and reloads. Returns what the agent logs about it.
    fn reload(&mut self, config: &str) -> String {
        std::fs::write(self.file("agent.toml"), config).unwrap();
        self.process.signal("-HUP");
        self.process.wait_for_line(" configuration")
    }

    /// The same for a valid configuration, which must be applied.
    fn reload_valid(&mut self, config: &str) -> String {
        let line = self.reload(config);
        assert!(line.contains("configuration reloaded: "), "{line}");
        eventually("success", || {
            (self.alone("successful") == 1.0).then_some(())
        });
        line
    }

    /// A metric about the last reload.
    fn alone(&self, name: &str) -> f64 {
        let name = format!("crane_config_last_reload_{name} ");
        let text = self.cable.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(&name));
        value.unwrap().parse().unwrap()
    }

    fn of(&self, name: &str, interface: &str) -> Option<f64> {
        series(&self.cable.metrics(), name, &[("interface", interface)])
    }

    /// When the window that is exported began.
    fn window(&self, interface: &str) -> f64 {
        let name = "crane_window_start_timestamp_seconds";
        self.of(name, interface).unwrap()
    }

    /// Waits until `count` packets are stored.
    fn wait_for_edges(&self, count: f64) {
        eventually(&format!("{count} packets"), || {
            let edges = self.of("crane_sketch_edges_total", "cable")?;
            assert!(edges <= count, "{edges} of {count}");
            (edges == count).then_some(())
        });
    }

    /// The files and sockets that the agent has open.
    fn sockets(&self) -> Vec<PathBuf> {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.process.0.id())).unwrap();
        let links = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        let mut links: Vec<PathBuf> = links.collect();
        links.sort();
        links
    }
}

/// A configuration that captures these interfaces.
fn capturing(interfaces: &str) -> String {
    format!("[capture]\ninterfaces = [{interfaces}]\nfilter = \"icmp\"\n")
}

#[test]
fn interfaces_are_opened_and_closed_by_a_reload() {
    let Some(cable) = Cable::lay() else { return };
    cable.plug_second();
    let mut agent = Agent::start(&cable, &capturing("\"cable\""));
    cable.ping(10);
    agent.wait_for_edges(20.0);
    let (window, sockets) = (agent.window("cable"), agent.sockets());
    // Flags override the file as they did at the start.
    let same = capturing("\"cable\"") + "[window]\nlength = \"1s\"\n";
    let line = agent.reload_valid(&same);
    assert!(line.contains("nothing has changed"), "{line}");
    assert_eq!(agent.sockets(), sockets, "no file or socket was reopened");

    let line = agent.reload_valid(&capturing("\"cable\", \"sec*\""));
    assert!(line.contains("reloaded: capture.interfaces\n"), "{line}");
    eventually("another interface", || {
        (agent.of("crane_interface_up", "second") == Some(1.0)).then_some(())
    });
    cable.ping(10);
    agent.wait_for_edges(40.0);
    assert_eq!(agent.window("cable"), window);

    agent.reload_valid(&capturing("\"second\""));
    eventually("one interface less", || {
        let text = cable.metrics();
        (!text.contains("interface=\"cable\"")).then_some(())
    });
    assert_eq!(agent.of("crane_interface_up", "second"), Some(1.0));
    let (code, _) = agent.process.stop("-TERM");
    assert_eq!(code, Some(0));
}

#[test]
fn captures_are_reopened_without_losing_a_packet() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = Agent::start(&cable, &capturing("\"cable\""));
    let window = agent.window("cable");
    let before = agent.sockets();
    std::thread::scope(|scope| {
        scope.spawn(|| cable.ping(600));
        for (filter, rest) in [
            ("ip proto 1", "snaplen = 100"),
            ("icmp", "buffer_total = \"8MiB\"\nring_slots = 1024"),
            ("ip and icmp", "[sketch]\nbatch = 100\nlinger_ms = 20"),
        ] {
            std::thread::sleep(Duration::from_millis(700));
            let config = format!("[capture]\ninterfaces = [\"cable\"]\nfilter = \"{filter}\"\n");
            let line = agent.reload_valid(&format!("{config}{rest}\n"));
            assert!(line.contains("capture.filter"), "{line}");
        }
    });
    agent.wait_for_edges(1200.0);
    assert_eq!(agent.window("cable"), window);
    eventually("all in one window", || {
        (agent.of("crane_window_packets", "cable")? == 1200.0).then_some(())
    });
    let dropped = "crane_capture_dropped_packets_total";
    assert_eq!(agent.of(dropped, "cable"), Some(0.0));
    assert_ne!(agent.sockets(), before);
    // The last filter is in effect.
    agent.reload_valid(
        "[capture]\ninterfaces = [\"cable\"]\nfilter = \"icmp[icmptype] == icmp-echo\"\n",
    );
    eventually("requests alone", || {
        let edges = || agent.of("crane_sketch_edges_total", "cable");
        let before = edges()?;
        cable.ping(5);
        std::thread::sleep(Duration::from_millis(500));
        (edges()? - before == 5.0).then_some(())
    });
}

#[test]
fn settings_of_sketches_end_the_current_window_early() {
    let Some(cable) = Cable::lay() else { return };
    let mut agent = Agent::start(&cable, &capturing("\"cable\""));
    cable.ping(10);
    agent.wait_for_edges(20.0);
    let line = agent.reload_valid(&format!(
        "{}sample = 2\n[sketch]\nmemory = \"4MiB\"\nmemory_total = \"64MiB\"\ndevice = \"cpu\"\n",
        capturing("\"cable\"")
    ));
    for key in ["capture.sample", "sketch.memory,", "sketch.memory_total"] {
        assert!(line.contains(key), "{line}");
    }
    let line = agent.process.wait_for_line("needs a restart");
    assert!(line.ends_with("needs a restart: sketch.device\n"), "{line}");
    let text = eventually("a complete window", || {
        let text = cable.metrics();
        let complete = series(&text, "crane_window_complete", &[])?;
        (complete == 1.0).then_some(text)
    });
    let packets = series(&text, "crane_window_packets", &[]);
    assert_eq!(packets, Some(20.0), "no packet is lost");
    cable.ping(100);
    // One packet in two is stored, and every packet is in a counter.
    eventually("all packets", || {
        let text = cable.metrics();
        let sampled = [("reason", "sampled")];
        let ignored = series(&text, "crane_capture_ignored_packets_total", &sampled)?;
        let edges = series(&text, "crane_sketch_edges_total", &[])?;
        (ignored > 50.0 && edges > 70.0 && edges + ignored == 220.0).then_some(())
    });
    let answer = fetch(
        Some(&cable.left),
        AGENT_PORT,
        &format!("/api/v1/flow?src={LEFT}&dst={RIGHT}&window=current"),
    );
    let answer: serde_json::Value = serde_json::from_str(&answer.unwrap()).unwrap();
    let packets = answer["interfaces"][0]["estimate"]["packets"]
        .as_u64()
        .unwrap();
    assert!((50..200).contains(&packets), "scaled up: {answer}");
}

#[test]
fn windows_of_another_length_begin_at_once() {
    let Some(cable) = Cable::lay() else { return };
    let config = capturing("\"cable\"");
    let lasting = |length: &str| format!("{config}[window]\nlength = \"{length}\"\n");
    let mut agent = Agent::start_with(&cable, &lasting("1h"), &[]);
    cable.ping(10);
    agent.wait_for_edges(20.0);
    let line = agent.reload_valid(&lasting("2s"));
    assert!(line.contains("reloaded: window.length\n"), "{line}");
    agent.process.wait_for_line("ended early");
    eventually("windows of two seconds", || {
        let seconds = agent.of("crane_window_seconds", "cable")?;
        (1.9..3.0).contains(&seconds).then_some(())
    });
    agent.wait_for_edges(20.0);
}

#[test]
fn names_watch_lists_and_anonymisation_change() {
    let Some(cable) = Cable::lay() else { return };
    let left = format!("[[names]]\nprefix = \"{LEFT}/32\"\nname = \"left\"\n");
    let right = format!("[[names]]\nprefix = \"{RIGHT}/32\"\nname = \"right\"\n");
    let config = capturing("\"cable\"");
    let mut agent = Agent::start(&cable, &format!("{config}{left}"));
    let group = |src: &str, dst: &str| {
        let labels = [("src", src), ("dst", dst)];
        series(&cable.metrics(), "crane_group_packets_total", &labels)
    };
    cable.ping(10);
    agent.wait_for_edges(20.0);
    let window = agent.window("cable");
    eventually("groups", || (group("left", "other")? == 10.0).then_some(()));
    let line = agent.reload_valid(&format!("{config}{left}{right}"));
    assert!(line.contains("reloaded: names\n"), "{line}");
    cable.ping(10);
    agent.wait_for_edges(40.0);
    eventually("groups", || (group("left", "right")? == 10.0).then_some(()));
    assert_eq!(
        group("left", "other"),
        Some(10.0),
        "the counter of the old name is kept"
    );

    // Names from a file, which is read again although the configuration is unchanged.
    std::fs::write(agent.file("names.csv"), format!("{LEFT}/32,here\n")).unwrap();
    let from_file = format!(
        "names_file = \"{}\"\n{config}",
        agent.file("names.csv").display()
    );
    agent.reload_valid(&from_file);
    eventually("other names", || {
        (group("left", "right").is_none() && group("left", "other").is_none()).then_some(())
    });
    let lines = format!("{LEFT}/32,here\n{RIGHT}/32,there\n");
    std::fs::write(agent.file("names.csv"), lines).unwrap();
    let line = agent.reload_valid(&from_file);
    assert!(line.contains("reloaded: names\n"), "{line}");
    cable.ping(10);
    eventually("groups", || (group("here", "there")? == 10.0).then_some(()));

    let watch = format!("watch = [{{src = \"{LEFT}\", dst = \"{RIGHT}\"}}]\n");
    agent.reload_valid(&format!("{config}[export]\n{watch}"));
    let watched = "crane_flow_estimate_packets";
    eventually("a watched pair", || {
        (agent.of(watched, "cable")? == 30.0).then_some(())
    });
    assert!(!cable.metrics().contains("crane_group_packets_total{"));
    agent.reload_valid(&format!("{config}[export]\nanonymise = \"prefix\"\n"));
    let text = cable.metrics();
    assert!(
        !text.contains(LEFT) && text.contains("10.200.0.0"),
        "{text}"
    );
    assert_eq!(agent.window("cable"), window, "all in one window");
}

#[test]
fn a_bad_configuration_changes_nothing_and_says_why() {
    let Some(cable) = Cable::lay() else { return };
    let good = capturing("\"cable\"");
    let mut agent = Agent::start(&cable, &good);
    assert_eq!(agent.alone("successful"), 1.0);
    let started = agent.alone("success_timestamp_seconds");
    let sockets = agent.sockets();
    let web = "tls_server_config:\n  cert_file: none.crt\n  key_file: none.key\n";
    std::fs::write(agent.file("web.yml"), web).unwrap();
    let web = format!("web_config = \"{}\"", agent.file("web.yml").display());
    let listening = "listen = [\"127.0.0.1:9733\", ";
    // Each of them would capture nothing if it were applied.
    let nothing = "[capture]\ninterfaces = [\"none\"]\n";
    for (config, says) in [
        (format!("{nothing}no_such_key = 1\n"), "line 3"),
        (format!("{nothing}snaplen = 1\n"), "snaplen"),
        (format!("{nothing}filter = \"no such\"\n"), "capture.filter"),
        (format!("{nothing}filter = \"wlan type mgt\"\n"), "on cable"),
        (format!("{nothing}exclude = [\"none\"]\n"), "excluded"),
        (format!("names_file = \"/none\"\n{nothing}"), "/none"),
        (format!("{nothing}[export]\n{web}\n"), "none.crt"),
        (
            format!("{nothing}[export]\n{listening}\"192.0.2.1:9\"]\n"),
            "192.0.2.1 is no address of this machine",
        ),
        (
            format!("{nothing}[export]\n{listening}\"127.0.0.1:80\"]\n"),
            "restart it",
        ),
        (
            format!("{nothing}[export]\nlisten = \"127.0.0.1:9732\"\nsocket = \"/none/x\"\n"),
            "/none/x",
        ),
        (
            format!("{nothing}[sketch]\nmemory = \"128KiB\"\nprofile = \"paper\"\n"),
            "sketch.memory",
        ),
    ] {
        let line = agent.reload(&config);
        let file = agent.file("agent.toml");
        for part in ["ERROR", "the old one stays", says, file.to_str().unwrap()] {
            assert!(line.contains(part), "{part}: {line}");
        }
        eventually("a failure", || {
            (agent.alone("successful") == 0.0).then_some(())
        });
        assert_eq!(agent.alone("success_timestamp_seconds"), started);
        assert_eq!(agent.sockets(), sockets, "{says}");
        assert_eq!(agent.of("crane_interface_up", "cable"), Some(1.0));
    }
    agent.reload_valid(&good);
    assert!(agent.alone("success_timestamp_seconds") > started);
    cable.ping(10);
    agent.wait_for_edges(20.0);
}

#[test]
fn addresses_change_and_kept_ones_are_never_closed() {
    let Some(cable) = Cable::lay() else { return };
    let config = capturing("\"cable\"");
    let mut agent = Agent::start(&cable, &config);
    let health = |port: u16| fetch(Some(&cable.left), port, "/healthz");
    let socket = agent.file("api.sock");
    std::thread::scope(|scope| {
        let scrapes = scope.spawn(|| (0..40).filter(|_| health(AGENT_PORT).is_some()).count());
        let both = "listen = [\"127.0.0.1:9732\", \"127.0.0.1:9733\"]";
        agent.reload_valid(&format!(
            "{config}[export]\n{both}\nsocket = \"{}\"\n",
            socket.display()
        ));
        eventually("another address", || health(9733));
        assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
        let first = "listen = \"127.0.0.1:9732\"";
        agent.reload_valid(&format!("{config}[export]\n{first}\n"));
        eventually("one address less", || health(9733).is_none().then_some(()));
        assert!(!socket.exists());
        assert_eq!(scrapes.join().unwrap(), 40, "all are answered");
    });
    // An address that includes the old one is bound before the old one is closed.
    agent.reload_valid(&format!("{config}[export]\nlisten = \"0.0.0.0:9732\"\n"));
    let line = agent.process.wait_for_line("metrics are at");
    assert!(line.contains("http://0.0.0.0:9732/metrics"), "{line}");
    let outside = || {
        let request = "exec 3<>/dev/tcp/10.200.0.1/9732";
        let mut command = Cable::command(&cable.right, "bash");
        command.args(["-c", request]).stderr(Stdio::null());
        command.status().unwrap().success().then_some(())
    };
    eventually("a connection from outside", outside);
    agent.reload_valid(&format!("{config}[export]\nlisten = \"127.0.0.1:9732\"\n"));
    eventually("no connection from outside", || {
        outside().is_none().then_some(())
    });

    // Protection by a file that was not configured before.
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    let users = format!("basic_auth_users:\n  somebody: {hash}\n");
    std::fs::write(agent.file("web.yml"), users).unwrap();
    let web = format!("web_config = \"{}\"", agent.file("web.yml").display());
    let protected = format!("{config}[export]\n{web}\n");
    let line = agent.reload(&protected);
    assert!(line.contains("export.web_config"), "{line}");
    let is_refused = || {
        health(AGENT_PORT)
            .unwrap()
            .contains("authentication failed")
    };
    assert!(is_refused());
    std::fs::write(agent.file("web.yml"), "nonsense: 1\n").unwrap();
    let line = agent.reload(&protected);
    assert!(
        line.contains("not reloaded") && line.contains("web.yml"),
        "{line}"
    );
    assert!(is_refused(), "the protection is unchanged");
    agent.reload_valid(&config);
    assert_eq!(health(AGENT_PORT).unwrap(), "ok\n");
}

/// A window that was saved with the old settings would not be loaded. The window saved at
/// the end has the settings of the reload.
#[test]
fn a_restart_after_a_reload_continues_the_window() {
    let Some(cable) = Cable::lay() else { return };
    let state = tempfile::tempdir().unwrap();
    let directory = format!("--state={}", state.path().display());
    let flags = [directory.as_str(), "-i", "cable"];
    let before = "window.length = \"300d\"\n";
    let after = "window.length = \"366d\"\ncapture.filter = \"icmp\"\n";
    let mut agent = Agent::start_with(&cable, before, &flags);
    cable.ping(5);
    let window = || {
        let packets = series(&cable.metrics(), "crane_window_packets", &[]);
        packets.filter(|packets| *packets > 0.0)
    };
    assert_eq!(
        eventually("packets", || window().filter(|all| *all == 10.0)),
        10.0
    );
    let line = agent.reload_valid(after);
    assert!(line.contains("window.length"), "{line}");
    // The new window begins when the captures have been replaced.
    eventually("another window", || {
        let text = fetch(Some(&cable.left), AGENT_PORT, "/api/v1/interfaces")?;
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        (answer["interfaces"][0]["current"]["packets"] == 0).then_some(())
    });
    cable.ping(7);
    eventually("all packets", || {
        let labels = [("interface", "cable")];
        let stored = series(&cable.metrics(), "crane_sketch_edges_total", &labels);
        (stored == Some(24.0)).then_some(())
    });
    let (code, _) = agent.process.stop("-TERM");
    assert_eq!(code, Some(0));
    let _again = Agent::start_with(&cable, after, &flags);
    assert_eq!(eventually("the window", window), 14.0);
}

#[test]
fn other_weights_in_the_same_file_are_noticed() {
    let Some(cable) = Cable::lay() else { return };
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("weights.safetensors");
    let built_in = common::workspace().join("weights/packed.safetensors");
    std::fs::copy(built_in, &weights).unwrap();
    let config = format!("sketch.weights = \"{}\"\n", weights.display());
    let mut agent = Agent::start(&cable, &config);
    let line = agent.reload_valid(&config);
    assert!(line.contains("nothing has changed"), "{line}");
    std::fs::write(&weights, common::other_weights()).unwrap();
    let line = agent.reload_valid(&config);
    assert!(line.contains("sketch.weights"), "{line}");
    agent.process.wait_for_line("ended early");
}

#[test]
fn a_window_that_ended_early_is_not_continued_after_a_restart() {
    let Some(cable) = Cable::lay() else { return };
    let state = tempfile::tempdir().unwrap();
    let directory = format!("--state={}", state.path().display());
    let flags = [directory.as_str(), "-i", "cable", "--window=366d"];
    let every = "state.interval = \"100ms\"\n";
    let mut agent = Agent::start_with(&cable, every, &flags);
    cable.ping(5);
    let saved = state.path().join("cable.window");
    eventually("a saved window", || saved.exists().then_some(()));
    // The settings saved with a window are unchanged, but a new window begins.
    let after = format!("{every}sketch.memory_total = \"64MiB\"\n");
    agent.reload_valid(&after);
    eventually("no saved window", || (!saved.exists()).then_some(()));
    let (code, _) = agent.process.stop("-TERM");
    assert_eq!(code, Some(0));
    let _again = Agent::start_with(&cable, &after, &flags);
    let packets = series(&cable.metrics(), "crane_window_packets", &[]);
    assert_eq!(packets, Some(0.0));
}
