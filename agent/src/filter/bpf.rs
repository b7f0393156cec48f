//! Runs filters that libpcap compiled.
//!
//! The `pcap` crate can run them too, but uses the captured length as the packet length:
//! `greater 1000` would not match a packet that was truncated to the snap length.

use pcap::BpfProgram;

/// Words of scratch memory.
const SCRATCH: usize = 16;

#[derive(Debug)]
pub struct Program(Vec<Instruction>);

#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u16,
    /// Relative jump targets, if a condition holds and if it does not.
    then: usize,
    otherwise: usize,
    value: u32,
}

impl Program {
    /// Converts a program that libpcap compiled for a file. A program for an interface may use
    /// information that only the kernel has, like the direction, and would match no packet
    /// here. Returns `None` if the program cannot be parsed.
    pub fn new(compiled: &BpfProgram) -> Option<Self> {
        let instruction = |text: String| {
            let mut numbers = text.split(' ').map(str::parse::<u32>);
            let mut next = || numbers.next()?.ok();
            Some(Instruction {
                code: next()? as u16,
                then: next()? as usize,
                otherwise: next()? as usize,
                value: next()?,
            })
        };
        let instructions = compiled.get_instructions().iter();
        let program: Option<Vec<_>> = instructions
            .map(|compiled| instruction(compiled.to_string()))
            .collect();
        program.map(Self)
    }

    /// Returns whether a packet of `wire_len` bytes matches, of which `data` was captured.
    pub fn matches(&self, data: &[u8], wire_len: u32) -> bool {
        self.run(data, wire_len).is_some_and(|kept| kept > 0)
    }

    /// Returns the number of bytes to keep. `None` means no match: the packet ends before a
    /// byte that the program reads, or the program is invalid.
    fn run(&self, data: &[u8], wire_len: u32) -> Option<u32> {
        let (mut a, mut x, mut scratch) = (0u32, 0u32, [0u32; SCRATCH]);
        let mut next = 0usize;
        loop {
            let Instruction {
                code,
                then,
                otherwise,
                value: k,
            } = *self.0.get(next)?;
            next += 1;
            let operand = if code & 8 == 0 { k } else { x };
            match code {
                // Loads: packet, constant, scratch memory, length.
                0x20 => a = u32::from_be_bytes(*bytes(data, k, 0)?),
                0x28 => a = u16::from_be_bytes(*bytes(data, k, 0)?).into(),
                0x30 => a = bytes::<1>(data, k, 0)?[0].into(),
                0x40 => a = u32::from_be_bytes(*bytes(data, k, x)?),
                0x48 => a = u16::from_be_bytes(*bytes(data, k, x)?).into(),
                0x50 => a = bytes::<1>(data, k, x)?[0].into(),
                0x00 => a = k,
                0x01 => x = k,
                0x60 => a = *scratch.get(k as usize)?,
                0x61 => x = *scratch.get(k as usize)?,
                0x80 => a = wire_len,
                0x81 => x = wire_len,
                // The length of an IPv4 header.
                0xb1 => x = u32::from(bytes::<1>(data, k, 0)?[0] & 15) << 2,
                0x02 => *scratch.get_mut(k as usize)? = a,
                0x03 => *scratch.get_mut(k as usize)? = x,
                0x04 | 0x0c => a = a.wrapping_add(operand),
                0x14 | 0x1c => a = a.wrapping_sub(operand),
                0x24 | 0x2c => a = a.wrapping_mul(operand),
                0x34 | 0x3c => a = a.checked_div(operand)?,
                0x94 | 0x9c => a = a.checked_rem(operand)?,
                0x44 | 0x4c => a |= operand,
                0x54 | 0x5c => a &= operand,
                0xa4 | 0xac => a ^= operand,
                0x64 | 0x6c => a = a.checked_shl(operand).unwrap_or(0),
                0x74 | 0x7c => a = a.checked_shr(operand).unwrap_or(0),
                0x84 => a = a.wrapping_neg(),
                // Jumps; also backwards, for the headers of `protochain`.
                0x05 => next = next.checked_add_signed(k as i32 as isize)?,
                0x15 | 0x1d => next += if a == operand { then } else { otherwise },
                0x25 | 0x2d => next += if a > operand { then } else { otherwise },
                0x35 | 0x3d => next += if a >= operand { then } else { otherwise },
                0x45 | 0x4d => next += if a & operand != 0 { then } else { otherwise },
                0x06 => return Some(k),
                0x16 => return Some(a),
                0x07 => x = a,
                0x87 => a = x,
                _ => return None,
            }
        }
    }
}

fn bytes<const N: usize>(data: &[u8], offset: u32, index: u32) -> Option<&[u8; N]> {
    let start = offset.checked_add(index)? as usize;
    data.get(start..)?.first_chunk()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::testing::packets;
    use pcap::{Capture, Linktype};

    const FILTERS: [&str; 22] = [
        "ip",
        "ip6",
        "not ip",
        "udp",
        "tcp or icmp",
        "host 10.0.0.1",
        "src net 10.0.0.0/8 and not dst port 53",
        "net 192.168.0.0/16 or portrange 1-4789",
        "ip6 and host fd00::1",
        "ip[0] & 0xf != 5",
        "ip[2:2] > 40 and ip[8] - 1 >= 63",
        "udp[4:2] = 8",
        "len > 60",
        "less 70",
        "greater 60 and less 90",
        "ip[6:2] & 0x1fff = 0 and (ip[2:2] - ((ip[0] & 0xf) << 2)) / 2 > 3",
        "(len - 14) % 4 = 0 or len * 2 > 300",
        "ip proto 47 or ip proto 4",
        "ip6 protochain 17",
        "vlan",
        "mpls",
        "ether[0] & 1 = 0 and ether[12:2] = 0x0800",
    ];

    fn compile(link: i32, filter: &str) -> Option<BpfProgram> {
        let dead = Capture::dead(Linktype(link)).unwrap();
        dead.compile(filter, true).ok()
    }

    /// Compares with the interpreter of libpcap, for complete and truncated packets.
    #[test]
    fn programs_match_the_same_packets_as_in_libpcap() {
        let mut matched = [0, 0];
        for filter in FILTERS {
            for test in packets::all() {
                let Some(compiled) = compile(test.link as i32, filter) else {
                    continue;
                };
                let program = Program::new(&compiled).unwrap();
                for length in 0..=test.data.len() {
                    let data = &test.data[..length];
                    let expected = compiled.filter(data);
                    let found = program.matches(data, length as u32);
                    assert_eq!(found, expected, "{filter}: {}, {length}", test.name);
                    matched[usize::from(found)] += 1;
                }
            }
        }
        assert!(matched.iter().all(|count| *count > 1000), "{matched:?}");
    }

    #[test]
    fn lengths_are_those_on_the_wire() {
        let program = |filter| Program::new(&compile(1, filter).unwrap()).unwrap();
        let data = [0; 60];
        assert!(program("greater 1000").matches(&data, 1500));
        assert!(!program("greater 1000").matches(&data, 60));
        assert!(!program("less 1000").matches(&data, 1500));
        // If a program reads beyond the packet, the packet does not match, even with `not`.
        assert!(!program("not ether[70] = 1").matches(&data, 1500));
    }
}
