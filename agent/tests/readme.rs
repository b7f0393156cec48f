//! The output shown in the README and in the pages it links to is what the agent prints.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{AGENT, Running, free_port, stderr, workspace};

/// The pages with examples.
const PAGES: [&str; 3] = ["README.md", "docs/replay.md", "docs/questions.md"];

/// The commands of a page and the output that it shows for them.
fn examples(page: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let text = std::fs::read_to_string(workspace().join(page)).unwrap();
    let blocks = text
        .split("\n```\n")
        .filter(|block| block.starts_with("$ "));
    let commands = blocks.flat_map(|block| block.split("$ crane-agent ").skip(1));
    commands
        .map(|example| {
            let mut lines = example.lines();
            let words = lines.next().unwrap().split_whitespace();
            let shown = lines.filter(|line| !line.trim().is_empty());
            (
                words.map(str::to_owned).collect(),
                shown.map(str::to_owned).collect(),
            )
        })
        .collect()
}

fn in_folder(folder: &Path) -> Command {
    let mut command = Command::new(AGENT);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

#[test]
fn the_readme_has_at_most_150_lines() {
    let text = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    assert!(text.lines().count() <= 150);
}

/// A row that is separated from its table would be shown as text.
#[test]
fn every_row_belongs_to_a_table_with_a_head() {
    let docs = std::fs::read_dir(workspace().join("docs")).unwrap();
    let pages = docs.map(|entry| entry.unwrap().path());
    let readme = workspace().join("README.md");
    for page in pages.chain([readme]).filter(|path| path.is_file()) {
        let text = std::fs::read_to_string(&page).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let is_row = line.starts_with('|');
            let begins = is_row && (at == 0 || !lines[at - 1].starts_with('|'));
            let below = lines.get(at + 1).copied().unwrap_or_default();
            assert!(
                !begins || below.starts_with("|---"),
                "{page:?}, line {}: a row without a table",
                at + 1
            );
        }
    }
}

#[test]
fn the_output_in_the_readme_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let sample = |args: &[&str]| {
        let status = in_folder(folder.path()).arg("sample").args(args).output();
        assert!(status.unwrap().status.success());
    };
    sample(&["traffic.pcap"]);
    std::fs::create_dir(folder.path().join("rotated")).unwrap();
    for seed in ["1", "2", "3"] {
        let path = format!("rotated/{seed}.pcap");
        sample(&[&path, "--packets", "20000", "--seed", seed]);
    }
    let at = format!("127.0.0.1:{}", free_port());
    let mut serving = in_folder(folder.path());
    serving
        .args(["replay", "traffic.pcap", "--serve", "--listen", &at])
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut running = Running::start(&mut serving);
    running.wait_for_line("all packets replayed");
    for page in PAGES {
        assert!(examples(page).len() >= 2, "{page}");
    }
    for (words, shown) in PAGES.into_iter().flat_map(examples) {
        let mut command = in_folder(folder.path());
        // Quotes are removed as a shell does.
        command.args(words.iter().map(|word| word.trim_matches('\'')));
        if words[0] != "replay" {
            command.args(["--agent", &at]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        let printed = String::from_utf8(output.stdout).unwrap();
        // The page may omit lines, and the elapsed time differs.
        let mut lines = printed.lines();
        let same = |line: &&String| line.trim() != "…" && !line.starts_with("read in");
        for line in shown.iter().filter(same) {
            assert!(
                lines.any(|printed| printed == line),
                "{words:?} does not print, in this order:\n{line}\nbut\n{printed}"
            );
        }
    }
}
