//! The pcapng format: blocks in sections, several interfaces.
//!
//! Simple packet blocks have no time. They get the time of the packet before them. If there
//! is none, they get that of the first packet after them that has a time, unless it is too
//! far ahead.

use std::io::Cursor;

use super::CaptureInterface;
use super::buffer::Buffer;
use super::clock::Clock;
use super::damage::Damage;
use super::input::Input;
use super::interfaces::Interfaces;
use super::order::Order;
use crate::traffic::packet::{Link, NO_TIME, Packet};

/// Type of the block that starts a section; it reads the same in either byte order.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Block type and length and, for a section, the byte-order magic.
const BLOCK_HEAD: usize = 12;
/// A longer block is reported as damage.
const MAX_BLOCK: usize = 16 << 20;
/// How many bytes are searched for the first packet with a time.
const LOOK_AHEAD: usize = 256 << 10;
/// Longer names are truncated.
const MAX_NAME: usize = 255;

/// Option codes of an interface, and the end of options.
const END: u16 = 0;
const NAME: u16 = 2;
const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;

/// State that the next block depends on.
pub struct Pcapng {
    order: Order,
    /// Interfaces of this section. Packets refer to them by position.
    section: Vec<SectionInterface>,
    /// All interfaces of the file.
    interfaces: Interfaces,
    /// Time of the previous packet, or of the first one that has a time. `None` until it is
    /// known.
    time: Option<u64>,
    /// Whether the first packet with a time was searched for.
    looked_ahead: bool,
}

/// An interface as a section describes it.
#[derive(Clone, Copy)]
struct SectionInterface {
    /// Index among the interfaces of the file.
    index: u32,
    link: Link,
    snaplen: u32,
    clock: Clock,
}

/// A packet within a block.
struct FoundPacket {
    interface: SectionInterface,
    time: Option<u64>,
    start: usize,
    captured: usize,
    wire_len: u32,
}

impl Pcapng {
    /// Reads the first block. Returns `None` if the file has another format.
    pub fn open(bytes: &mut Buffer) -> Result<Option<Self>, Damage> {
        let head = bytes.peek(BLOCK_HEAD)?;
        if !head.starts_with(&SECTION.to_be_bytes()) {
            return Ok(None);
        }
        let Some(order) = head.get(8..).and_then(order) else {
            return Ok(None);
        };
        Ok(Some(Self {
            order,
            section: Vec::new(),
            interfaces: Interfaces::default(),
            time: None,
            looked_ahead: false,
        }))
    }

