//! Filters in tcpdump's language: whether one is possible, and the same for
//! files as the kernel has it for interfaces.
//!
//! A packet that a filter excludes is not part of the capture: it is in no
//! count, starts no window and takes no time.

use std::fmt::Display;
use std::os::fd::AsRawFd;

use pcap::{BpfProgram, Capture, Linktype, Offline};
use rustix::fs::{MemfdFlags, memfd_create};

use super::bpf::Program;
use crate::config::ConfigError;
use crate::packet::{Link, Packet};

const ETHERNET: i32 = 1;
/// There are no link types from here on.
const LINK_TYPES: i32 = 320;

/// Why a filter is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No link type has such packets; what libpcap says of Ethernet.
    Impossible(String),
    /// A name in it is not known now, which may be otherwise later.
    Name(String),
}

impl Refusal {
    /// What libpcap's reason means.
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

    /// libpcap's reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Impossible(reason) | Self::Name(reason) => reason,
        }
    }

    /// An error of the configuration at `place`; a name may be known when it is
    /// tried again, so it is none.
    pub fn into_error(self, place: impl Display) -> anyhow::Error {
        match self {
            Self::Impossible(reason) => ConfigError::new(place, reason).into(),
            Self::Name(reason) => anyhow::anyhow!("{place}: {reason}"),
        }
    }
}

/// Refuses a filter that is possible for no link type.
pub fn check(filter: &str) -> Result<(), Refusal> {
    match compile(ETHERNET, filter) {
        Ok(_) => Ok(()),
        Err(Refusal::Impossible(_))
            if (0..LINK_TYPES).any(|link| compile(link, filter).is_ok()) =>
        {
            Ok(())
        }
        // To ask for a name again would only take time.
        Err(refusal) => Err(refusal),
    }
}

/// The filter of a command line.
pub fn parse(filter: &str) -> Result<String, String> {
    let checked = check(filter).map_err(|refusal| {
        let why = refusal.reason();
        format!(
            "{why}; write it as for tcpdump, like 'host 10.0.0.1 and port 443' (pcap-filter(7))"
        )
    });
    checked.map(|()| filter.to_owned())
}

/// A filter for packets of files, compiled for each link type they have.
pub struct FileFilter {
    expression: String,
    programs: Vec<(Link, Program)>,
}

impl FileFilter {
    /// Nothing is compiled before there is a packet.
    pub fn new(expression: String) -> Self {
        Self {
            expression,
            programs: Vec::new(),
        }
    }

    /// Whether a packet is part of the capture; an error if libpcap has no such
    /// filter for its link type.
    #[inline]
    pub fn keeps(&mut self, packet: &Packet<'_>) -> Result<bool, String> {
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
        let compiled = compiled.map_err(|error| fault(&name, Refusal::new(error).reason()))?;
        Program::new(&compiled).ok_or_else(|| fault(&name, "libpcap gives no program for it"))
    }
}

/// A capture file of this link type, without packets, as libpcap has it open.
///
/// libpcap compiles otherwise for a file than for an interface. In a file, IPv6 behind
/// a BSD loopback header has the number of any BSD, not only that of this machine, and
/// what is known of live packets only, like their direction, is refused.
fn empty_file(link: Link) -> anyhow::Result<Capture<Offline>> {
    // Raw IP has several numbers, of which decoding knows these.
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

/// A packet behind a BSD loopback header, with a family as libpcap expects it: in the
/// byte order of this machine (link type 0), and with the number of a BSD for IPv6, also
/// where Linux has written it. None if it is so already.
fn with_known_family(packet: &Packet<'_>) -> Option<Vec<u8>> {
    /// IPv6 on Linux and, as one of three, on a BSD.
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

/// libpcap's program for an interface.
fn compile(dlt: i32, filter: &str) -> Result<BpfProgram, Refusal> {
    let compiled = Capture::dead(Linktype(dlt)).and_then(|dead| dead.compile(filter, true));
    compiled.map_err(Refusal::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_link_type_has_is_refused() {
        // The last two only for 802.11 and PF logs.
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
            let Err(Refusal::Impossible(said)) = check(filter) else {
                panic!("{filter}");
            };
            assert!(said.contains(reason), "{filter}: {said}");
        }
    }

    #[test]
    fn every_link_type_has_its_program() {
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
            assert_eq!(filter.keeps(&packet), Ok(true), "{link}");
            assert_eq!(other.keeps(&packet), Ok(false), "{link}");
        }
    }
}
