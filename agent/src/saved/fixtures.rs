//! Saved windows and keys of every version, in `agent/tests/states`: those of this version load,
//! those of other versions are refused with their number. See `model/tests/states.rs`, which has
//! the formats of the sketches; `GOLDEN=write cargo test -p crane-agent --lib saved` writes missing
//! files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crane_model::Secret;

use super::folder::{Folder, key_file, key_in};
use super::settings::Settings;
use super::tests::{Made, NODE};
use super::window::{Head, SavedWindow, Unusable};
use crate::config::Config;
use crate::config::size::Size;
use crate::sketches::fans::Direction;
use crate::traffic::edge::Pair;
use crate::traffic::protocol::Protocol;
use crate::traffic::service::Service;

const TABLES: &str = "window-w02-tables.bin";
const LAYERED: &str = "window-w02-layered.bin";
const KEY: &str = "key-y01.bin";

/// Public, as the fixtures are.
const SECRET: [u8; 16] = *b"public test key.";

const INTERFACE: &str = "eth0";
/// What this version writes, with the number of pairs.
const WINDOWS: [(&str, u32); 2] = [(TABLES, 30), (LAYERED, 1500)];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/states")
}

/// The content of a file. With `GOLDEN=write` a missing one is written.
fn fixture(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    let write = std::env::var_os("GOLDEN").is_some_and(|value| value == "write");
    if write && !path.exists() {
        let pairs = WINDOWS.iter().find(|(window, _)| *window == name);
        let made = pairs.map_or_else(|| key_file(&SECRET), |(_, pairs)| window(name, *pairs));
        fs::write(&path, made).unwrap();
    }
    fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A file with layers takes all its memory, one with tables does not.
fn config(name: &str) -> Config {
    let mut config = Config::default();
    config.sketch.memory = Size(if name == LAYERED { 64 << 10 } else { 256 << 10 });
    config.sketch.node_percent = 31;
    config
}

fn settings(name: &str) -> Settings {
    Settings::of(
        &config(name),
        &Secret::new(SECRET),
        "weights of the fixtures",
    )
}

fn made(name: &str) -> Made {
    Made::of(&config(name).sketch, Secret::new(SECRET))
}

fn packets(pairs: u32) -> u64 {
    (0..pairs).map(|n| u64::from(1 + n % 4)).sum()
}

/// A file with a window that ends in the year 2097.
fn window(name: &str, pairs: u32) -> Vec<u8> {
    let made = made(name);
    let mut sketches = made.empty();
    made.fill(&mut sketches, pairs);
    let body = sketches.save().unwrap();
    let saved = SavedWindow {
        interface: INTERFACE.into(),
        number: 7,
        start: (1 << 60) - 10,
        saved: 1 << 60,
        lasted: 10,
        left: 5 << 59,
        unseen: 3,
        packets: packets(pairs),
        bytes: 100 * packets(pairs),
        unsampled: 0,
    };
    let head = saved.head(&settings(name), &body);
    [head, body].concat()
}

/// A state directory with a key and the window of this file.
fn directory(window: &str, key: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (file, content) in [("eth0.window", window), ("key", key)] {
        let file = directory.path().join(file);
        fs::write(&file, fixture(content)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    directory
}

#[test]
fn windows_of_this_version_are_resumed_with_their_answers() {
    for (name, pairs) in WINDOWS {
        let directory = directory(name, KEY);
        let mut state = Folder::open(directory.path()).unwrap();
        assert!(state.key().unwrap().secret == Secret::new(SECRET));
        state.scan(settings(name)).unwrap();
        let mut sketches = made(name).empty();
        let mut resumed = None;
        state.resume(INTERFACE, |window, body| {
            sketches.load(body)?;
            assert!(sketches.save()? == body, "{name}");
            resumed = Some(window.clone());
            Ok(())
        });
        let resumed = resumed.unwrap_or_else(|| panic!("{name} was not resumed"));
        assert_eq!((resumed.number, resumed.unseen), (7, 3));
        assert_eq!(resumed.packets, packets(pairs));
        assert_eq!(sketches.is_exact(), name == TABLES);
        for n in (1..pairs).step_by(3) {
            let pair = sketches.pair(Pair::V4(NODE, n.into())).unwrap().packets;
            let counted = u64::from(1 + n % 4);
            assert!(pair.at_least <= Some(counted) && pair.at_most >= Some(counted));
            assert!(name == LAYERED || pair.is_exact());
        }
        let sent = sketches.address(NODE.into(), Direction::Out).unwrap();
        let counted = (1..pairs).step_by(3).map(|n| u64::from(1 + n % 4)).sum();
        assert!(sent.packets.at_least <= Some(counted) && sent.packets.at_most >= Some(counted));
        let peers = sketches.peers(NODE.into(), Direction::Out);
        assert!(
            (peers.low..=peers.high).contains(&u64::from(pairs / 3)),
            "{peers:?}"
        );
        let service = sketches.main_service(&[Pair::V4(NODE, 1.into())]);
        let stored = Service::between(Protocol::Tcp, 1, u16::MAX);
        assert!(name == LAYERED || service == Some(stored), "{service:?}");
    }
}

#[test]
fn windows_of_other_versions_are_refused_with_their_version() {
    let mut versions = Vec::new();
    for file in fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(version) = name
            .strip_prefix("window-w")
            .map(|rest| rest[..2].to_owned())
        else {
            continue;
        };
        let start = fixture(&name)[..8].to_vec();
        assert_eq!(start, format!("CRANEw{version}").into_bytes(), "{name}");
        if WINDOWS.iter().any(|(current, _)| *current == name) {
            continue;
        }
        let reason = Head::read(&fixture(&name)).unwrap_err();
        let why = format!("its format is version {version}; this program reads ");
        assert!(matches!(reason, Unusable::Foreign(reason) if reason.starts_with(&why)));
        let directory = directory(&name, KEY);
        let mut state = Folder::open(directory.path()).unwrap();
        state.key().unwrap();
        state.scan(settings(&name)).unwrap();
        assert!(directory.path().join("eth0.window.foreign").exists());
        versions.push(version);
    }
    assert!(!versions.is_empty());
}

#[test]
fn a_key_of_another_version_is_refused_with_its_version_and_set_aside() {
    assert_eq!(key_in(&fixture(KEY)), Ok(SECRET));
    let older = "key-y00.bin";
    let why = key_in(&fixture(older)).unwrap_err();
    assert_eq!(why, "its format is version 00; this program reads 01");
    let directory = directory(TABLES, older);
    let key = Folder::open(directory.path()).unwrap().key().unwrap();
    assert!(key.secret != Secret::new(SECRET));
    let aside = fs::read(directory.path().join("key.bad")).unwrap();
    assert_eq!(aside, fixture(older));
}

#[test]
fn files_that_break_off_anywhere_are_refused() {
    for (name, _) in WINDOWS {
        let file = fixture(name);
        let head = Head::read(&file).unwrap();
        for cut in 0..head.length {
            assert!(matches!(Head::read(&file[..cut]), Err(Unusable::Bad(_))));
        }
        let body = &file[head.length..];
        assert!(head.matches(body));
        // As if someone had corrected the checksum of a file that breaks off.
        let mut sketches = made(name).empty();
        for cut in (0..body.len()).filter(|cut| *cut < 300 || cut % 97 == 0) {
            assert!(!head.matches(&body[..cut]));
            assert!(sketches.load(&body[..cut]).is_err(), "{name}: {cut} bytes");
        }
    }
    let key = fixture(KEY);
    assert!((0..key.len()).all(|cut| key_in(&key[..cut]).is_err()));
}
