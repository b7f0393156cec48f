//! Reads capture files.
//!
//! This replaces the reader of libpcap: it decompresses, supports pcapng with several
//! interfaces, reports the byte and packet at which a damaged file ends, and passes packets
//! on without copying them.
//!
//! [`folder`] finds a file, [`input`] decompresses it, [`buffer`] holds the current part,
//! and [`pcap`] or [`pcapng`] parses packets.

mod buffer;
mod clock;
pub mod damage;
pub mod folder;
mod foreign;
pub mod input;
mod interfaces;
mod order;
mod pcap;
mod pcapng;
mod read_ahead;
#[cfg(test)]
mod testing;

use std::path::Path;

use buffer::Buffer;
use damage::Damage;
use input::Input;
use pcap::Pcap;
use pcapng::Pcapng;

use crate::traffic::packet::{Link, Packet};

/// Size from which on a file is worth a thread that reads ahead.
const LARGE: u64 = 1 << 20;

/// An interface that packets of a file were captured on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CaptureInterface {
    /// Name, if the file has one.
    pub name: Option<String>,
    /// Link type of its packets.
    pub link: Link,
}

/// A capture file of either format, compressed or not.
pub struct CaptureFile {
    bytes: Buffer,
    format: Format,
    packets: u64,
}

enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

impl CaptureFile {
    /// Opens a file, or standard input for `-`, and detects its format.
    pub fn open(path: &Path) -> Result<Self, Damage> {
        Self::read(Input::open(path)?)
    }

    /// The same, with a thread that reads ahead if it is a large file. Pipes are read directly, so
    /// that a packet is not delayed.
    pub fn open_ahead(path: &Path) -> Result<Self, Damage> {
        let input = Input::open(path)?;
        match input.length() {
            Some(LARGE..) => Self::read_from(Buffer::ahead_of(input)?),
            _ => Self::read(input),
        }
    }

    /// Reads a capture from any stream of bytes.
    pub fn read(input: Input) -> Result<Self, Damage> {
        Self::read_from(Buffer::new(input))
    }

    fn read_from(mut bytes: Buffer) -> Result<Self, Damage> {
        let format = if let Some(pcap) = Pcap::open(&mut bytes)? {
            Format::Pcap(pcap)
        } else if let Some(pcapng) = Pcapng::open(&mut bytes)? {
            Format::Pcapng(pcapng)
        } else {
            let known = foreign::name(bytes.peek(foreign::EXAMINED)?);
            return Err(known.map_or(Damage::NotACapture, Damage::Foreign));
        };
        Ok(Self {
            bytes,
            format,
            packets: 0,
        })
    }

    /// Returns the next packet, or `None` at the end of the file. Damage is returned after
    /// all packets before it, and is final.
    // Inlined, so that a packet stays in registers; passing it in memory takes a third longer.
    #[inline(always)]
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, Damage> {
        let packet = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.bytes)?,
            Format::Pcapng(pcapng) => pcapng.next(&mut self.bytes)?,
        };
        self.packets += u64::from(packet.is_some());
        Ok(packet)
    }

    /// Returns the interfaces described so far. In pcapng more may follow, but a packet
    /// never refers to an interface that has not been described.
    pub fn interfaces(&self) -> &[CaptureInterface] {
        match &self.format {
            Format::Pcap(pcap) => pcap.interfaces(),
            Format::Pcapng(pcapng) => pcapng.interfaces(),
        }
    }

    /// Describes where and why the file cannot be read further.
    pub fn broken_off(&self, damage: &Damage) -> String {
        let (packet, byte) = (self.packets() + 1, self.offset());
        format!("{damage} (at byte {byte}, in packet {packet}); everything before is counted")
    }

    /// Packets read so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Where the next record starts, in bytes of the unpacked stream.
    pub fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// How many bytes of the file on disk have been read, including those that are buffered.
    pub fn position(&self) -> u64 {
        self.bytes.position()
    }

    /// The size of the file on disk. `None` for pipes.
    pub fn length(&self) -> Option<u64> {
        self.bytes.length()
    }
}

#[cfg(test)]
mod tests {
    use super::order::Order;
    use super::testing::{Blocks, file, packets, pcap};
    use super::*;
    use std::io;

