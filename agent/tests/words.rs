//! Internal terms of the design are not in texts that users read.
#![allow(clippy::unwrap_used)]

mod common;

use common::{agent, workspace};

/// Internal terms that users do not understand.
const INTERNAL: [&str; 5] = ["crown", "books", "goes round", "added on the way", "by lot"];

/// Whether a text has these words one after the other, across lines as well.
fn has(text: &str, words: &str) -> bool {
    let letter = |c: char| !c.is_alphanumeric();
    let all: Vec<String> = text.split(letter).map(str::to_lowercase).collect();
    let all: Vec<&String> = all.iter().filter(|word| !word.is_empty()).collect();
    let words: Vec<&str> = words.split(' ').collect();
    all.windows(words.len())
        .any(|here| here.iter().zip(&words).all(|(a, b)| a == b))
}

/// What the agent prints with these arguments.
fn printed(args: &[&str]) -> String {
    String::from_utf8(agent(args).stdout).unwrap()
}

/// All texts that users read, each with its source.
fn texts() -> Vec<(String, String)> {
    let help = printed(&["help"]);
    let list = help.split("Commands:").nth(1).unwrap();
    let list = list.split("Options:").next().unwrap();
    // Descriptions that are longer than a line are indented further.
    let commands = list.lines().filter_map(|line| line.strip_prefix("  "));
    let commands = commands.filter(|line| !line.starts_with(' '));
    let commands: Vec<&str> = commands
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() >= 10, "{commands:?}");
    let mut texts = vec![
        ("--help".to_owned(), printed(&["--help"])),
        ("man".to_owned(), printed(&["man"])),
    ];
    for command in commands.into_iter().filter(|name| *name != "help") {
        for args in [[command, "--help"], [command, "-h"], ["man", command]] {
            texts.push((args.join(" "), printed(&args)));
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        texts.push((shell.to_owned(), printed(&["completions", shell])));
    }
    for file in [
        "README.md",
        "CHANGELOG.md",
        "docs/speed.md",
        "docs/reference.md",
        "docs/operations.md",
        "docs/replay.md",
        "docs/questions.md",
        "agent/crane-agent.toml",
        "agent/tests/golden/metrics.txt",
        "agent/tests/golden/clients.txt",
        "agent/tests/golden/replay.json",
        "agent/tests/golden/api.json",
        "agent/page/index.html",
        "agent/page/keys.js",
        "agent/page/main.js",
        "agent/page/numbers.js",
        "agent/page/search.js",
        "agent/page/sketch.js",
        "dashboards/fleet.json",
        "dashboards/graph.json",
        "dashboards/heavy-hitters.json",
        "dashboards/overview.json",
        "dashboards/sketch.json",
        "dashboards/rules/agent.yml",
        "dashboards/rules/capture.yml",
        "dashboards/rules/sketch.yml",
        "dashboards/rules/traffic.yml",
        "systemd/crane-agent.service",
    ] {
        let text = std::fs::read_to_string(workspace().join(file)).unwrap();
        texts.push((file.to_owned(), text));
    }
    texts
}

#[test]
fn internal_terms_are_in_no_text_for_users() {
    for (source, text) in texts() {
        assert!(text.len() > 100, "{source}: {text}");
        for words in INTERNAL {
            assert!(!has(&text, words), "{source} says \"{words}\"");
        }
    }
}

/// Log and error messages are strings in the sources. Comments are not checked.
#[test]
fn internal_terms_are_in_no_string_of_the_agent() {
    let mut folders = vec![workspace().join("agent/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let code = code.collect::<Vec<_>>().join("\n");
            // Text between two quotes is a string or the code between two strings. The
            // code has none of these words either, apart from the name of the module.
            for part in code.split('"') {
                for words in INTERNAL.iter().filter(|words| has(part, words)) {
                    let named = *words == "crown" && !part.contains(' ')
                        || part.contains("crown:")
                        || part.contains("::crown::");
                    assert!(named, "{}: \"{words}\" in {part}", path.display());
                }
            }
        }
    }
}

#[test]
fn words_are_found_across_lines() {
    assert!(has("It goes\n# round.", "goes round"));
    assert!(has("The CROWN:", "crown"));
    assert!(!has("bookshelf, crowned, by lots", "by lot"));
}

#[test]
fn every_metric_is_in_the_reference() {
    let read = |file: &str| std::fs::read_to_string(workspace().join(file)).unwrap();
    let reference = read("docs/reference.md");
    let metrics = read("agent/tests/golden/metrics.txt");
    let helps = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP "));
    let names = helps.filter_map(|help| help.split(' ').next());
    for name in names.filter(|name| name.starts_with("crane_")) {
        assert!(reference.contains(&format!("`{name}`")), "{name}");
    }
}
