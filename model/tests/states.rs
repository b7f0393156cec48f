//! Saved states of every version of every format, in `tests/states`: those of this version
//! load, those of other versions are refused with their number.
//!
//! A file is named after what it holds, and the letter and version in its first bytes. When a
//! version changes, rename the files in `CURRENT`:
//! `GOLDEN=write cargo test -p crane-model --test states` writes those that are missing. Files of
//! the old version stay as they are, or are cut to their first eight bytes.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crane_model::fan::{self, Fan, PeerBounds};
use crane_model::name::{AnyName, Narrow, Wide};
use crane_model::{
    Allowance, Arrival, Crane, DeviceChoice, Edge, Error, Hierarchy, HierarchySettings,
    PackedWeights, PaperWeights, Profile, Result, Secret, Sketch, Weighted, Writes,
    paper::executor::fused::Fused,
};

const TABLE: &str = "sketch-k07-table.bin";
const LAYERED: &str = "sketch-k07-layered.bin";
const PAPER: &str = "sketch-k07-paper.bin";
const PAIRS: &str = "fan-f02-pairs.bin";
const BITS: &str = "fan-f02-bits.bin";
const LAYERS: &str = "layers-p01.bin";

/// What this version writes.
const CURRENT: [&str; 6] = [TABLE, LAYERED, PAPER, PAIRS, BITS, LAYERS];

/// Edges in a table and in layers.
const FEW: u64 = 60;
const MANY: u64 = 1200;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/states")
}

/// The content of a file. With `GOLDEN=write` a missing one is written.
fn fixture(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    let write = std::env::var_os("GOLDEN").is_some_and(|value| value == "write");
    if write && !path.exists() {
        std::fs::write(&path, made(name)).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn secret() -> Secret {
    Secret::from_seed(7)
}

/// An empty sketch with the settings of the fixtures. Random weights do not change when weights
/// are trained again.
fn sketch(is_paper: bool) -> Crane {
    let device = DeviceChoice::Cpu.open().unwrap();
    let (profile, start, most) = if is_paper {
        let weights = Arc::new(PaperWeights::random(7, 1, Writes::Bottom));
        (
            Profile::paper(weights, &device).unwrap(),
            20 << 10,
            20 << 10,
        )
    } else {
        let weights = Arc::new(PackedWeights::built_in().unwrap());
        (Profile::packed(weights, &device), 4 << 10, 8 << 10)
    };
    let allowance = Allowance::alone(start, most);
    let crane = Crane::new(&Arc::new(profile), secret(), 3, allowance).unwrap();
    crane.with_sample()
}

/// Every fourth edge has a long name, every 50th is heavy. Returns name, packets, bytes.
fn edges(count: u64) -> impl Iterator<Item = (AnyName, u64, u64)> {
    (0..count).map(|n| {
        let name = match n % 4 {
            3 => AnyName::Wide([n, 1, !n, 2]),
            _ => AnyName::Narrow([n]),
        };
        let packets = if n % 50 == 0 { 2000 + n } else { 1 + n % 3 };
        (name, packets, 100 * packets + n)
    })
}

fn filled(is_paper: bool, count: u64) -> Crane {
    let mut crane = sketch(is_paper);
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    for (name, packets, bytes) in edges(count) {
        match name {
            AnyName::Narrow(name) => narrow.push(Arrival::new(&secret(), name, packets, bytes)),
            AnyName::Wide(name) => wide.push(Arrival::new(&secret(), name, packets, bytes)),
        }
    }
    crane.store(&narrow).unwrap();
    crane.store(&wide).unwrap();
    crane
}

fn empty_fan() -> Fan {
    Fan::growing(Allowance::alone(fan::LEAST, fan::LEAST), &secret()).unwrap()
}

/// Node 1 has 300 peers in bits and 40 among pairs, each other node has one.
fn peers(name: &str) -> u64 {
    if name == BITS { 300 } else { 40 }
}

fn filled_fan(name: &str) -> Fan {
    let (mut fan, peers) = (empty_fan(), peers(name));
    for peer in 0..4 * peers {
        let node = [if peer < peers { 1 } else { peer }];
        let pair = Edge::new(node[0] as u32, peer as u32).name();
        fan.record(&node, secret().id(&node), secret().id(&pair));
    }
    fan
}

fn hierarchy() -> Hierarchy<Fused> {
    let weights = Arc::new(PaperWeights::random(7, 1, Writes::Bottom));
    let settings = HierarchySettings::of(&weights);
    Hierarchy::new(Fused::new(Arc::clone(&weights)), weights, settings).unwrap()
}

/// Edges in layers of the paper profile with their packets.
fn weighted() -> Vec<Weighted> {
    let edge = |n: u32| Weighted::new(Edge::new(n, n ^ 0x55), u64::from(1 + n % 7));
    (0..40).map(edge).collect()
}

fn made(name: &str) -> Vec<u8> {
    match name {
        TABLE => filled(false, FEW).save_state().unwrap(),
        LAYERED => filled(false, MANY).save_state().unwrap(),
        PAPER => filled(true, MANY).save_state().unwrap(),
        PAIRS | BITS => filled_fan(name).save_state(),
        LAYERS => {
            let mut layers = hierarchy();
            layers.store(&weighted()).unwrap();
            layers.save_state().unwrap()
        }
        _ => panic!("{name} is of another version"),
    }
}

/// A reader of the states of one format.
enum Reader {
    Sketch(Box<Crane>),
    Fan(Fan),
    Layers(Hierarchy<Fused>),
}

impl Reader {
    /// For the format with the letter in the name of a file.
    fn of(name: &str) -> Self {
        match letter_and_version(name).0 {
            'k' => Self::Sketch(sketch(name == PAPER).into()),
            'f' => Self::Fan(empty_fan()),
            'p' => Self::Layers(hierarchy()),
            other => panic!("{name}: no format has the letter {other}"),
        }
    }

    fn load(&mut self, state: &[u8]) -> Result<()> {
        match self {
            Self::Sketch(sketch) => sketch.load_state(state),
            Self::Fan(fan) => fan.load_state(state),
            Self::Layers(layers) => layers.load_state(state),
        }
    }

    fn save(&self) -> Vec<u8> {
        match self {
            Self::Sketch(sketch) => sketch.save_state().unwrap(),
            Self::Fan(fan) => fan.save_state(),
            Self::Layers(layers) => layers.save_state().unwrap(),
        }
    }
}

/// Both as in the name of a file: `k` and `07` of `sketch-k07-table.bin`.
fn letter_and_version(name: &str) -> (char, &str) {
    let word = name.trim_end_matches(".bin").split('-').nth(1).unwrap();
    (word.chars().next().unwrap(), &word[1..])
}

/// All files except those in `CURRENT`.
fn older() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !CURRENT.contains(&&**name)).collect()
}