    /// A small capture of each format, with all kinds of blocks that are read.
    fn small() -> [Vec<u8>; 2] {
        let mut blocks = Blocks::new(Order::Little);
        blocks.interface(1, 4, &[(2, b"eth0"), (9, &[6])]);
        blocks.enhanced(0, 7, b"abc", 3);
        blocks.section(Order::Big);
        blocks.interface(1, 4, &[(14, &[0; 8])]);
        blocks.old(0, 8, b"d", 1);
        blocks.block(5, b"statistics, really");
        blocks.simple(9, b"12345678");
        [
            pcap(Order::Big, 0xa1b2_c3d4, 0, &[b"abc", b"", b"defgh"]),
            blocks.bytes,
        ]
    }

    /// Reads until the end or the damage. Returns the number of packets.
    fn exhaust(bytes: &[u8]) -> Result<u64, Damage> {
        let mut file = file(bytes)?;
        // No record is shorter than 12 bytes, so more iterations mean an endless loop.
        for _ in 0..=bytes.len() / 12 {
            if file.next_packet()?.is_none() {
                return Ok(file.packets());
            }
        }
        panic!("never ends");
    }

    #[test]
    fn every_prefix_gives_the_packets_that_it_contains_completely() {
        for bytes in small() {
            let all = packets(&bytes);
            assert_eq!(all.len(), 3);
            for cut in 0..bytes.len() {
                let Ok(mut file) = file(&bytes[..cut]) else {
                    continue;
                };
                while let Ok(Some(_)) = file.next_packet() {}
                let complete = all.iter().filter(|packet| packet.end <= cut as u64);
                assert_eq!(file.packets(), complete.count() as u64, "cut at {cut}");
                let between = file.offset() == cut as u64;
                assert_eq!(file.next_packet().is_ok(), between, "cut at {cut}");
            }
        }
    }

    #[test]
    fn no_change_of_a_single_byte_causes_a_panic_or_an_endless_loop() {
        let packed = small().map(|bytes| zstd::encode_all(&bytes[..], 1).unwrap());
        for bytes in small().into_iter().chain(packed) {
            assert_eq!(exhaust(&bytes).unwrap(), 3);
            for place in 0..bytes.len() {
                let flips = (0..8).map(|bit| bytes[place] ^ 1 << bit);
                for value in flips.chain([0, 4, 12, 0x7f, 0xff]) {
                    let mut damaged = bytes.clone();
                    damaged[place] = value;
                    let _ = exhaust(&damaged);
                }
            }
        }
    }

    #[test]
    fn other_content_is_reported_as_not_a_capture() {
        let no_order = b"\x0a\x0d\x0d\x0a\x1c\0\0\0 and no byte order".as_slice();
        for junk in [b"".as_slice(), b"abc", b"short", &[0; 100], no_order] {
            assert!(matches!(file(junk), Err(Damage::NotACapture)));
        }
    }

    #[test]
    fn errors_of_the_system_are_distinguished_from_damage() {
        struct Failing(Vec<u8>);
        impl io::Read for Failing {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0.is_empty() {
                    return Err(io::Error::from_raw_os_error(5));
                }
                // One byte at a time, like a slow pipe.
                buffer[0] = self.0.remove(0);
                Ok(1)
            }
        }
        for bytes in small() {
            let mut file = CaptureFile::read(Input::new(Failing(bytes)).unwrap()).unwrap();
            for _ in 0..3 {
                assert!(file.next_packet().unwrap().is_some());
            }
            let damage = file.next_packet().unwrap_err();
            assert!(matches!(damage, Damage::Io(_)));
            assert!(damage.to_string().contains("cannot be read: "), "{damage}");
        }
        let missing = CaptureFile::open(Path::new("/no/such"));
        assert_eq!(missing.err().unwrap().to_string(), "no such file");
    }

    #[test]
    fn a_truncated_compressed_file_gives_the_packets_before_the_end() {
        let data = [7; 1000];
        let bytes = pcap(Order::Big, 0xa1b2_c3d4, 0, &vec![&data[..]; 1000]);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        io::Write::write_all(&mut packer, &bytes).unwrap();
        let packed = packer.finish().unwrap();
        let mut file = file(&packed[..packed.len() / 2]).unwrap();
        while let Ok(Some(_)) = file.next_packet() {}
        assert!(matches!(file.next_packet(), Err(Damage::CutOff)));
        assert!((490..500).contains(&file.packets()), "{}", file.packets());
        assert_eq!(file.offset(), 24 + file.packets() * 1016);
        assert_eq!(file.position(), packed.len() as u64 / 2);
    }
}
