//! Who may call whom: the arrows between the rooms of `src`. There is no way
//! round in them, so that each room can be understood without those that use it.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files that may lie flat in `src`.
const FLAT_FILES: usize = 8;
/// Files that a room may have, with its folders.
const ROOM_FILES: usize = 25;

/// Every room and the rooms it may use. What is not named here lies flat in
/// `src` and puts them together.
const ARROWS: [(&str, &[&str]); 21] = [
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

/// The rooms that a file names after `crate::`.
fn rooms(text: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
    let named = text.split("crate::").skip(1).flat_map(move |rest| {
        let end = match rest.starts_with('{') {
            true => rest.find('}').unwrap(),
            false => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        };
        rest[..end].split(move |c| !is_word(c))
    });
    let is_room = |name: &&str| ARROWS.iter().any(|(room, _)| room == name);
    named.filter(is_room).collect()
}

#[test]
fn rooms_use_only_those_that_are_drawn() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in files(&src) {
        let inside = path.strip_prefix(&src).unwrap();
        let room = inside.iter().next().unwrap().to_str().unwrap();
        if room.ends_with(".rs") {
            continue;
        }
        let allowed = ARROWS.iter().find(|(name, _)| *name == room);
        let allowed = allowed.map_or(&[][..], |(_, allowed)| allowed);
        let text = std::fs::read_to_string(&path).unwrap();
        for used in rooms(&text) {
            assert!(
                used == room || allowed.contains(&used),
                "{} uses {used}, which {room} does not know",
                inside.display()
            );
        }
    }
}

#[test]
fn there_is_no_way_round() {
    // Whoever uses only rooms that are done is done; in the end all are.
    let mut done = BTreeSet::new();
    for _ in ARROWS {
        for (room, uses) in ARROWS {
            if uses.iter().all(|used| done.contains(used)) {
                done.insert(room);
            }
        }
    }
    assert_eq!(done.len(), ARROWS.len(), "only {done:?} are on no circle");
}

#[test]
fn rooms_stay_small() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = std::fs::read_dir(&src).unwrap();
    let (rooms, flat): (Vec<PathBuf>, Vec<PathBuf>) = entries
        .map(|entry| entry.unwrap().path())
        .partition(|path| path.is_dir());
    assert!(flat.len() <= FLAT_FILES, "{} files in src", flat.len());
    for room in rooms {
        let count = files(&room).len();
        assert!(count <= ROOM_FILES, "{count} files in {}", room.display());
    }
}
