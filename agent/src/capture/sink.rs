//! Receives the packets of one interface: samples, decodes and counts them, and writes the
//! resulting edges to the ring.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::decode::Decoded;
use crate::ring::edge_ring::{RingWriter, WorkerGone};
use crate::ring::pipeline::InterfaceWriter;
use crate::traffic::edge::Edge;
use crate::traffic::packet::Packet;
use crate::traffic::protocol::Protocol;
use crate::traffic::slot::Slot;
use crate::traffic::tally::{Ignored, Tally};
use crate::{config, decode};

/// Packets that are counted and written together. The counters and the ring are shared with
/// another core, so each access is expensive.
const HAND_OVER_AT: usize = 256;

/// Time between two tries to write to a full ring. The worker takes several batches out of it at
/// once, and stores each in about half a millisecond.
const RING_FULL_WAIT: Duration = Duration::from_micros(200);

/// Connects the capture of one interface to the worker.
pub struct PacketSink {
    tally: Arc<Tally>,
    ring: RingWriter,
    choice: Choice,
    rng: Xoshiro256PlusPlus,
    /// Packets that are decoded but not yet counted or written.
    pending: Pending,
}

/// Which packets become edges, and which of their addresses count.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    decode: decode::Options,
    /// One packet in this many is decoded.
    one_in: u32,
}

impl From<&config::Capture> for Choice {
    fn from(config: &config::Capture) -> Self {
        Self {
            decode: config.into(),
            one_in: config.sample,
        }
    }
}

#[derive(Default)]
struct Pending {
    packets: u64,
    bytes: u64,
    ignored: [u64; Ignored::ALL.len()],
    /// Packets and bytes of each protocol.
    protocols: [(u64, u64); Protocol::ALL.len()],
    edges: Vec<Slot>,
}

impl PacketSink {
    pub fn new(interface: InterfaceWriter, config: &config::Capture) -> Self {
        Self {
            tally: interface.tally,
            ring: interface.ring,
            choice: config.into(),
            rng: Xoshiro256PlusPlus::seed_from_u64(interface.sampling),
            pending: Pending::default(),
        }
    }

    /// Decodes a packet and keeps it as pending. Returns whether the pending packets should
    /// be written.
    #[inline]
    fn decode_packet(&mut self, packet: &Packet<'_>) -> bool {
        self.pending.packets += 1;
        self.pending.bytes += u64::from(packet.wire_len);
        // Packets are chosen at random, not every Nth one, because traffic is periodic.
        let Choice { decode, one_in } = &self.choice;
        if *one_in > 1 && self.rng.random_range(0..*one_in) != 0 {
            self.pending.ignored[Ignored::Sampled as usize] += 1;
        } else {
            match decode::decode(packet.link, packet.data, decode) {
                Ok(Decoded {
                    pair,
                    protocol,
                    service,
                }) => {
                    let (packets, bytes) = &mut self.pending.protocols[protocol as usize];
                    *packets += 1;
                    *bytes += u64::from(packet.wire_len);
                    let edge = Edge {
                        name: pair.name(),
                        service,
                        bytes: packet.wire_len,
                        time: packet.time,
                    };
                    Slot::write(&edge, &mut self.pending.edges);
                }
                Err(reason) => self.pending.ignored[reason as usize] += 1,
            }
        }
        self.pending.packets as usize >= HAND_OVER_AT
    }

    /// Accepts a packet of a live capture.
    #[inline]
    pub fn offer(&mut self, packet: &Packet<'_>) {
        if self.decode_packet(packet) {
            self.hand_over();
        }
    }

    /// Writes pending packets to the ring without waiting, for live captures. Packets that
    /// do not fit are dropped and counted.
    pub fn hand_over(&mut self) {
        self.count();
        self.ring.push(&mut self.pending.edges);
        let lost = Slot::edges(&self.pending.edges).count() as u64;
        self.pending.edges.clear();
        self.tally.ring_full.fetch_add(lost, Relaxed);
    }

    /// Accepts a packet of a file. Returns an error if the worker has ended.
    #[inline]
    pub fn deliver(&mut self, packet: &Packet<'_>) -> Result<(), WorkerGone> {
        if self.decode_packet(packet) {
            return self.deliver_all();
        }
        Ok(())
    }

