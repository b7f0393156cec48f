//! Filters in the language of tcpdump: checks whether a filter can be compiled, and applies
//! it to packets of files as the kernel does for interfaces.
//!
//! A packet that a filter excludes is not part of the capture: it is not counted and does
//! not start a window.

mod bpf;

use std::fmt::Display;
use std::os::fd::AsRawFd;

use bpf::Program;
use pcap::{BpfProgram, Capture, Linktype, Offline};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::config::ConfigError;
use crate::traffic::packet::{Link, Packet};

const ETHERNET: i32 = 1;
/// Link types have numbers below this.
const MAX_LINK_TYPE: i32 = 320;

/// Why a filter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterError {
    /// It cannot be compiled for any link type. Holds the error of libpcap for Ethernet.
    Impossible(String),
    /// A host name in the filter cannot be resolved. A later attempt may succeed.
    Name(String),
}

impl FilterError {
    /// Classifies an error of libpcap.
    pub fn new(error: pcap::Error) -> Self {
        let reason = match error {
            pcap::Error::PcapError(reason) => reason,
            error => error.to_string(),
        };
        match reason.starts_with("unknown host") {
            true => Self::Name(reason),
            false => Self::Impossible(reason),
        }
    }

    /// The message of libpcap.
    pub fn reason(&self) -> &str {
        match self {
            Self::Impossible(reason) | Self::Name(reason) => reason,
        }
    }

    /// Returns a configuration error that names `place`. An unknown host name is an
    /// ordinary error, because it may be resolved at the next attempt.
    pub fn into_error(self, place: impl Display) -> anyhow::Error {
        match self {
            Self::Impossible(reason) => ConfigError::new(place, reason).into(),
            Self::Name(reason) => anyhow::anyhow!("{place}: {reason}"),
        }
    }
}

/// Returns an error if the filter cannot be compiled for any link type.
pub fn check(filter: &str) -> Result<(), FilterError> {
    match compile(ETHERNET, filter) {
        Ok(_) => Ok(()),
        Err(FilterError::Impossible(_))
            if (0..MAX_LINK_TYPE).any(|link| compile(link, filter).is_ok()) =>
        {
            Ok(())
        }
        // Resolving the host name again for other link types would only take time.
        Err(error) => Err(error),
    }
}

/// Parses a filter of the command line.
pub fn parse(filter: &str) -> Result<String, String> {
    let checked = check(filter).map_err(|error| {
        let why = error.reason();
        format!(
            "{why}; write it as for tcpdump, like 'host 10.0.0.1 and port 443' (pcap-filter(7))"
        )
    });
    checked.map(|()| filter.to_owned())
}

/// A filter for packets of files. It is compiled for each link type that occurs.
pub struct FileFilter {
    expression: String,
    programs: Vec<(Link, Program)>,
}

impl FileFilter {
    /// A filter that is compiled when the first packet of a link type arrives.
    pub fn new(expression: String) -> Self {
        Self {
            expression,
            programs: Vec::new(),
        }
    }

    /// Returns whether the filter accepts a packet, or an error if the filter cannot be
    /// compiled for its link type.
    #[inline]
    pub fn accepts(&mut self, packet: &Packet<'_>) -> Result<bool, String> {
        let known = self
            .programs
            .iter()
            .position(|(link, _)| *link == packet.link);
        let at = match known {
            Some(at) => at,
            None => {
                self.programs
                    .push((packet.link, self.compile(packet.link)?));
                self.programs.len() - 1
            }
        };
        let (program, wire_len) = (&self.programs[at].1, packet.wire_len);
        if let Some(data) = with_known_family(packet) {
            return Ok(program.matches(&data, wire_len));
        }
        Ok(program.matches(packet.data, wire_len))
    }

    fn compile(&self, link: Link) -> Result<Program, String> {
        let expression = &self.expression;
        let fault = |name: &str, why: &str| {
            let link = link.0;
            format!("filter {expression:?} is not possible for link type {link} ({name}): {why}")
        };
        let file = empty_file(link).map_err(|error| fault("not opened", &error.to_string()))?;
        let name = file.get_datalink().get_name();
        let name = name.unwrap_or_else(|_| "unknown to libpcap".into());
        let compiled = file.compile(expression, true);
        let compiled = compiled.map_err(|error| fault(&name, FilterError::new(error).reason()))?;
        Program::new(&compiled).ok_or_else(|| fault(&name, "libpcap gives no program for it"))
    }
}

