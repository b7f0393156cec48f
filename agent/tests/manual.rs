//! Manual pages and completions, as generated and as installed.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use common::{AGENT, COMMANDS, agent, eventually, stderr, workspace};

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

/// The text of a page as formatted by groff, which must report no warning.
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
fn a_single_page_is_printed() {
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
fn make_installs_and_uninstalls_them() {
    let root = tempfile::tempdir().unwrap();
    let make = |target: &str| {
        let output = Command::new("make")
            // Uses this binary as it is, so that nothing is built.
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

/// Types lines into a shell in a terminal, each followed by Tab and Enter. Returns the
/// arguments that `crane-agent` was run with.
fn press_tab(shell: &str, start: &str, folder: &Path, lines: &[&str]) -> Vec<String> {
    let log = folder.join(format!("{shell}.log"));
    // The shell needs a terminal, which `script` provides.
    let mut terminal = Command::new("script")
        .args(["-q", "-c", start, "/dev/null"])
        .current_dir(folder)
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", folder)
        .env("TERM", "dumb")
        .env("LANG", "C.UTF-8")
        .env("LOG", &log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let mut screen = terminal.stdout.take().unwrap();
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = screen.read(&mut bytes) {
            seen.lock().unwrap().extend_from_slice(&bytes[..length]);
        }
    });
    let prompts = || {
        let shown = shown.lock().unwrap();
        String::from_utf8_lossy(&shown).matches("ready>").count()
    };
    let arguments = || -> Vec<String> {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    };
    eventually(&format!("a prompt of {shell}"), || {
        (prompts() > 0).then_some(())
    });
    for (at, line) in lines.iter().enumerate() {
        write!(keys, "crane-agent {line}\t").unwrap();
        keys.flush().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        keys.write_all(b"\r").unwrap();
        eventually(&format!("{shell} to run {line}"), || {
            (arguments().len() > at).then_some(())
        });
    }
    keys.write_all(b"exit\r").unwrap();
    drop(keys);
    terminal.wait().unwrap();
    reader.join().unwrap();
    arguments()
}

#[test]
fn tab_completes_commands_options_values_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let executable = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    // A replacement that writes only its arguments.
    executable("crane-agent", "#!/bin/sh\necho \"$*\" >> \"$LOG\"\n");
    std::fs::write(folder.join("traffic.pcap"), "").unwrap();
    for (shell, name) in [
        ("bash", "crane.bash"),
        ("zsh", "_crane-agent"),
        ("fish", "crane.fish"),
    ] {
        let script = agent(&["completions", shell]).stdout;
        std::fs::write(folder.join(name), script).unwrap();
    }
    executable("rc.bash", "PS1='ready> '; . ./crane.bash\n");
    executable(
        ".zshrc",
        "PROMPT='ready> '; unsetopt PROMPT_SP; fpath=($HOME $fpath); autoload -U compinit; compinit -u\n",
    );
    let fish = "function fish_prompt; echo 'ready> '; end; function fish_greeting; end; \
                source crane.fish";
    executable("rc.fish", fish);
    let lines = [
        ("rep", "replay"),
        ("replay --mer", "replay --merge"),
        ("check-c", "check-config"),
        ("top --by by", "top --by bytes"),
        ("top --format j", "top --format json"),
        ("replay --merge traf", "replay --merge traffic.pcap"),
    ];
    let (typed, expected): (Vec<&str>, Vec<&str>) = lines.into_iter().unzip();
    for (shell, start) in [
        ("bash", "bash --noprofile --rcfile rc.bash -i"),
        ("zsh", "zsh -i"),
        ("fish", "fish --private -C 'source rc.fish'"),
    ] {
        assert_eq!(press_tab(shell, start, folder, &typed), expected, "{shell}");
    }
}
