//! The configuration file.
//!
//! Unknown keys, wrong types and impossible values are errors that name the
//! file, the line, the key and what is allowed. `agent/crane-agent.toml`
//! documents every key.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crane_model::DeviceChoice;
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::decode;
use crate::size::Size;

/// Everything that can be configured.
#[derive(Debug, Clone, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What is captured and how.
    pub capture: Capture,
    /// How it is summarised.
    pub sketch: Sketch,
    /// How it is published.
    pub export: Export,
}

/// `[capture]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Capture {
    /// Names of interfaces; empty for all that are up.
    pub interfaces: Vec<String>,
    /// A filter in tcpdump's language.
    pub filter: Option<String>,
    /// Bytes captured of each packet.
    #[serde(deserialize_with = "in_range::<_, u16, 64, 32767>")]
    pub snaplen: u16,
    /// Whether to see packets for others, too.
    pub promiscuous: bool,
    /// Kernel buffers of all interfaces together.
    #[serde(deserialize_with = "from_text")]
    pub buffer_total: Size,
    /// Packets that fit the ring of an interface.
    #[serde(deserialize_with = "in_range::<_, usize, 1024, 16777216>")]
    pub ring_slots: usize,
    /// Whose addresses count when packets travel within packets.
    pub decap: decode::Decap,
    /// Whether IPv6 counts.
    pub ipv6: bool,
    /// Which packets count.
    pub direction: decode::Direction,
}

/// `[sketch]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Sketch {
    /// Where the layers live.
    #[serde(deserialize_with = "from_text")]
    pub device: DeviceChoice,
    /// A weight file; none for the weights in the program.
    pub weights: Option<PathBuf>,
    /// Layers at most.
    #[serde(deserialize_with = "in_range::<_, usize, 1, 4>")]
    pub max_layers: usize,
    /// Entries of the crown.
    #[serde(deserialize_with = "in_range::<_, usize, 16, 1048576>")]
    pub crown_entries: usize,
    /// Packets of a full batch.
    #[serde(deserialize_with = "in_range::<_, usize, 1, 65536>")]
    pub batch: usize,
    /// How long a packet waits for a full batch, in milliseconds.
    #[serde(deserialize_with = "in_range::<_, u64, 1, 10000>")]
    pub linger_ms: u64,
}

/// `[export]`
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Export {
    /// Address and port of the HTTP server.
    #[serde(deserialize_with = "from_text")]
    pub listen: SocketAddr,
    /// Heavy hitters by packets and by bytes, each.
    #[serde(deserialize_with = "in_range::<_, usize, 1, 1000>")]
    pub top: usize,
}

impl Default for Capture {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            filter: None,
            snaplen: 192,
            promiscuous: true,
            buffer_total: Size(128 << 20),
            ring_slots: 65536,
            decap: decode::Decap::Outer,
            ipv6: true,
            direction: decode::Direction::Both,
        }
    }
}

impl Capture {
    /// What to make of a packet.
    pub fn decode(&self) -> decode::Options {
        decode::Options {
            decap: self.decap,
            ipv6: self.ipv6,
            direction: self.direction,
        }
    }
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Auto,
            weights: None,
            max_layers: 4,
            crown_entries: 1024,
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
            listen: SocketAddr::from(([127, 0, 0, 1], 9732)),
            top: 10,
        }
    }
}

/// A configuration that cannot be used; ends the program with exit code 78.
#[derive(Debug)]
pub struct ConfigError {
    path: PathBuf,
    line: Option<usize>,
    message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let fault = |line, message| ConfigError {
            path: path.into(),
            line,
            message,
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| fault(None, format!("cannot be read: {error}")))?;
        toml::from_str(&text).map_err(|error| {
            let line = error
                .span()
                .map(|span| 1 + text[..span.start].matches('\n').count());
            let written = error
                .span()
                .and_then(|span| text.get(span))
                .unwrap_or_default();
            let mut message = error.message().replace('\n', ", ");
            if !written.is_empty() && !written.contains('\n') && !message.contains(written) {
                message = format!("{written}: {message}");
            }
            fault(line, message)
        })
    }
}

/// A whole number from MIN to MAX.
fn in_range<'de, D, T, const MIN: i64, const MAX: i64>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let value = i64::deserialize(input)?;
    let fits = (MIN..=MAX).contains(&value).then_some(value);
    fits.and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| {
            D::Error::custom(format!(
                "{value} is not possible, allowed is {MIN} to {MAX}"
            ))
        })
}

/// Anything that is written as a string.
fn from_text<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = String::deserialize(input)?;
    text.parse()
        .map_err(|error| D::Error::custom(format!("{text:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path())
    }

    #[test]
    fn an_empty_file_is_the_default_and_so_is_the_example() {
        assert_eq!(read("").unwrap(), Config::default());
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("crane-agent.toml");
        assert_eq!(Config::read(&example).unwrap(), Config::default());
    }

    #[test]
    fn errors_name_line_value_and_what_is_allowed() {
        let cases = [
            ("[capture]\nsnaplne = 3\n", "line 2", "snaplne", "snaplen"),
            ("[sketch]\n\nbatch = 0\n", "line 3", "0", "1 to 65536"),
            (
                "[sketch]\ndevice = \"gpu\"\n",
                "line 2",
                "gpu",
                "cpu-tensor",
            ),
            ("[export]\nlisten = \"here\"\n", "line 2", "here", "invalid"),
            ("[export]\ntop = \"ten\"\n", "line 2", "ten", "expected"),
            (
                "[capture]\nbuffer_total = \"much\"\n",
                "line 2",
                "much",
                "64KiB",
            ),
            (
                "[capture]\ndecap = \"both\"\n",
                "line 2",
                "both",
                "`outer` or `inner`",
            ),
            ("[capture\n", "line 1", "", ""),
        ];
        for (text, line, value, allowed) in cases {
            let error = read(text).unwrap_err().to_string();
            for part in [line, value, allowed] {
                assert!(error.contains(part), "{error:?} does not say {part:?}");
            }
            assert!(!error.contains('\n'), "one line: {error:?}");
        }
    }
}
