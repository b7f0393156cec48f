//! Tests that the commented file and the table of reloads say what [`keys`] declares, and writes
//! them: `GOLDEN=write cargo test -p crane-agent --lib config`.

use std::path::{Path, PathBuf};

use toml::Table;

use super::read::read;
use super::section::Key;
use super::{Config, Reload, keys};

/// The beginning of the commented file.
const HEAD: &str = "\
# Configuration of crane-agent. Every key is shown with its default; a key that
# is left out has that value. Check a file with: crane-agent check-config FILE
# A running agent reads it again on SIGHUP: systemctl reload crane-agent
#
# Every key can also be set by a variable CRANE_SECTION_KEY, which wins over
# this file: CRANE_CAPTURE_SNAPLEN=128, CRANE_WINDOW_LENGTH=10s. Flags win over
# both.

";
const TABLE: &str = "| key | effect of a reload |\n|---|---|\n";

fn path(in_workspace: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(in_workspace)
}

/// Compares a file with what it should be, or writes it.
fn check(path: &Path, expected: &str) {
    if std::env::var_os("GOLDEN").is_some_and(|golden| golden == "write") {
        std::fs::write(path, expected).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        written,
        expected,
        "{}: write it with GOLDEN=write",
        path.display()
    );
}

/// The commented file: all keys with their defaults.
fn commented_file() -> String {
    let comment = |lines: &[&str]| -> String {
        let lines = lines.iter().map(|line| format!("#{line}\n"));
        lines.collect()
    };
    let defaults = Table::try_from(Config::default()).unwrap();
    let mut text = HEAD.to_owned();
    let mut before = "";
    for key in keys() {
        let (section, name) = key.parts();
        if section != before {
            text += &format!("\n[{section}]\n");
            before = section;
        }
        text += &comment(key.comment);
        if let Some(example) = key.example {
            text += &format!("# {name} = {example}\n");
        }
        let values = match section {
            "" => &defaults,
            section => defaults[section].as_table().unwrap(),
        };
        if let Some(value) = values.get(name) {
            text += &format!("{name} = {value}\n");
        }
    }
    text
}

/// Describes for users what a reload does.
fn effect(reload: Reload) -> &'static str {
    match reload {
        Reload::Interfaces => {
            "interfaces that match now are captured, others are closed; those that stay are not \
             touched"
        }
        Reload::Captures => {
            "captures are opened again; the time stamps of packets decide which of the two counts \
             a packet, so none is lost or counted twice; the window continues"
        }
        Reload::Ring => "packets go through a new ring; the window continues",
        Reload::Packets => "applied to the next packets",
        Reload::Window => {
            "the current window of each interface ends early and becomes the last complete one; \
             the next begins at once. No packet is lost. Until that one ends, sketches of both \
             kinds are in memory"
        }
        Reload::Names => {
            "counters between names that stay continue; those of a removed name vanish. The same \
             for entries of `[[names]]`"
        }
        Reload::View => "shown at once; `keyed` creates a key only if it was not `keyed` before",
        Reload::Databases => {
            "the files are read again, whether their names have changed or not; what they hold is \
             shown at once, also for the last complete window. A file that is missing, damaged, \
             too large or of another kind is a mistake: everything stays as it was"
        }
        Reload::HostNames => {
            "applied to the next answers; names that are known stay known while the name servers \
             are the same"
        }
        Reload::Lines => {
            "the new file is opened first; windows that have ended before are written to the \
             previous file, later ones to the new one"
        }
        Reload::Listeners => {
            "new ones are bound first, then old ones are closed; those that stay are never closed. \
             The right to ports below 1024 is given up after the start: a new one of these needs a \
             restart, or `--keep-privileges`"
        }
        Reload::Protection => {
            "protects all addresses from the next connection on. Only a reload can lower the \
             [protection](#protection), by a file that says so explicitly or by removing the key. \
             Without a reload, the file and its certificates are read again when they change"
        }
        Reload::Requests => "applied to the next connection",
        Reload::Saving => "applied at once",
        Reload::Restart => "**needs a restart**, as a warning says; the rest is applied",
    }
}

/// A row of the table for each effect, in the order of the first key.
fn reload_table() -> String {
    let mut table = TABLE.to_owned();
    let mut shown: Vec<Reload> = Vec::new();
    for key in keys() {
        if !shown.contains(&key.reload) {
            shown.push(key.reload);
            let alike: Vec<&Key> = keys().filter(|other| other.reload == key.reload).collect();
            let mut section = "";
            let names = alike.iter().map(|key| {
                let is_same = std::mem::replace(&mut section, key.parts().0) == section;
                format!("`{}`", if is_same { key.parts().1 } else { key.path() })
            });
            let names: Vec<String> = names.collect();
            table += &format!("| {} | {} |\n", names.join(", "), effect(key.reload));
        }
    }
    table
}

#[test]
fn the_commented_file_has_every_key_with_its_default() {
    let file = path("agent/crane-agent.toml");
    check(&file, &commented_file());
    assert_eq!(read(&file).unwrap().0, Config::default());
}

#[test]
fn the_reference_describes_the_effect_of_a_reload_on_every_key() {
    let file = path("docs/reference.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let start = text.find(TABLE).unwrap();
    let length = text[start..].find("\n\n").unwrap() + 1;
    let (before, after) = (&text[..start], &text[start + length..]);
    check(&file, &[before, &reload_table(), after].concat());
}
