//! The configuration. [`keys`] declares every key, [`read`] reads files and variables and reports
//! errors.

mod changes;
#[cfg(test)]
mod declared;
pub mod demands;
mod key_locations;
mod keys;
pub mod length;
mod lookup;
mod names;
pub mod pattern;
mod read;
mod section;
pub mod size;
pub mod small_file;
pub mod values;
mod variables;
pub mod web;
mod yaml;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::traffic::edge::Pair;

pub use key_locations::KeyLocations;
pub use keys::{Capture, Config, Export, Lookup, Sketch, State, Window, keys};
pub use names::NamedNetwork;
pub use read::{ConfigError, Loaded};
pub use section::{Only, Reload};

impl State {
    /// Returns the directory for windows and the key, if there is one.
    pub fn folder(&self) -> Option<PathBuf> {
        let given = || {
            let all = std::env::var_os("STATE_DIRECTORY")?;
            std::env::split_paths(&all).next()
        };
        let folder = self.directory.clone().or_else(given)?;
        Some(folder).filter(|folder| !folder.as_os_str().is_empty())
    }
}

/// Which addresses of tunnelled packets count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decap {
    /// Those of the outermost packet.
    #[default]
    Outer,
    /// Those of the innermost packet of VXLAN, GRE and IP-in-IP.
    Inner,
}

/// Direction of packets that are captured, as seen from this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    #[default]
    Both,
    /// Incoming packets.
    In,
    /// Outgoing packets.
    Out,
}

/// What is shown instead of addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anonymise {
    /// Nothing: addresses are shown as they are.
    #[default]
    None,
    /// Networks: /24 of IPv4, /48 of IPv6.
    Prefix,
    /// Pseudonyms, which change with every start.
    Keyed,
}

/// A kind of sketch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Dense layers, as in the paper.
    Paper,
    /// Narrow cells, for real traffic.
    Packed,
}

impl Profile {
    /// Value in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Packed => "packed",
        }
    }
}

/// A pair of the watch list.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
#[serde(try_from = "values::WatchedPair", into = "values::WatchedPair")]
pub struct Watched(pub Pair);

impl Sketch {
    pub fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_ms)
    }
}

impl Export {
    /// The file for the lines of windows, if there is one.
    pub fn jsonl_file(&self) -> Option<&Path> {
        let path = self.jsonl.as_deref()?;
        (!path.as_os_str().is_empty()).then_some(path)
    }
}

impl Config {
    /// Checks combinations of values that are valid on their own.
    fn check(&self) -> Result<(), ConfigError> {
        let (memory, total) = (self.sketch.memory, self.sketch.memory_total);
        if memory > total {
            return Err(ConfigError::new(
                format_args!("sketch.memory = {memory}"),
                format_args!(
                    "more than for all interfaces together, sketch.memory_total = {total}"
                ),
            ));
        }
        Ok(())
    }
}
