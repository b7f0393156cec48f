//! Helpers of the tests of saved windows: an agent with a state directory, and its files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::net::{AGENT_PORT, Cable, fetch};
use super::{AGENT, Running, eventually, series};

pub const START: &str = "crane_window_start_timestamp_seconds";

/// Starts an agent on the cable that saves its windows in `folder`, with these variables.
pub fn start(cable: &Cable, folder: &Path, variables: &[(&str, &str)]) -> Running {
    let mut command = Cable::command(&cable.left, AGENT);
    command.args(["run", "-i", "cable", "--state"]).arg(folder);
    command.envs(variables.iter().copied());
    Running::start(command.stderr(Stdio::piped()))
}

pub fn ready(agent: &mut Running) {
    agent.wait_for_line("metrics are at");
}

/// The value of a metric of the cable.
pub fn of(cable: &Cable, name: &str) -> Option<f64> {
    series(&cable.metrics(), name, &[("interface", "cable")])
}

/// Waits until the window has this number of packets.
pub fn packets(cable: &Cable, count: f64) {
    eventually("packets of the window", || {
        (of(cable, "crane_window_packets") == Some(count)).then_some(())
    });
}

pub fn ask(cable: &Cable, path: &str) -> String {
    fetch(Some(&cable.left), AGENT_PORT, path).unwrap()
}

/// The names of all files in a directory, sorted.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Waits until the window of the cable has been saved. Returns its file.
pub fn saved(folder: &Path) -> PathBuf {
    let file = folder.join("cable.window");
    eventually("a saved window", || file.exists().then_some(()));
    file
}
