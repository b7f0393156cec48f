//! The command line: help with examples, suggestions, colours only on terminals that want
//! them, tables that fit, and error messages that say what to do.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{AGENT, COMMANDS, agent, free_port, stderr};

fn stdout(args: &[&str]) -> String {
    String::from_utf8(agent(args).stdout).unwrap()
}

#[test]
fn every_help_ends_with_examples() {
    for command in COMMANDS {
        for flag in ["--help", "-h"] {
            let help = stdout(&[command, flag]);
            let (_, examples) = help.split_once("\nExamples:\n").expect(command);
            let example = format!("\n  crane-agent {command}");
            assert!(format!("\n{examples}").contains(&example), "{help}");
        }
    }
    let help = stdout(&["--help"]);
    for part in ["Examples:", "crane-agent run", "CRANE_SECTION_KEY"] {
        assert!(help.contains(part), "{help}");
    }
}

#[test]
fn a_misspelt_word_is_answered_with_the_right_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("a.toml");
    std::fs::write(&config, "[capture]\nsnaplenn = 5\n").unwrap();
    let config = config.to_str().unwrap();
    for (args, meant) in [
        (&["repaly", "x"][..], "'replay'"),
        (&["replay", "x", "--merg"], "'--merge'"),
        (&["top", "--intervall", "1s"], "'--interval'"),
        (&["completions", "bsh"], "'bash'"),
        (&["check-config", config], "did you mean `snaplen`?"),
    ] {
        let output = agent(args);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(meant), "{}", stderr(&output));
    }
}

/// For each mistake, what the message names: the cause, and what to do next.
#[test]
fn error_messages_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("note.pcap"), "hello").unwrap();
    std::fs::write(path("size.toml"), "[sketch]\nmemory = \"4MB\"\n").unwrap();
    // A program that is no agent.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in other.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1000]);
            let _ = stream.write_all(b"HTTP/1.0 404 Not Found\r\n\r\n<html>");
        }
    });
    let unused = format!("127.0.0.1:{}", free_port());
    let (note, size) = (path("note.pcap"), path("size.toml"));
    let none = path("none.pcap");
    let mistakes: &[(&[&str], &[&str])] = &[
        (
            &["top", "--agent", &unused],
            &["refused", "crane-agent run", "--agent"],
        ),
        (
            &["top", "--agent", "127.0.0.1"],
            &["write it like 127.0.0.1:9732"],
        ),
        (
            &["top", "--agent", "no-host.invalid:9732"],
            &["no-host.invalid", "check its name"],
        ),
        (
            &["top", "--agent", &foreign],
            &["status 404", "check the port", "9732"],
        ),
        (&["top", "--interval", "5"], &["like 1s or 500ms"]),
        (
            &["query", "--node", "10.0.0"],
            &["like 10.0.0.1 or 2001:db8::1"],
        ),
        (&["replay", &none], &["none.pcap", "no such file"]),
        (&["replay", &note], &["not a capture file", "tcpdump -w"]),
        (
            &["replay", &note, "--filter", "hots 1"],
            &["like 'host 10.0.0.1 and port 443'"],
        ),
        (
            &["replay", &note, "--top", "0"],
            &["a whole number from 1 on"],
        ),
        (&["replay", &note, "--window", "60"], &["like 60s"]),
        (
            &["replay", &note, "--ask", "10.0.0.300"],
            &["10.0.0.300", "write one like"],
        ),
        (
            &["run", "--listen", "9732"],
            &["write it like 127.0.0.1:9732"],
        ),
        (
            &["run", "-i", "lo", "--listen", "203.0.113.77:9732"],
            &["no address of this machine", "--listen"],
        ),
        (&["check-config", &size], &["line 2", "write it like 64KiB"]),
        (&["check-config", &none], &["none.pcap", "No such file"]),
    ];
    for (args, parts) in mistakes {
        let output = agent(args);
        let said = stderr(&output);
        assert!(!output.status.success(), "{args:?}");
        for part in *parts {
            assert!(
                said.contains(part),
                "{args:?} does not say {part:?}: {said}"
            );
        }
        // One cause, not a chain of internal errors.
        assert!(said.len() < 500, "{said}");
    }
}

/// What a command prints on a terminal.
fn on_a_terminal(folder: &Path, line: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", line, "/dev/null"])
        .current_dir(folder)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn colours_are_used_only_on_terminals_and_if_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str, variables: &[_]| {
        on_a_terminal(folder.path(), &format!("{AGENT} {line}"), variables)
    };
    on_a_terminal(
        folder.path(),
        &format!("{AGENT} sample a.pcap --packets 100"),
        &[],
    );
    for line in ["replay a.pcap -v", "--help", "fly"] {
        let plain = run(line, &[]);
        assert!(plain.contains("\x1b["), "{line}: {plain:?}");
        for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let text = run(line, &[variable]);
            assert!(!text.contains("\x1b["), "{line} {variable:?}: {text:?}");
            assert!(text.len() > 20, "{text:?}");
        }
    }
    let logged = Command::new(AGENT)
        .args(["replay", "a.pcap", "-v"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(!stderr(&logged).contains('\x1b') && stderr(&logged).len() > 20);
}

#[test]
fn tables_fit_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("a.pcap").to_str().unwrap().to_owned();
    stdout(&["sample", &capture, "--packets", "3000"]);
    for args in [
        &["replay", &capture, "--both", "--window", "1s"][..],
        &["interfaces"],
    ] {
        let text = stdout(args);
        assert!(!text.is_empty());
        for line in text.lines().filter(|line| !line.starts_with('/')) {
            let is_long_list = args[0] == "interfaces";
            assert!(line.chars().count() <= 80 || is_long_list, "{line}\n{text}");
            assert_eq!(line, line.trim_end(), "spaces at the end:\n{text}");
        }
    }
}
