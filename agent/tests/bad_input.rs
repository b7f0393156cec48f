//! Wrong input of every kind: one line that names the mistake, and the right exit code.
#![allow(clippy::unwrap_used)]

mod common;

use common::{agent, stderr};

#[test]
fn wrong_input_is_answered_with_one_line_and_an_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = file(
        "text.pcap",
        "this is not a capture, though long enough to be one",
    );
    let empty = file("empty.pcap", "");
    let bad_key = file("key.toml", "[capture]\npromiscous = true\n");
    let bad_value = file("value.toml", "[sketch]\nbatch = 0\n");
    let foreign = file("foreign.safetensors", "these are no weights");
    let weights = file(
        "weights.toml",
        &format!("[sketch]\nweights = {foreign:?}\n"),
    );
    let missing = file(
        "missing.toml",
        "[sketch]\nweights = \"/no/such.safetensors\"\n",
    );
    let barren = folder.path().join("barren");
    std::fs::create_dir(&barren).unwrap();
    std::fs::write(
        barren.join("notes.pcap"),
        "no capture, whatever it is called",
    )
    .unwrap();
    let barren = barren.to_str().unwrap();
    let greedy = file(
        "greedy.toml",
        "[sketch]\nmemory = \"2MiB\"\nmemory_total = \"1MiB\"\n",
    );
    let tight = file("tight.toml", "[sketch]\nmemory = \"64KiB\"\n");
    let sampled = file("sampled.toml", "[capture]\nsample = 3\n");
    let endless = file("endless.toml", "[window]\nlength = \"0s\"\n");
    // A device that never ends, a pipe without a writer, files that are too large.
    let zero = file("zero.toml", "[sketch]\nweights = \"/dev/zero\"\n");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let piped = file("piped.toml", &format!("[sketch]\nweights = {pipe:?}\n"));
    let long = file("long.toml", &"# nothing\n".repeat(200_000));
    let vast = folder.path().join("vast.safetensors");
    let sparse = std::fs::File::create(&vast).unwrap();
    sparse.set_len(100 << 30).unwrap();
    let vast = file("vast.toml", &format!("[sketch]\nweights = {vast:?}\n"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();

    let filter = file("filter.toml", "[capture]\nfilter = \"hst x\"\n");
    let cuda = file("cuda.toml", "[sketch]\ndevice = \"cuda:0\"\n");
    let packed = common::workspace().join("weights/packed.safetensors");
    let other = file(
        "other.toml",
        &format!("[sketch]\nprofile = \"paper\"\nweights = {packed:?}\n"),
    );

    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["check-config", &filter],
            78,
            &[
                "filter.toml, line 2: capture.filter",
                "hst x",
                "syntax error",
            ],
        ),
        // Also if the interface does not exist, which would be another error.
        (
            &["run", "-i", "nope0", "-c", &filter],
            78,
            &["line 2", "syntax error"],
        ),
        (
            &["check-config", &missing],
            78,
            &["sketch.weights", "/no/such.safetensors"],
        ),
        (
            &["check-config", &weights],
            78,
            &["foreign.safetensors", "not a complete safetensors file"],
        ),
        (
            &["check-config", &other],
            78,
            &["packed.safetensors", "sketch.profile = \"paper\""],
        ),
        (
            &["check-config", &cuda],
            78,
            &["sketch.device", "cuda:0", "--features cuda"],
        ),
        (&["run", "-c", &cuda], 78, &["--features cuda"]),
        (&["replay", &text, "-c", &cuda], 78, &["--features cuda"]),
        (
            &["replay", "/no/such.pcap"],
            1,
            &["/no/such.pcap", "no such file"],
        ),
        (&["replay", &text], 1, &["text.pcap", "not a capture"]),
        (&["replay", &empty], 1, &["empty.pcap", "not a capture"]),
        (
            &["replay", barren],
            1,
            &["barren", "no capture in this directory"],
        ),
        (
            &["run", "-i", "lo", "--listen", &taken],
            1,
            &[&taken, "in use"],
        ),
        (
            &["check-config", &bad_key],
            78,
            &["key.toml", "line 2", "promiscous", "promiscuous"],
        ),
        (
            &["run", "-c", &bad_value],
            78,
            &["value.toml", "line 2", "batch", "1 to 65536"],
        ),
        (
            &["replay", &text, "-c", &weights],
            78,
            &["foreign.safetensors", "not a complete safetensors file"],
        ),
        (
            &["run", "-i", "lo", "-c", &missing],
            78,
            &["/no/such.safetensors"],
        ),
        (
            &["check-config", "/dev/zero"],
            78,
            &["/dev/zero", "not a regular file"],
        ),
        (
            &["run", "-i", "lo", "-c", pipe],
            78,
            &["pipe", "not a regular file"],
        ),
        (&["check-config", &long], 78, &["long.toml", "1MiB"]),
        (
            &["run", "-i", "lo", "-c", &zero],
            78,
            &["/dev/zero", "not a regular file"],
        ),
        (
            &["replay", &text, "-c", &piped],
            78,
            &["pipe", "not a regular file"],
        ),
        (
            &["check-config", &vast],
            78,
            &["vast.safetensors", "larger than 64MiB"],
        ),
        (
            &["check-config", "/no/such.toml"],
            78,
            &["/no/such.toml", "cannot be read"],
        ),
        (
            &["run", "-i", "lo", "--device", "cuda:0"],
            78,
            &["cuda:0", "--features cuda"],
        ),
        (
            &["run", "-i", "lo", "-c", &greedy],
            78,
            &[
                "greedy.toml",
                "line 2",
                "2MiB",
                "sketch.memory_total = 1MiB",
            ],
        ),
        (
            &["run", "-i", "lo", "-c", &tight],
            78,
            &["tight.toml", "line 2", "memory", "64KiB", "128KiB to 1GiB"],
        ),
        (
            &["run", "-i", "lo", "-c", &endless],
            78,
            &["endless.toml", "line 2", "length", "0s", "100ms to 366d"],
        ),
        (
            &["run", "-i", "lo", "-x", "lo"],
            1,
            &["no interface is left"],
        ),
        (&["run", "-i", "/(/"], 2, &["/(/", "regular expression"]),
        (&["run", "--window", "soon"], 2, &["soon", "60s"]),
        (
            &["replay", &text, "--window", "0s"],
            2,
            &["100ms to 366d", "whole"],
        ),
        (
            &["query"],
            2,
            &["query [--src <SRC>] [--dst <DST>]", "query --node <IP>"],
        ),
        (
            &["run", "--listen", ":9732"],
            2,
            &[":9732", "like 127.0.0.1:9732"],
        ),
        (
            &["top", "--agent", "https://127.0.0.1:1"],
            1,
            &["no agent answers", "https://127.0.0.1:1"],
        ),
        (&["query", "--node", "somewhere"], 2, &["somewhere"]),
        (
            &["top", "--agent", "127.0.0.1:1"],
            1,
            &["no agent answers at 127.0.0.1:1", "--agent"],
        ),
        (&["replay", &text, "--top", "0"], 2, &["--top"]),
        (&["replay", "-", "--loop"], 1, &["-", "--loop needs files"]),
        (
            &["replay", &text, "--verify", "-c", &sampled],
            1,
            &["--verify", "capture.sample = 1"],
        ),
        (&["replay"], 2, &["FILES"]),
        (&["replay", &text, "--speed", "0"], 2, &["max"]),
        (&["run", "--device", "gpu"], 2, &["cpu-tensor"]),
        (&["fly"], 2, &["fly"]),
    ];
    for (args, code, parts) in cases {
        let output = agent(args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {said}");
        for part in *parts {
            assert!(
                said.contains(part),
                "{args:?} does not say {part:?}: {said}"
            );
        }
        if *code != 2 {
            assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        }
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_missing_right_to_capture_is_reported_with_the_remedy() {
    use std::os::unix::process::CommandExt;
    // In a folder that an unprivileged user can read.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let program = folder.path().join("crane-agent");
    // Copied by another process, because a file that this process has open for writing
    // cannot be executed.
    let copied = std::process::Command::new("cp")
        .arg(common::AGENT)
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    std::os::unix::fs::chown(folder.path(), Some(65534), None).ok();
    let mut command = std::process::Command::new(&program);
    command.args(["run", "-i", "lo", "--listen", "127.0.0.1:0"]);
    let root = std::fs::metadata("/proc/self")
        .is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if root {
        command.uid(65534).gid(65534);
    }
    // Folders with a Makefile, which everyone may read: of this project, and of another
    // one.
    let ours = folder.path().join("ours");
    let foreign = folder.path().join("foreign");
    for place in [&ours, &foreign] {
        std::fs::create_dir(place).unwrap();
    }
    let makefile = common::workspace().join("Makefile");
    std::fs::copy(makefile, ours.join("Makefile")).unwrap();
    std::fs::write(foreign.join("Makefile"), "all:\n\ndemo:\n").unwrap();
    for (place, hint) in [(&ours, true), (&foreign, false), (&"/".into(), false)] {
        let output = command.current_dir(place).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for part in ["no permission", "CAP_NET_RAW", "setcap"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(said.contains("make demo"), hint, "{place:?}: {said}");
    }
}

/// Runs the agent with these environment variables.
fn with(args: &[&str], variables: &[(&str, &std::ffi::OsStr)]) -> std::process::Output {
    let mut command = std::process::Command::new(common::AGENT);
    command.args(args).envs(variables.iter().copied());
    command.output().unwrap()
}

#[test]
fn a_wrong_variable_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.toml");
    std::fs::write(&good, "[capture]\nsnaplen = 100\n").unwrap();
    let good = good.to_str().unwrap();
    use std::os::unix::ffi::OsStrExt;
    let binary = std::ffi::OsStr::from_bytes(b"\xff");
    for (name, value, part) in [
        ("CRANE_CAPTURE_SNAPLEN", "7".as_ref(), "64 to 32767"),
        ("CRANE_CAPTURE_FILTER", "hst x".as_ref(), "syntax error"),
        ("CRANE_WINDOW_LENGTH", binary, "UTF-8"),
    ] {
        for args in [
            &["run", "-i", "lo"][..],
            &["check-config", good],
            &["replay", "/no/such.pcap"],
        ] {
            let output = with(args, &[(name, value)]);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(78), "{args:?}: {said}");
            let key = name["CRANE_".len()..].to_lowercase().replace('_', ".");
            let named = said.contains(name) || said.contains(&key);
            assert!(named && said.contains(part), "{args:?}: {said}");
        }
    }
    assert_eq!(with(&["check-config", good], &[]).status.code(), Some(0));
}

/// Kubernetes sets these variables if a service is called crane, crane-agent or
/// crane-capture.
#[test]
fn unknown_variables_are_named_in_one_warning_and_ignored() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcap");
    common::write_pcap(&path, &[common::arp()]);
    let good = folder.path().join("good.toml");
    std::fs::write(&good, "").unwrap();
    let variables = [
        ("CRANE_PORT", "tcp://10.0.0.1:80".as_ref()),
        ("CRANE_SERVICE_HOST", "10.0.0.1".as_ref()),
        ("CRANE_CAPTURE_PORT", std::ffi::OsStr::from_bytes(b"\xff")),
        ("CRANE_AGENT_PORT", "tcp://10.0.0.1:80".as_ref()),
        ("CRANE_CAPTURE_SNAPLNE", "96".as_ref()),
    ];
    for args in [
        ["replay", path.to_str().unwrap()],
        ["check-config", good.to_str().unwrap()],
    ] {
        let output = with(&args, &variables);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("WARN"), "{said}");
        for (name, _) in variables {
            assert_eq!(said.matches(name).count(), 1, "{name}: {said}");
        }
        let foreign = with(&args, &[("FOREIGN", "x".as_ref())]);
        assert_eq!(stderr(&foreign), "");
    }
}