#[test]
fn states_of_this_version_load_and_are_saved_with_the_same_bytes() {
    for name in CURRENT {
        let state = fixture(name);
        let (letter, version) = letter_and_version(name);
        assert_eq!(state[..8], *format!("CRANE{letter}{version}").as_bytes());
        let mut reader = Reader::of(name);
        reader
            .load(&state)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(reader.save() == state, "{name}");
    }
}

#[test]
fn states_of_other_versions_are_refused_with_their_version() {
    let older = older();
    for letter in ['k', 'f', 'p'] {
        let mut all = older.iter().map(|name| letter_and_version(name).0);
        assert!(all.any(|other| other == letter), "no file for {letter}");
    }
    for name in older {
        let (letter, version) = letter_and_version(&name);
        let state = fixture(&name);
        assert!(state.starts_with(format!("CRANE{letter}{version}").as_bytes()));
        let error = Reader::of(&name).load(&state).unwrap_err();
        let why = format!("its format is version {version}; this program reads ");
        assert!(matches!(&error, Error::State(_)), "{name}: {error}");
        assert!(error.to_string().contains(&why), "{name}: {error}");
    }
}

#[test]
fn states_that_break_off_anywhere_are_refused_and_change_nothing() {
    for name in CURRENT.map(String::from).into_iter().chain(older()) {
        let state = fixture(&name);
        let mut reader = Reader::of(&name);
        let before = reader.save();
        for cut in 0..state.len() {
            assert!(reader.load(&state[..cut]).is_err(), "{name}: {cut} bytes");
        }
        assert!(reader.save() == before, "{name}");
    }
}