/// Opens an empty capture file of this link type with libpcap.
///
/// libpcap compiles differently for files and for interfaces. For a file, IPv6 after a BSD
/// loopback header may have the number of any BSD instead of that of this machine, and
/// conditions that apply only to live packets, like the direction, are errors.
fn empty_file(link: Link) -> anyhow::Result<Capture<Offline>> {
    // Raw IP has several numbers. libpcap expects 101 in files.
    let number = match link.0 {
        12 | 14 => 101,
        other => other,
    };
    let mut head = 0xa1b2_c3d4u32.to_ne_bytes().to_vec();
    head.extend([2u16, 4].map(u16::to_ne_bytes).concat());
    head.extend([0, 0, 65535, number].map(u32::to_ne_bytes).concat());
    let file = memfd_create("filter", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&file, &head)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(Capture::from_file(path)?)
}

/// Converts the address family of a BSD loopback header to the form that libpcap expects:
/// in the byte order of this machine (link type 0), and with a BSD number for IPv6 if Linux
/// wrote it. Returns `None` if it already has that form.
fn with_known_family(packet: &Packet<'_>) -> Option<Vec<u8>> {
    /// Address family of IPv6 on Linux, and one of the three on BSD systems.
    const IPV6: (u32, u32) = (10, 30);
    let (head, rest) = packet.data.split_first_chunk::<4>()?;
    let family = match packet.link.0 {
        0 => u32::from_ne_bytes(*head),
        108 => u32::from_be_bytes(*head),
        _ => return None,
    };
    let mut known = family;
    if packet.link.0 == 0 {
        known = known.min(known.swap_bytes());
    }
    if known == IPV6.0 {
        known = IPV6.1;
    }
    if known == family {
        return None;
    }
    let head = match packet.link.0 {
        0 => known.to_ne_bytes(),
        _ => known.to_be_bytes(),
    };
    Some([&head, rest].concat())
}

/// Compiles a filter as for an interface.
fn compile(dlt: i32, filter: &str) -> Result<BpfProgram, FilterError> {
    let compiled = Capture::dead(Linktype(dlt)).and_then(|dead| dead.compile(filter, true));
    compiled.map_err(FilterError::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_refused_if_no_link_type_supports_it() {
        // The last two are only supported for 802.11 and PF logs.
        for filter in ["", "not port 22", "wlan type mgt", "rulenum 3"] {
            assert_eq!(check(filter), Ok(()), "{filter}");
        }
        for (filter, reason) in [
            ("hst x", "syntax error"),
            ("tcp or or", "syntax error"),
            ("net 10.0.0.1/99", "mask length"),
            ("port 99999", "port"),
            ("a\0b", "nul"),
        ] {
            let Err(FilterError::Impossible(said)) = check(filter) else {
                panic!("{filter}");
            };
            assert!(said.contains(reason), "{filter}: {said}");
        }
    }

    #[test]
    fn filters_are_compiled_for_each_link_type() {
        let ip = [&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0][..], &[10; 8]].concat();
        let framed = |link, head: &[u8]| (link, [head, &ip[..]].concat());
        let mut filter = FileFilter::new("udp".into());
        let mut other = FileFilter::new("tcp".into());
        for (link, data) in [
            framed(1, &[&[2; 12][..], &[8, 0]].concat()),
            framed(101, &[]),
            framed(14, &[]),
            framed(228, &[]),
            framed(0, &[2, 0, 0, 0]),
            framed(0, &[0, 0, 0, 2]),
            framed(12, &[]),
            framed(108, &[0, 0, 0, 2]),
            framed(9, &[0xff, 3, 0, 0x21]),
            framed(113, &[&[0; 14][..], &[8, 0]].concat()),
            framed(276, &[&[8, 0][..], &[0; 18]].concat()),
        ] {
            let packet = Packet {
                data: &data,
                wire_len: data.len() as u32,
                time: 0,
                link: Link(link),
                interface: 0,
            };
            assert_eq!(filter.accepts(&packet), Ok(true), "{link}");
            assert_eq!(other.accepts(&packet), Ok(false), "{link}");
        }
    }
}
