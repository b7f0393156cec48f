//! Builds small captures for tests.

use std::io::Cursor;

use super::CaptureFile;
use super::damage::Damage;
use super::input::Input;
use super::order::Order;

/// A pcap file whose packets have the time 7 s and fraction 5, and a wire length of 1000
/// bytes. `extra` bytes are added to every record header.
pub fn pcap(order: Order, magic: u32, extra: usize, packets: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    words(&mut bytes, order, &[magic]);
    bytes.extend(halves(order, 2, 4));
    words(&mut bytes, order, &[0, 0, 65535, 1]);
    for data in packets {
        words(&mut bytes, order, &[7, 5, data.len() as u32, 1000]);
        bytes.extend(vec![0; extra]);
        bytes.extend(*data);
    }
    bytes
}

fn halves(order: Order, one: u16, two: u16) -> Vec<u8> {
    let halves = match order {
        Order::Big => [one.to_be_bytes(), two.to_be_bytes()],
        Order::Little => [one.to_le_bytes(), two.to_le_bytes()],
    };
    halves.concat()
}

fn words(bytes: &mut Vec<u8>, order: Order, words: &[u32]) {
    for word in words {
        bytes.extend(match order {
            Order::Big => word.to_be_bytes(),
            Order::Little => word.to_le_bytes(),
        });
    }
}

/// Builder of a pcapng file.
#[derive(Clone)]
pub struct Blocks {
    pub bytes: Vec<u8>,
    order: Order,
}

impl Blocks {
    pub fn new(order: Order) -> Self {
        let mut blocks = Self {
            bytes: Vec::new(),
            order,
        };
        blocks.section(order);
        blocks
    }

    pub fn section(&mut self, order: Order) {
        self.order = order;
        let mut body = self.words(&[0x1a2b_3c4d]);
        body.extend(halves(self.order, 1, 0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body);
    }

    pub fn interface(&mut self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) {
        let mut body = halves(self.order, link, 0);
        body.extend(self.words(&[snaplen]));
        for (code, value) in options {
            body.extend(halves(self.order, *code, value.len() as u16));
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body);
    }

    pub fn enhanced(&mut self, interface: u32, ticks: u64, data: &[u8], wire_len: u32) {
        let interface = self.words(&[interface]);
        self.timed(6, interface, ticks, data, wire_len);
    }

    pub fn old(&mut self, interface: u16, ticks: u64, data: &[u8], wire_len: u32) {
        let interface = halves(self.order, interface, 0);
        self.timed(2, interface, ticks, data, wire_len);
    }

    fn timed(&mut self, kind: u32, mut body: Vec<u8>, ticks: u64, data: &[u8], wire_len: u32) {
        let (high, low) = ((ticks >> 32) as u32, ticks as u32);
        body.extend(self.words(&[high, low, data.len() as u32, wire_len]));
        body.extend(data);
        self.block(kind, &body);
    }

    pub fn simple(&mut self, wire_len: u32, data: &[u8]) {
        let mut body = self.words(&[wire_len]);
        body.extend(data);
        self.block(3, &body);
    }

    pub fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = 12 + padded as u32;
        words(&mut self.bytes, self.order, &[kind, length]);
        self.bytes.extend(body);
        self.bytes.extend(vec![0; padded - body.len()]);
        words(&mut self.bytes, self.order, &[length]);
    }

    fn words(&self, numbers: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        words(&mut bytes, self.order, numbers);
        bytes
    }
}

/// Opens a capture in memory.
pub fn file(bytes: &[u8]) -> Result<CaptureFile, Damage> {
    CaptureFile::read(Input::new(Cursor::new(bytes.to_vec()))?)
}

/// The parts of a packet that tests compare.
pub struct Seen {
    pub time: u64,
    pub interface: u32,
    /// Offset of the end of its record.
    pub end: u64,
}

/// Returns all packets of an undamaged capture.
pub fn packets(bytes: &[u8]) -> Vec<Seen> {
    let mut file = file(bytes).unwrap();
    let mut seen = Vec::new();
    while let Some(packet) = file.next_packet().unwrap() {
        let (time, interface) = (packet.time, packet.interface);
        let end = file.offset();
        seen.push(Seen {
            time,
            interface,
            end,
        });
    }
    seen
}
