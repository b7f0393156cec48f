//! A fake network and an agent on it, for tests without root privileges and without waiting
//! for the kernel.

pub mod agent;
pub mod network;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread;

use etherparse::PacketBuilder;

use crate::capture::sink::PacketSink;
use crate::config;
use crate::ring::edge_ring::{RingReader, ring};
use crate::ring::pipeline::InterfaceWriter;
use crate::traffic::tally::Tally;

/// A UDP packet over Ethernet from the `n`th address to a common one.
pub fn udp(n: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let packet = packet.ipv4(source(n).octets(), [10, 255, 255, 1], 64);
    packet.udp(1000, 2000).write(&mut frame, b"data").unwrap();
    frame
}

/// Like [`udp`], with TCP.
pub fn tcp(n: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2([2; 6], [4; 6]);
    let packet = packet.ipv4(source(n).octets(), [10, 255, 255, 1], 64);
    let packet = packet.tcp(1000, 2000, 1, 1);
    packet.write(&mut frame, b"data").unwrap();
    frame
}

/// `count` packets from as many addresses.
pub fn many(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(udp).collect()
}

/// The `n`th address.
pub fn source(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 0, 0, 0)) + n)
}

/// A sink with a ring of `slots` slots, the other end of the ring, and the counters.
pub fn sink(slots: usize) -> (PacketSink, RingReader, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let (writer, reader) = ring(slots, thread::current(), slots / 2);
    let writer = InterfaceWriter {
        ring: writer,
        tally: Arc::clone(&tally),
        sampling: 1,
    };
    let sink = PacketSink::new(writer, &config::Capture::default());
    (sink, reader, tally)
}