    /// Returns the next packet, or `None` at the end of the file.
    #[inline(always)]
    pub fn next<'a>(&mut self, bytes: &'a mut Buffer) -> Result<Option<Packet<'a>>, Damage> {
        let (length, found) = loop {
            let Some(head) = bytes.head(BLOCK_HEAD)? else {
                return Ok(None);
            };
            let kind = self.order.u32(head, 0);
            if kind == SECTION {
                self.order = order(&head[8..])
                    .ok_or_else(|| Damage::Corrupt("a section of unknown byte order".into()))?;
            }
            let length = self.order.u32(head, 4) as usize;
            let least = match kind {
                SECTION => 28,
                INTERFACE => 20,
                SIMPLE_PACKET => 16,
                OLD_PACKET | ENHANCED_PACKET => 32,
                _ => BLOCK_HEAD,
            };
            if length < least || length > MAX_BLOCK || !length.is_multiple_of(4) {
                return Err(Damage::Corrupt(format!("a block of {length} bytes")));
            }
            let block = bytes.peek(length)?;
            if block.len() < length {
                return Err(Damage::CutOff);
            }
            let again = self.order.u32(block, length - 4) as usize;
            if again != length {
                let what = format!("a block of {length} bytes that ends as one of {again}");
                return Err(Damage::Corrupt(what));
            }
            match kind {
                ENHANCED_PACKET => {
                    let interface = self.order.u32(block, 8);
                    break (length, self.timed(block, interface)?);
                }
                OLD_PACKET => {
                    let interface = self.order.u16(block, 8);
                    break (length, self.timed(block, interface.into())?);
                }
                SIMPLE_PACKET => {
                    let found = self.simple(block)?;
                    break (length, self.with_time(found, bytes)?);
                }
                SECTION => self.start_section(block)?,
                INTERFACE => self.describe(block)?,
                _ => {}
            }
            bytes.take(length)?;
        };
        if found.time.is_some() {
            self.time = found.time;
        }
        let block = bytes.take(length)?;
        Ok(Some(Packet {
            data: &block[found.start..found.start + found.captured],
            wire_len: found.wire_len,
            time: found.time.unwrap_or(NO_TIME),
            link: found.interface.link,
            interface: found.interface.index,
        }))
    }

    pub fn interfaces(&self) -> &[CaptureInterface] {
        self.interfaces.all()
    }

    /// Parses a packet block that has a time.
    #[inline]
    fn timed(&self, block: &[u8], interface: u32) -> Result<FoundPacket, Damage> {
        let word = |at| self.order.u32(block, at);
        let interface = self.interface(interface)?;
        let (captured, space) = (word(20) as usize, block.len() - 32);
        if captured > space {
            let what = format!("a packet of {captured} bytes in a block with {space}");
            return Err(Damage::Corrupt(what));
        }
        let ticks = u64::from(word(12)) << 32 | u64::from(word(16));
        Ok(FoundPacket {
            time: Some(interface.clock.nanoseconds(ticks)),
            interface,
            start: 28,
            captured,
            wire_len: word(24),
        })
    }

    /// Parses a simple packet block, which has no time.
    fn simple(&self, block: &[u8]) -> Result<FoundPacket, Damage> {
        let interface = self.interface(0)?;
        let wire_len = self.order.u32(block, 8);
        let snaplen = match interface.snaplen {
            0 => u32::MAX,
            snaplen => snaplen,
        };
        Ok(FoundPacket {
            interface,
            time: None,
            start: 12,
            captured: (block.len() - 16).min(wire_len.min(snaplen) as usize),
            wire_len,
        })
    }

    /// Sets the time of a packet without one; the module documentation describes how.
    fn with_time(&mut self, found: FoundPacket, bytes: &mut Buffer) -> Result<FoundPacket, Damage> {
        if self.time.is_none() && !self.looked_ahead {
            self.looked_ahead = true;
            self.time = self.time_ahead(bytes)?;
        }
        Ok(FoundPacket {
            time: self.time,
            ..found
        })
    }

    /// Searches ahead for the first packet with a time.
    #[cold]
    fn time_ahead(&self, bytes: &mut Buffer) -> Result<Option<u64>, Damage> {
        let ahead = bytes.ahead(LOOK_AHEAD)?.to_vec();
        let mut ahead = Buffer::new(Input::new(Cursor::new(ahead))?);
        let mut reader = Self {
            order: self.order,
            section: self.section.clone(),
            interfaces: Interfaces::default(),
            time: None,
            looked_ahead: true,
        };
        // Damage is reported when the block is read again.
        while reader.time.is_none()
            && let Ok(Some(_)) = reader.next(&mut ahead)
        {}
        Ok(reader.time)
    }

    #[inline]
    fn interface(&self, position: u32) -> Result<SectionInterface, Damage> {
        let interface = self.section.get(position as usize).copied();
        interface.ok_or_else(|| {
            Damage::Corrupt(format!(
                "a packet of interface {position}, which was not described"
            ))
        })
    }

    fn start_section(&mut self, block: &[u8]) -> Result<(), Damage> {
        // Some programs write version 1.2 instead of 1.0.
        let version = (self.order.u16(block, 12), self.order.u16(block, 14));
        if !matches!(version, (1, 0 | 2)) {
            return Err(Damage::Version(version.0, version.1));
        }
        self.section.clear();
        self.interfaces.start_section();
        Ok(())
    }

    fn describe(&mut self, block: &[u8]) -> Result<(), Damage> {
        let (mut name, mut resolution, mut offset) = (None, 6, 0);
        let mut options = &block[16..block.len() - 4];
        while let Some((head, rest)) = options.split_first_chunk::<4>() {
            let (code, length) = (self.order.u16(head, 0), self.order.u16(head, 2).into());
            if code == END {
                break;
            }
            let Some(value) = rest.get(..length) else {
                let what = "an interface with an option longer than its block";
                return Err(Damage::Corrupt(what.into()));
            };
            match (code, value) {
                (NAME, value) => name = readable(value),
                (TIME_RESOLUTION, [value]) => resolution = *value,
                (TIME_OFFSET, value) if length == 8 => offset = self.order.u64(value, 0) as i64,
                _ => {}
            }
            options = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        let link = Link(self.order.u16(block, 8).into());
        self.section.push(SectionInterface {
            index: self.interfaces.describe(CaptureInterface { name, link })?,
            link,
            snaplen: self.order.u32(block, 12),
            clock: Clock::new(resolution, offset),
        });
        Ok(())
    }
}

