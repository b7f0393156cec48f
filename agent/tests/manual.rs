//! Manual pages and completions, as they are made and as they are installed.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{AGENT, COMMANDS, agent, stderr, workspace};

const SECTIONS: [&str; 8] = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "OPTIONS",
    "EXIT STATUS",
    "FILES",
    "ENVIRONMENT",
    "EXAMPLES",
];

/// The text a reader sees; groff has nothing to complain about.
fn shown(page: &Path) -> String {
    let output = Command::new("groff")
        .args(["-man", "-Tutf8", "-P-cbou", "-ww"])
        .arg(page)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(
        output.status.success() && said.is_empty(),
        "{page:?}: {said}"
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_command_has_a_page_with_all_sections() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = agent(&["man", "--dir", pages.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let names = COMMANDS.map(|command| format!("crane-agent-{command}.1"));
    let mut names = [&names[..], &["crane-agent.1".into()]].concat();
    names.sort_unstable();
    let mut made: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    made.sort_unstable();
    assert_eq!(made, names);
    for name in names {
        let text = shown(&pages.join(&name));
        let title = name.trim_end_matches(".1");
        // Lines are justified.
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        assert!(words.contains(&format!("NAME {title} - ")), "{text}");
        assert!(words.contains(&format!(" crane-agent {}", env!("CARGO_PKG_VERSION"))));
        for section in SECTIONS {
            let lines = text.lines().filter(|line| line.trim_end() == section);
            assert_eq!(lines.count(), 1, "{name}: {section}\n{text}");
        }
    }
    let replay = shown(&pages.join("crane-agent-replay.1"));
    for part in ["--filter", "78", "CRANE_SECTION_KEY", "pcap-filter(7)"] {
        assert!(replay.contains(part), "{replay}");
    }
}

#[test]
fn one_page_can_be_asked_for() {
    let page = |args: &[&str]| String::from_utf8(agent(args).stdout).unwrap();
    assert!(page(&["man"]).contains(".TH CRANE-AGENT 1"));
    assert!(page(&["man", "check-config"]).contains(".TH CRANE-AGENT-CHECK-CONFIG 1"));
    let wrong = agent(&["man", "fly"]);
    assert_eq!(wrong.status.code(), Some(1));
    let said = stderr(&wrong);
    assert!(
        said.contains("fly") && said.contains("check-config"),
        "{said}"
    );
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn make_installs_them_and_takes_them_away_again() {
    let root = tempfile::tempdir().unwrap();
    let make = |target: &str| {
        let output = Command::new("make")
            // This binary, as it is: nothing is built.
            .args(["--silent", "--old-file", AGENT, target])
            .arg(format!("AGENT={AGENT}"))
            .arg(format!("DESTDIR={}", root.path().display()))
            .current_dir(workspace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    make("install");
    let share = root.path().join("usr/local/share");
    for command in COMMANDS {
        let page = share.join(format!("man/man1/crane-agent-{command}.1"));
        assert!(page.exists(), "{page:?}");
    }
    assert!(share.join("man/man1/crane-agent.1").exists());
    for (path, part) in [
        ("bash-completion/completions/crane-agent", "complete -F"),
        ("zsh/site-functions/_crane-agent", "#compdef crane-agent"),
        (
            "fish/vendor_completions.d/crane-agent.fish",
            "complete -c crane-agent",
        ),
    ] {
        let script = std::fs::read_to_string(share.join(path)).unwrap();
        assert!(
            script.contains(part) && script.contains("check-config"),
            "{path}"
        );
    }
    let bash = share.join("bash-completion/completions/crane-agent");
    let checked = Command::new("bash").arg("-n").arg(bash).status();
    assert!(checked.unwrap().success());
    make("uninstall");
    let config = root.path().join("etc/crane-agent/crane-agent.toml");
    assert_eq!(files(root.path()), [config]);
}
