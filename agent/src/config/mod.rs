//! What can be configured. `agent/crane-agent.toml` documents every key;
//! [`read`] says how a configuration comes about and what is wrong with it.

mod changes;
pub mod demands;
pub mod length;
mod names;
pub mod pattern;
mod places;
mod read;
pub mod size;
pub mod small_file;
pub mod values;
mod variables;
pub mod web;
mod yaml;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use crane_model::DeviceChoice;
use serde::Deserialize;

use crate::edge::Pair;
use crate::names::Names;

use length::WindowLength;
pub use names::NamedPrefix;
use pattern::Pattern;
pub use places::Places;
pub use read::{ConfigError, Loaded};
use size::Size;

/// Everything that can be configured.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// A file with names of networks.
    pub names_file: Option<PathBuf>,
    /// How many different names there may be.
    #[serde(deserialize_with = "values::in_range::<_, usize, 1, 255>")]
    pub names_limit: usize,
    /// `[[names]]`: names of networks.
    #[serde(deserialize_with = "values::named")]
    pub names: Vec<NamedPrefix>,
    /// All names, from here and from the file; none if there are none.
    #[serde(skip)]
    pub networks: Option<Arc<Names>>,
    /// What is captured and how.
    pub capture: Capture,
    /// Over which time it is summarised.
    pub window: Window,
    /// How it is summarised.
    pub sketch: Sketch,
    /// How it is published.
    pub export: Export,
    /// What outlives the agent.
    pub state: State,
}

/// `[capture]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Capture {
    /// Which interfaces; empty for all that are up.
    #[serde(deserialize_with = "values::patterns")]
    pub interfaces: Vec<Pattern>,
    /// Which of these not.
    #[serde(deserialize_with = "values::patterns")]
    pub exclude: Vec<Pattern>,
    /// A filter in tcpdump's language.
    pub filter: Option<String>,
    /// Bytes captured of each packet.
    #[serde(deserialize_with = "values::in_range::<_, u16, 64, 32767>")]
    pub snaplen: u16,
    /// Whether to see packets for others, too.
    #[serde(deserialize_with = "values::flag")]
    pub promiscuous: bool,
    /// One packet in this many is looked at.
    #[serde(deserialize_with = "values::in_range::<_, u32, 1, 1000000>")]
    pub sample: u32,
    /// Kernel buffers of all interfaces together.
    #[serde(deserialize_with = "values::size::<_, { 1 << 20 }, { 16 << 30 }>")]
    pub buffer_total: Size,
    /// Packets that fit the ring of an interface.
    #[serde(deserialize_with = "values::in_range::<_, usize, 1024, 16777216>")]
    pub ring_slots: usize,
    /// Whose addresses count when packets travel within packets.
    #[serde(deserialize_with = "values::decap")]
    pub decap: Decap,
    /// Whether IPv6 counts.
    #[serde(deserialize_with = "values::flag")]
    pub ipv6: bool,
    /// Which packets count.
    #[serde(deserialize_with = "values::direction")]
    pub direction: Direction,
}

/// `[window]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Window {
    /// How long a window is.
    #[serde(deserialize_with = "values::window_length")]
    pub length: WindowLength,
}

/// `[sketch]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Sketch {
    /// Which kind of sketch.
    #[serde(deserialize_with = "values::profile")]
    pub profile: Profile,
    /// Where the layers live.
    #[serde(deserialize_with = "values::device")]
    pub device: DeviceChoice,
    /// A weight file; none for the weights in the program.
    pub weights: Option<PathBuf>,
    /// Memory for one interface at most.
    #[serde(deserialize_with = "values::size::<_, { 128 << 10 }, { 1 << 30 }>")]
    pub memory: Size,
    /// Memory for all interfaces together.
    #[serde(deserialize_with = "values::size::<_, { 128 << 10 }, { 64 << 30 }>")]
    pub memory_total: Size,
    /// Share of the memory for sources and destinations, in percent.
    #[serde(deserialize_with = "values::in_range::<_, u8, 10, 90>")]
    pub node_percent: u8,
    /// Packets of a full batch.
    #[serde(deserialize_with = "values::in_range::<_, usize, 1, 65536>")]
    pub batch: usize,
    /// How long a packet waits for a full batch, in milliseconds.
    #[serde(deserialize_with = "values::in_range::<_, u64, 1, 10000>")]
    pub linger_ms: u64,
}

