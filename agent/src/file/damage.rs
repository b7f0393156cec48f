//! The reasons why a capture file cannot be read further.

use std::fmt;
use std::io;

/// Why a file cannot be read further. The position is added by the reader of the file.
#[derive(Debug)]
pub enum Damage {
    /// An error of the operating system.
    Io(io::Error),
    /// The first bytes are not those of a capture.
    NotACapture,
    /// The file has another known format. Names it and says how to convert it.
    Foreign(&'static str),
    /// The version of the format is not supported.
    Version(u16, u16),
    /// The file ends inside a record.
    CutOff,
    /// A record with impossible content.
    Corrupt(String),
}

impl From<io::Error> for Damage {
    /// Decompressors report damaged content as I/O errors, too. Only errors of the
    /// operating system have an error number.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            _ if error.raw_os_error().is_some() => Self::Io(error),
            io::ErrorKind::UnexpectedEof => Self::CutOff,
            _ => Self::Corrupt(error.to_string()),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => {
                f.write_str("no such file")
            }
            Self::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "cannot be read: {error}: only its owner or root may")
            }
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::NotACapture => f.write_str(
                "not a capture file (pcap or pcapng), as `tcpdump -w` or Wireshark write it",
            ),
            Self::Foreign(what) => f.write_str(what),
            Self::Version(major, minor) => {
                write!(f, "version {major}.{minor} of the format is not known")
            }
            Self::CutOff => f.write_str("the file is cut off"),
            Self::Corrupt(what) => write!(f, "the file is corrupt: {what}"),
        }
    }
}
