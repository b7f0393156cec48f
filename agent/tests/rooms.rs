//! The allowed dependencies between the folders of `src`. They have no cycle, so that
//! each folder can be understood without those that use it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Largest number of files directly in `src`.
const FLAT_FILES: usize = 8;
/// Largest number of files in a folder, including its subfolders.
const FOLDER_FILES: usize = 25;

/// Every folder and the folders that it may use. Files directly in `src` combine them and
/// are not listed.
const ALLOWED: [(&str, &[&str]); 21] = [
    ("text", &[]),
    ("lookup", &["text"]),
    ("traffic", &["lookup", "text"]),
    ("config", &["lookup", "text", "traffic"]),
    ("process", &["text", "traffic"]),
    ("decode", &["config", "traffic"]),
    ("filter", &["config", "decode", "traffic"]),
    ("file", &["process", "traffic"]),
    ("sketches", &["config", "traffic"]),
    ("saved", &["config", "process", "sketches", "traffic"]),
    (
        "window",
        &[
            "config", "lookup", "process", "saved", "sketches", "text", "traffic",
        ],
    ),
    ("export", &["process", "text", "traffic", "window"]),
    ("lines", &["config", "process", "traffic", "window"]),
    (
        "ring",
        &[
            "config", "lookup", "process", "saved", "sketches", "text", "traffic", "window",
        ],
    ),
    (
        "capture",
        &[
            "config", "decode", "filter", "process", "ring", "sketches", "traffic", "window",
        ],
    ),
    (
        "replay",
        &[
            "capture", "config", "file", "filter", "process", "ring", "traffic", "window",
        ],
    ),
    (
        "http",
        &[
            "config", "export", "lines", "lookup", "process", "ring", "sketches", "text",
            "traffic", "window",
        ],
    ),
    (
        "cli",
        &[
            "config", "filter", "lines", "process", "replay", "sketches", "traffic",
        ],
    ),
    (
        "report",
        &["lines", "lookup", "sketches", "text", "traffic", "window"],
    ),
    (
        "top",
        &[
            "http", "lookup", "process", "report", "text", "traffic", "window",
        ],
    ),
    (
        "commands",
        &[
            "capture", "cli", "config", "export", "file", "filter", "http", "lines", "lookup",
            "process", "replay", "report", "ring", "saved", "sketches", "text", "top", "traffic",
            "window",
        ],
    ),
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        })
        .collect()
}

/// The folders that a file names after `crate::`.
fn used_folders(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
    let named = text.split("crate::").skip(1).flat_map(move |rest| {
        let end = match rest.starts_with('{') {
            true => rest.find('}').unwrap(),
            false => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        };
        rest[..end].split(move |c| !is_word(c))
    });
    let is_folder = |name: &&str| ALLOWED.iter().any(|(folder, _)| folder == name);
    named.filter(is_folder).collect()
}

#[test]
fn folders_use_only_those_that_are_allowed() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in files(&src) {
        let inside = path.strip_prefix(&src).unwrap();
        let folder = inside.iter().next().unwrap().to_str().unwrap();
        if folder.ends_with(".rs") {
            continue;
        }
        let allowed = ALLOWED.iter().find(|(name, _)| *name == folder);
        let allowed = allowed.map_or(&[][..], |(_, allowed)| allowed);
        let text = std::fs::read_to_string(&path).unwrap();
        for used in used_folders(&text) {
            assert!(
                used == folder || allowed.contains(&used),
                "{} uses {used}, which {folder} may not use",
                inside.display()
            );
        }
    }
}

#[test]
fn dependencies_have_no_cycle() {
    // A folder is done if it uses only folders that are done. Without a cycle, all are
    // done in the end.
    let mut done = BTreeSet::new();
    for _ in ALLOWED {
        for (folder, uses) in ALLOWED {
            if uses.iter().all(|used| done.contains(used)) {
                done.insert(folder);
            }
        }
    }
    assert_eq!(done.len(), ALLOWED.len(), "only {done:?} have no cycle");
}

#[test]
fn folders_stay_small() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = std::fs::read_dir(&src).unwrap();
    let (folders, flat): (Vec<PathBuf>, Vec<PathBuf>) = entries
        .map(|entry| entry.unwrap().path())
        .partition(|path| path.is_dir());
    assert!(flat.len() <= FLAT_FILES, "{} files in src", flat.len());
    for folder in folders {
        let count = files(&folder).len();
        assert!(
            count <= FOLDER_FILES,
            "{count} files in {}",
            folder.display()
        );
    }
}