#[test]
fn fatal_errors_are_json_if_the_log_format_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, "[sketch]\nbatch = 0\n").unwrap();
    let bad = bad.to_str().unwrap();
    for (args, code, part) in [
        (&["check-config", bad][..], 78, "1 to 65536"),
        (&["replay", "/no/such.pcap"], 1, "no such file"),
        (&["replay", "-", "--loop"], 1, "--loop needs files"),
        (&["top", "--agent", "127.0.0.1:1"], 1, "no agent answers"),
    ] {
        let output = agent(&[&["--log-format", "json", "-q"], args].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        let line: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(line["level"], "ERROR", "{said}");
        let message = line["fields"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{said}");
    }
}

#[test]
fn a_deleted_file_ends_a_looped_replay_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.pcap");
    let frames = vec![common::frame(common::address(1), common::address(2), 8); 100];
    common::write_pcap(&path, &frames);
    let mut command = std::process::Command::new(common::AGENT);
    command
        .args([
            "replay",
            path.to_str().unwrap(),
            "--loop",
            "--speed",
            "1",
            "--format",
            "json",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let running = command.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::fs::remove_file(&path).unwrap();
    let output = running.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("short.pcap: no such file"), "{said}");
    let capture = &common::json(&output)["captures"][0];
    let packets = capture["packets"].as_u64().unwrap();
    assert!(packets >= 100 && packets.is_multiple_of(100), "{packets}");
    assert_eq!(capture["top"][0]["packets"], packets);
}