    /// Writes pending packets to the ring and waits while it is full, for files.
    pub fn deliver_all(&mut self) -> Result<(), WorkerGone> {
        self.count();
        loop {
            self.ring.push(&mut self.pending.edges);
            if self.pending.edges.is_empty() {
                return Ok(());
            }
            if self.ring.is_abandoned() {
                return Err(WorkerGone);
            }
            thread::sleep(RING_FULL_WAIT);
        }
    }

    /// Restores a usable state after a panic. An interrupted packet is counted as one that
    /// did not fit the ring.
    pub fn recover(&mut self) {
        let edges = Slot::edges(&self.pending.edges).count() as u64;
        let done = edges + self.pending.ignored.iter().sum::<u64>();
        let lost = self.pending.packets.saturating_sub(done);
        self.tally.ring_full.fetch_add(lost, Relaxed);
        self.hand_over();
    }

    /// Writes pending packets, and uses another ring from now on.
    pub fn replace_ring(&mut self, ring: RingWriter) {
        self.hand_over();
        self.ring = ring;
    }

    /// Applies another choice of packets from now on.
    pub fn set_choice(&mut self, choice: Choice) {
        self.choice = choice;
    }

    /// Adds pending packets to the counters.
    fn count(&mut self) {
        self.tally.receive(
            mem::take(&mut self.pending.packets),
            mem::take(&mut self.pending.bytes),
        );
        for (reason, count) in Ignored::ALL.into_iter().zip(&mut self.pending.ignored) {
            if *count > 0 {
                self.tally.ignore(reason, mem::take(count));
            }
        }
        for (protocol, count) in Protocol::ALL.into_iter().zip(&mut self.pending.protocols) {
            let (packets, bytes) = mem::take(count);
            if packets > 0 {
                self.tally.count_protocol(protocol, packets, bytes);
            }
        }
    }

    pub fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }
}

impl Drop for PacketSink {
    fn drop(&mut self) {
        self.hand_over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::edge_ring::ring;
    use crate::traffic::packet::Link;

    #[test]
    fn a_full_ring_drops_the_newest_packets_and_counts_them() {
        let tally = Arc::new(Tally::default());
        let (writer, mut reader) = ring(4, thread::current(), 2);
        let interface = InterfaceWriter {
            ring: writer,
            tally: Arc::clone(&tally),
            sampling: 1,
        };
        let mut sink = PacketSink::new(interface, &config::Capture::default());
        let mut frame = Vec::new();
        etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(1, 2)
            .write(&mut frame, &[])
            .unwrap();
        let packet = |data| Packet {
            data,
            wire_len: 100,
            time: 0,
            link: Link(101),
            interface: 0,
        };
        for _ in 0..10 {
            sink.offer(&packet(&frame));
        }
        sink.offer(&packet(&frame[..3]));
        assert_eq!(tally.packets.load(Relaxed), 0, "not yet handed over");
        sink.hand_over();
        assert_eq!(tally.packets.load(Relaxed), 11);
        assert_eq!(tally.bytes.load(Relaxed), 1100);
        assert_eq!(tally.ring_full.load(Relaxed), 6);
        let udp = tally
            .protocols()
            .into_iter()
            .find(|(name, ..)| *name == "udp");
        assert_eq!(udp, Some(("udp", 10, 1000)), "also those that were dropped");
        assert_eq!(tally.outstanding(), 4, "packets in the ring");
        let mut slot = Vec::new();
        reader.take(&mut slot, 1).unwrap();
        assert_eq!(Slot::edges(&slot).next().unwrap().bytes, 100);
        drop(reader);
        assert!(sink.deliver(&packet(&frame)).is_ok());
        assert!(sink.deliver_all().is_ok(), "there is room again");
        assert!(sink.deliver(&packet(&frame)).is_ok());
        assert!(sink.deliver_all().is_err(), "the reader has gone");
        drop(sink);
        assert_eq!(
            tally.ring_full.load(Relaxed),
            7,
            "the pending packet is counted as dropped"
        );
    }
}
