//! Capture files.
//!
//! An own reader instead of libpcap's: it knows at which byte and packet a
//! damaged file broke off, and hands out packets without copying them.

use std::fmt;
use std::io::{self, Read};

use super::{Link, Packet};

/// Records beyond this are damage, not packets.
const MAX_RECORD: usize = 1 << 20;
/// How much is read from the file at once.
const CHUNK: usize = 1 << 20;

/// Why a file could not be read further.
#[derive(Debug)]
pub enum Damage {
    /// The operating system said no.
    Io(io::Error),
    /// The first bytes are not those of a capture.
    NotACapture,
    /// The file ends inside a record.
    CutOff,
    /// A record that cannot be one.
    Corrupt(String),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NotACapture => f.write_str("not a capture file (pcap)"),
            Self::CutOff => f.write_str("the file is cut off"),
            Self::Corrupt(what) => write!(f, "the file is corrupt: {what}"),
        }
    }
}

/// A pcap file in any of its dialects: micro- or nanoseconds, either byte
/// order, standard or modified record headers.
pub struct CaptureFile<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    offset: u64,
    packets: u64,
    format: Format,
}

#[derive(Clone, Copy)]
struct Format {
    big_endian: bool,
    nanoseconds: bool,
    record_header: usize,
    link: Link,
}

impl Format {
    fn of(head: &[u8; 24]) -> Option<Self> {
        let magic = [head[0], head[1], head[2], head[3]];
        let big_endian = magic[0] == 0xa1;
        let word = |bytes| {
            if big_endian {
                u32::from_be_bytes(bytes)
            } else {
                u32::from_le_bytes(bytes)
            }
        };
        let (nanoseconds, record_header) = match word(magic) {
            0xa1b2_c3d4 => (false, 16),
            0xa1b2_3c4d => (true, 16),
            0xa1b2_cd34 => (false, 24),
            _ => return None,
        };
        // The upper bits of the link field tell of a frame check sequence.
        let link = Link(word([head[20], head[21], head[22], head[23]]) & 0x03ff_ffff);
        Some(Self {
            big_endian,
            nanoseconds,
            record_header,
            link,
        })
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    }
}

impl<R: Read> CaptureFile<R> {
    /// Reads the head of a capture.
    pub fn open(mut input: R) -> Result<Self, Damage> {
        let mut head = [0; 24];
        let mut filled = 0;
        while filled < head.len() {
            match input.read(&mut head[filled..]) {
                Ok(0) => return Err(Damage::NotACapture),
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Damage::Io(error)),
            }
        }
        Ok(Self {
            format: Format::of(&head).ok_or(Damage::NotACapture)?,
            input,
            buffer: Vec::with_capacity(2 * CHUNK),
            start: 0,
            offset: 24,
            packets: 0,
        })
    }

    /// The next packet; none at the end of the file.
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, Damage> {
        let header = self.format.record_header;
        match self.fill(header)? {
            0 => return Ok(None),
            have if have < header => return Err(Damage::CutOff),
            _ => {}
        }
        let head = &self.buffer[self.start..];
        let format = self.format;
        let (seconds, fraction) = (format.word(head, 0), format.word(head, 4));
        let (captured, wire_len) = (format.word(head, 8) as usize, format.word(head, 12));
        if captured > MAX_RECORD {
            return Err(Damage::Corrupt(format!("a packet of {captured} bytes")));
        }
        let record = header + captured;
        if self.fill(record)? < record {
            return Err(Damage::CutOff);
        }
        let data = &self.buffer[self.start + header..self.start + record];
        self.start += record;
        self.offset += record as u64;
        self.packets += 1;
        let unit = if format.nanoseconds { 1 } else { 1000 };
        Ok(Some(Packet {
            data,
            wire_len,
            time: u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit,
            link: format.link,
        }))
    }

    /// Makes `wanted` bytes available if the file has them; returns how many
    /// there are.
    fn fill(&mut self, wanted: usize) -> Result<usize, Damage> {
        while self.buffer.len() - self.start < wanted {
            if self.start > 0 {
                self.buffer.drain(..self.start);
                self.start = 0;
            }
            let mut chunk = (&mut self.input).take(CHUNK as u64);
            match chunk.read_to_end(&mut self.buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(Damage::Io(error)),
            }
        }
        Ok(self.buffer.len() - self.start)
    }

    /// Where the next record starts, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Packets read so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(magic: u32, big: bool, extra: usize, packets: &[&[u8]]) -> Vec<u8> {
        let word = |n: u32| {
            if big {
                n.to_be_bytes()
            } else {
                n.to_le_bytes()
            }
        };
        let mut bytes = Vec::new();
        for n in [magic, 0x0004_0002, 0, 0, 65535, 1] {
            bytes.extend(word(n));
        }
        for data in packets {
            for n in [7, 5, data.len() as u32, 1000] {
                bytes.extend(word(n));
            }
            bytes.extend(vec![0; extra]);
            bytes.extend(*data);
        }
        bytes
    }

    #[test]
    fn every_dialect_gives_the_same_packets() {
        for big in [false, true] {
            for (magic, extra, unit) in [
                (0xa1b2_c3d4, 0, 1000),
                (0xa1b2_3c4d, 0, 1),
                (0xa1b2_cd34, 8, 1000),
            ] {
                let mut bytes = capture(magic, big, extra, &[b"abc", b""]);
                bytes[if big { 20 } else { 23 }] = 0x44; // a frame check sequence
                let mut file = CaptureFile::open(&bytes[..]).unwrap();
                let packet = file.next().unwrap().unwrap();
                assert_eq!(
                    (packet.data, packet.wire_len, packet.link),
                    (&b"abc"[..], 1000, Link(1))
                );
                assert_eq!(packet.time, 7_000_000_000 + 5 * unit);
                assert!(file.next().unwrap().unwrap().data.is_empty());
                assert!(file.next().unwrap().is_none());
            }
        }
    }

    #[test]
    fn damage_is_found_where_it_is() {
        let bytes = capture(0xa1b2_c3d4, false, 0, &[b"abc", b"defg"]);
        let mut file = CaptureFile::open(&bytes[..bytes.len() - 1]).unwrap();
        assert!(file.next().is_ok());
        assert!(matches!(file.next(), Err(Damage::CutOff)));
        assert_eq!((file.offset(), file.packets()), (24 + 16 + 3, 1));

        let mut huge = bytes.clone();
        huge[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(
            CaptureFile::open(&huge[..]).unwrap().next(),
            Err(Damage::Corrupt(_))
        ));
        for junk in [&b""[..], b"short", &[0; 100]] {
            assert!(matches!(CaptureFile::open(junk), Err(Damage::NotACapture)));
        }
    }
}