/// `[export]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Export {
    /// Addresses and ports of the HTTP server.
    #[serde(deserialize_with = "values::listen")]
    pub listen: Vec<SocketAddr>,
    /// A unix socket that serves the same.
    pub socket: Option<PathBuf>,
    /// A file that says how the addresses are protected.
    pub web_config: Option<PathBuf>,
    /// Names by which it may be asked over loopback, beside its own.
    #[serde(deserialize_with = "values::hosts")]
    pub hosts: Vec<String>,
    /// What is shown of addresses.
    #[serde(deserialize_with = "values::anonymise")]
    pub anonymise: Anonymise,
    /// Heavy hitters by packets and by bytes, each.
    #[serde(deserialize_with = "values::in_range::<_, usize, 1, 1000>")]
    pub top: usize,
    /// Pairs whose estimate is always exported.
    #[serde(deserialize_with = "values::watched")]
    pub watch: Vec<Watched>,
}

/// `[state]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// Where windows and the key are kept; none for where the service manager says, and
    /// empty for nowhere.
    pub directory: Option<PathBuf>,
    /// Pause between two saves.
    #[serde(deserialize_with = "values::window_length")]
    pub interval: WindowLength,
}

impl State {
    /// Where windows and the key are kept, if anywhere.
    pub fn folder(&self) -> Option<PathBuf> {
        let given = || {
            let all = std::env::var_os("STATE_DIRECTORY")?;
            std::env::split_paths(&all).next()
        };
        let folder = self.directory.clone().or_else(given)?;
        Some(folder).filter(|folder| !folder.as_os_str().is_empty())
    }
}

/// Whose addresses count when IP packets travel within IP packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decap {
    /// Those of the tunnel.
    #[default]
    Outer,
    /// Those of the innermost packet of VXLAN, GRE and IP-in-IP.
    Inner,
}

/// Which packets count, as seen from the machine that captures them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// All.
    #[default]
    Both,
    /// Those that came in.
    In,
    /// Those that went out.
    Out,
}

/// What metrics and answers show of addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anonymise {
    /// All.
    #[default]
    None,
    /// Their networks: /24 of IPv4, /48 of IPv6.
    Prefix,
    /// Pseudonyms that are others in every run.
    Keyed,
}

/// A kind of sketch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Dense layers, as in the paper.
    Paper,
    /// Narrow cells, for real traffic.
    Packed,
}

impl Profile {
    /// As the configuration has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Packed => "packed",
        }
    }
}

/// A pair of the watch list.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq)]
#[serde(try_from = "values::Ends")]
pub struct Watched(pub Pair);

impl Default for Config {
    fn default() -> Self {
        Self {
            names_file: None,
            names_limit: 64,
            names: Vec::new(),
            networks: None,
            capture: Capture::default(),
            window: Window::default(),
            sketch: Sketch::default(),
            export: Export::default(),
            state: State::default(),
        }
    }
}

impl Default for Capture {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            exclude: Vec::new(),
            filter: None,
            snaplen: 192,
            promiscuous: true,
            sample: 1,
            buffer_total: Size(128 << 20),
            ring_slots: 65536,
            decap: Decap::Outer,
            ipv6: true,
            direction: Direction::Both,
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self {
            length: WindowLength::seconds(60),
        }
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            profile: Profile::Packed,
            device: DeviceChoice::Auto,
            weights: None,
            memory: Size(2 << 20),
            memory_total: Size(256 << 20),
            node_percent: 50,
            batch: 4096,
            linger_ms: 100,
        }
    }
}

impl Sketch {
    /// How long a packet waits for a full batch.
    pub fn linger(&self) -> Duration {
        Duration::from_millis(self.linger_ms)
    }
}

impl Default for Export {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 9732))],
            socket: None,
            web_config: None,
            hosts: Vec::new(),
            anonymise: Anonymise::None,
            top: 10,
            watch: Vec::new(),
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            directory: None,
            interval: WindowLength::seconds(10),
        }
    }
}

impl Config {
    /// Refuses what is possible by itself but not together.
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