#[test]
fn a_state_of_no_format_is_not_taken_for_another_version() {
    for begin in [&b"CRANEkxx"[..], b"CRANEx07", b"crane007", b"", b"CRANEk0"] {
        for name in [TABLE, PAIRS, LAYERS] {
            let error = Reader::of(name).load(begin).unwrap_err().to_string();
            assert!(error.contains("does not start like"), "{error}");
        }
    }
}

#[test]
fn a_loaded_table_answers_exactly() {
    let mut table = sketch(false);
    table.load_state(&fixture(TABLE)).unwrap();
    assert!(table.is_exact());
    assert_eq!(table.distinct(), Some(FEW));
    assert_eq!(
        (
            table.names::<Narrow>().count(),
            table.names::<Wide>().count()
        ),
        (45, 15)
    );
    for (name, packets, bytes) in edges(FEW) {
        let (counted, size) = amounts(&table, name);
        assert!(counted.is_exact() && size.is_exact());
        assert_eq!(
            (counted.estimate, size.estimate),
            (packets, bytes),
            "{name:?}"
        );
    }
    assert_eq!(amounts(&table, AnyName::Narrow([FEW])).0.at_most, Some(0));
}

#[test]
fn loaded_layers_answer_within_their_bounds() {
    for name in [LAYERED, PAPER] {
        let mut layered = sketch(name == PAPER);
        layered.load_state(&fixture(name)).unwrap();
        assert!(!layered.is_exact());
        let total = layered.total();
        let packets: u64 = edges(MANY).map(|(_, packets, _)| packets).sum();
        let bytes: u64 = edges(MANY).map(|(.., bytes)| bytes).sum();
        assert_eq!(
            (total.packets.estimate, total.bytes.estimate),
            (packets, bytes)
        );
        for (edge, packets, _) in edges(MANY) {
            let counted = amounts(&layered, edge).0;
            let at_most = counted.at_most.unwrap_or(u64::MAX);
            assert!(counted.at_least.unwrap_or(0) <= packets, "{name}: {edge:?}");
            assert!(at_most >= packets, "{name}: {edge:?}");
            if packets >= 2000 {
                assert!(
                    (counted.low..=counted.high).contains(&packets),
                    "{name}: {edge:?}"
                );
                assert!(
                    counted.high - counted.low <= packets / 50,
                    "{name}: {edge:?}"
                );
                assert_eq!(counted.is_exact(), name == LAYERED);
            }
        }
    }
}

fn amounts(crane: &Crane, name: AnyName) -> (crane_model::Amount, crane_model::Amount) {
    match name {
        AnyName::Narrow(name) => {
            let flow = crane.flow(name).unwrap();
            (flow.packets, flow.bytes)
        }
        AnyName::Wide(name) => {
            let flow = crane.flow(name).unwrap();
            (flow.packets, flow.bytes)
        }
    }
}

#[test]
fn a_loaded_fan_has_the_numbers_of_peers() {
    for name in [PAIRS, BITS] {
        let mut fan = empty_fan();
        fan.load_state(&fixture(name)).unwrap();
        assert_eq!(fan.keeps_pairs(), name == PAIRS);
        let answer = fan.answer(secret().id(&[1]));
        assert!(
            (answer.low..=answer.high).contains(&peers(name)),
            "{answer:?}"
        );
        assert_eq!(answer.low == answer.high, name == PAIRS);
        let largest = fan.largest(1, Vec::new(), u64::MAX, |_| PeerBounds::UNBOUNDED);
        assert_eq!(largest.nodes[0].0, AnyName::Narrow([1]), "{name}");
    }
}

#[test]
fn loaded_layers_of_the_paper_profile_have_all_packets() {
    let mut layers = hierarchy();
    layers.load_state(&fixture(LAYERS)).unwrap();
    for Weighted { edge, weight } in weighted() {
        let ratios = layers.ratios(&[edge]).unwrap();
        let bound = layers.bound(&ratios[0]);
        assert!(
            bound > weight as f64 - 0.01,
            "{edge:?}: {bound} of {weight}"
        );
    }
    let unseen = layers.ratios(&[Edge::new(1 << 30, 3)]).unwrap();
    assert!(layers.bound(&unseen[0]) < 7.0);
}