/// Returns the byte order of a section by its magic number.
fn order(magic: &[u8]) -> Option<Order> {
    match magic {
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(Order::Big),
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(Order::Little),
        _ => None,
    }
}

/// Returns a name without control characters, which would disturb a terminal.
fn readable(name: &[u8]) -> Option<String> {
    let name = String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]);
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Blocks, file, packets};
    use super::*;

    const NANOSECONDS: (u16, &[u8]) = (TIME_RESOLUTION, &[9]);

    fn damage(blocks: &Blocks) -> (String, u64, u64) {
        let mut file = file(&blocks.bytes).unwrap();
        loop {
            match file.next_packet() {
                Ok(packet) => assert!(packet.is_some(), "no damage found"),
                Err(damage) => return (damage.to_string(), file.offset(), file.packets()),
            }
        }
    }

    #[test]
    fn every_packet_block_gives_its_packet_in_either_byte_order() {
        for order in [Order::Big, Order::Little] {
            let mut blocks = Blocks::new(order);
            blocks.interface(1, 4, &[(NAME, b"eth0\0")]);
            blocks.interface(101, 0, &[NANOSECONDS]);
            blocks.block(0x0bad, b"unknown!");
            blocks.enhanced(1, 7_000_000_005, b"abcde", 1000);
            blocks.old(0, 8_000_000, b"xyz", 3);
            blocks.simple(9, b"123456789");
            blocks.simple(2, b"12");
            let mut file = file(&blocks.bytes).unwrap();
            let (ip, ethernet) = (Link(101), Link(1));
            for (data, wire_len, time, link, interface) in [
                (&b"abcde"[..], 1000, 7_000_000_005, ip, 1),
                (b"xyz", 3, 8_000_000_000, ethernet, 0),
                (b"1234", 9, 8_000_000_000, ethernet, 0),
                (b"12", 2, 8_000_000_000, ethernet, 0),
            ] {
                let packet = file.next_packet().unwrap().unwrap();
                assert_eq!(
                    (packet.data, packet.wire_len, packet.time),
                    (data, wire_len, time)
                );
                assert_eq!((packet.link, packet.interface), (link, interface));
            }
            assert!(file.next_packet().unwrap().is_none());
            assert_eq!((file.packets(), file.offset()), (4, file.position()));
            let names = file.interfaces().iter().map(|i| i.name.as_deref());
            assert_eq!(names.collect::<Vec<_>>(), [Some("eth0"), None]);
        }
    }

    /// Times of the packets of a file.
    fn times(blocks: &Blocks) -> Vec<u64> {
        let mut file = file(&blocks.bytes).unwrap();
        let mut times = Vec::new();
        while let Some(packet) = file.next_packet().unwrap() {
            times.push(packet.time);
        }
        times
    }

    #[test]
    fn packets_without_a_time_get_that_of_another() {
        for order in [Order::Big, Order::Little] {
            let mut blocks = Blocks::new(order);
            blocks.interface(1, 0, &[]);
            blocks.simple(2, b"12");
            assert_eq!(times(&blocks), [NO_TIME]);
            blocks.simple(2, b"34");
            // The clock of the first packet with a time is described after the others.
            blocks.interface(1, 0, &[NANOSECONDS]);
            blocks.enhanced(1, 7_000_000_005, b"ab", 2);
            blocks.simple(2, b"56");
            blocks.enhanced(0, 8_000_000, b"cd", 2);
            blocks.simple(2, b"78");
            let (first, second) = (7_000_000_005, 8_000_000_000);
            let expected = [first, first, first, first, second, second];
            assert_eq!(times(&blocks), expected);
            // A packet too far ahead does not set the time of the others.
            let mut blocks = Blocks::new(order);
            blocks.interface(1, 0, &[]);
            blocks.simple(2, b"12");
            blocks.block(0x0bad, &vec![0; LOOK_AHEAD]);
            blocks.enhanced(0, 8_000_000, b"ab", 2);
            assert_eq!(times(&blocks), [NO_TIME, second]);
        }
    }

    #[test]
    fn each_interface_has_its_own_clock() {
        let mut blocks = Blocks::new(Order::Big);
        let offset = 1_700_000_000i64.to_be_bytes();
        blocks.interface(1, 0, &[(TIME_RESOLUTION, &[0x82]), (TIME_OFFSET, &offset)]);
        blocks.interface(1, 0, &[(99, b"12345"), (TIME_RESOLUTION, &[3]), (0, b"")]);
        blocks.interface(1, 0, &[(END, b""), NANOSECONDS]);
        for interface in 0..3 {
            blocks.enhanced(interface, 6, b"", 0);
        }
        let times: Vec<u64> = packets(&blocks.bytes).iter().map(|p| p.time).collect();
        assert_eq!(times, [1_700_000_001_500_000_000, 6_000_000, 6_000]);
    }

    #[test]
    fn sections_number_their_interfaces_from_zero() {
        let mut blocks = Blocks::new(Order::Little);
        blocks.interface(1, 0, &[(NAME, b"eth0")]);
        blocks.interface(1, 0, &[(NAME, b"eth1")]);
        blocks.enhanced(1, 0, b"a", 1);
        blocks.section(Order::Big);
        blocks.interface(1, 0, &[(NAME, b"eth1")]);
        blocks.interface(113, 0, &[(NAME, b"any")]);
        blocks.enhanced(0, 0, b"b", 1);
        blocks.enhanced(1, 0, b"c", 1);
        let seen: Vec<u32> = packets(&blocks.bytes).iter().map(|p| p.interface).collect();
        assert_eq!(seen, [1, 1, 2]);

        blocks.section(Order::Little);
        let at = blocks.bytes.len() as u64;
        blocks.enhanced(0, 0, b"d", 1);
        let (what, offset, packets) = damage(&blocks);
        assert!(what.contains("interface 0, which was not"), "{what}");
        assert_eq!((offset, packets), (at, 3));
    }

    #[test]
    fn damage_is_reported_with_its_position() {
        let mut start = Blocks::new(Order::Little);
        start.interface(1, 0, &[]);
        start.enhanced(0, 0, b"fine", 4);
        let at = start.bytes.len();
        let broken = |change: &dyn Fn(&mut Blocks)| {
            let mut blocks = start.clone();
            change(&mut blocks);
            let (what, offset, packets) = damage(&blocks);
            assert_eq!((offset, packets), (at as u64, 1), "{what}");
            what
        };
        let enhanced = |place: usize, byte: u8| {
            broken(&|blocks| {
                blocks.enhanced(0, 0, b"abcd", 4);
                blocks.bytes[at + place] = byte;
            })
        };
        assert!(enhanced(4, 37).contains("a block of 37 bytes"));
        assert!(enhanced(4, 8).contains("a block of 8 bytes"));
        assert!(enhanced(4, 28).contains("a block of 28 bytes"));
        assert!(enhanced(7, 0x40).contains("a block of 1073741860 bytes"));
        assert!(enhanced(32, 40).contains("36 bytes that ends as one of 40"));
        assert!(enhanced(20, 5).contains("a packet of 5 bytes in a block with 4"));
        assert!(enhanced(8, 1).contains("interface 1"));
        assert!(enhanced(4, 40).contains("cut off"));

        let section = |place: usize| {
            broken(&|blocks| {
                blocks.section(Order::Little);
                blocks.bytes[at + place] = 9;
            })
        };
        assert!(section(8).contains("unknown byte order"));
        assert!(section(12).contains("version 9.0"));
        let option = broken(&|blocks| {
            blocks.interface(1, 0, &[(NAME, b"eth0")]);
            blocks.bytes[at + 18] = 9;
        });
        assert!(option.contains("an option longer than"), "{option}");
    }

    #[test]
    fn names_are_truncated_and_have_no_control_characters() {
        assert_eq!(readable(b"\x1b[2J\0").as_deref(), Some("[2J"));
        assert_eq!(readable(b"\0"), None);
        assert_eq!(readable(&[b'x'; 60_000]).unwrap().len(), MAX_NAME);
    }
}
