//! The classic pcap format in its variants: micro- or nanoseconds, either byte order,
//! standard or modified record headers.

use super::CaptureInterface;
use super::buffer::Buffer;
use super::damage::Damage;
use super::order::Order;
use crate::traffic::packet::{Link, Packet};

/// Size of the file header.
const HEAD: usize = 24;
/// Size of the part of a record header that all variants have.
const LEAST_RECORD_HEAD: usize = 16;
/// A longer record is reported as damage.
const MAX_PACKET: usize = 1 << 20;

/// Variant of the format.
pub struct Pcap {
    order: Order,
    /// Nanoseconds per unit of the fraction of a second.
    unit: u64,
    record_head: usize,
    link: Link,
    interface: [CaptureInterface; 1],
}

impl Pcap {
    /// Reads the file header. Returns `None` if the file has another format.
    pub fn open(bytes: &mut Buffer) -> Result<Option<Self>, Damage> {
        let Some(magic) = bytes.peek(4)?.first_chunk::<4>() else {
            return Ok(None);
        };
        let variant = |order: Order| match order.u32(magic, 0) {
            0xa1b2_c3d4 => Some((order, 1000, 16)),
            0xa1b2_3c4d => Some((order, 1, 16)),
            0xa1b2_cd34 => Some((order, 1000, 24)),
            _ => None,
        };
        let variant = variant(Order::Little).or_else(|| variant(Order::Big));
        let Some((order, unit, record_head)) = variant else {
            return Ok(None);
        };
        let head = bytes.take(HEAD)?;
        let (major, minor) = (order.u16(head, 4), order.u16(head, 6));
        // Before version 2.3, the two lengths of a record were swapped.
        if major != 2 || minor < 3 {
            return Err(Damage::Version(major, minor));
        }
        // The upper bits describe the frame check sequence.
        let link = Link(order.u32(head, 20) & 0x03ff_ffff);
        Ok(Some(Self {
            order,
            unit,
            record_head,
            link,
            interface: [CaptureInterface { name: None, link }],
        }))
    }

    /// Returns the next packet, or `None` at the end of the file.
    #[inline(always)]
    pub fn next<'a>(&self, bytes: &'a mut Buffer) -> Result<Option<Packet<'a>>, Damage> {
        let Some(head) = bytes.head(self.record_head)? else {
            return Ok(None);
        };
        let head: &[u8; LEAST_RECORD_HEAD] = head.first_chunk().ok_or(Damage::CutOff)?;
        let word = |at| self.order.u32(head, at);
        let time = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * self.unit;
        let (captured, wire_len) = (word(8) as usize, word(12));
        if captured > MAX_PACKET {
            return Err(Damage::Corrupt(format!("a packet of {captured} bytes")));
        }
        let record = bytes.take(self.record_head + captured)?;
        Ok(Some(Packet {
            data: &record[self.record_head..],
            wire_len,
            time,
            link: self.link,
            interface: 0,
        }))
    }

    /// The interface of all packets; the format has only one.
    pub fn interfaces(&self) -> &[CaptureInterface] {
        &self.interface
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, file};
    use super::*;

    #[test]
    fn every_variant_gives_the_same_packets() {
        for order in [Order::Big, Order::Little] {
            for (magic, extra, unit) in [
                (0xa1b2_c3d4, 0, 1000),
                (0xa1b2_3c4d, 0, 1),
                (0xa1b2_cd34, 8, 1000),
            ] {
                let mut file = file(&testing::pcap(order, magic, extra, &[b"abc", b""])).unwrap();
                let packet = file.next_packet().unwrap().unwrap();
                assert_eq!(
                    (packet.data, packet.wire_len, packet.link, packet.interface),
                    (&b"abc"[..], 1000, Link(1), 0)
                );
                assert_eq!(packet.time, 7_000_000_000 + 5 * unit);
                assert!(file.next_packet().unwrap().unwrap().data.is_empty());
                assert!(file.next_packet().unwrap().is_none());
                let only = CaptureInterface {
                    name: None,
                    link: Link(1),
                };
                assert_eq!(file.interfaces(), [only]);
            }
        }
    }

    #[test]
    fn damage_is_reported_with_its_position() {
        let bytes = testing::pcap(Order::Little, 0xa1b2_c3d4, 0, &[b"abc", b"defg"]);
        let mut cut = file(&bytes[..bytes.len() - 1]).unwrap();
        assert!(cut.next_packet().is_ok());
        assert!(matches!(cut.next_packet(), Err(Damage::CutOff)));
        assert_eq!((cut.offset(), cut.packets()), (24 + 16 + 3, 1));

        let mut huge = bytes.clone();
        huge[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        let damage = file(&huge).unwrap().next_packet().unwrap_err().to_string();
        assert!(damage.contains("4294967295 bytes"), "{damage}");

        assert!(matches!(file(&bytes[..23]), Err(Damage::CutOff)));
        let mut old = bytes.clone();
        old[6] = 2;
        assert!(matches!(file(&old), Err(Damage::Version(2, 2))));
    }

    #[test]
    fn a_frame_check_sequence_does_not_change_the_link() {
        let mut bytes = testing::pcap(Order::Little, 0xa1b2_c3d4, 0, &[b"abc"]);
        bytes[23] = 0x44;
        let mut file = file(&bytes).unwrap();
        assert_eq!(file.next_packet().unwrap().unwrap().link, Link(1));
    }
}
