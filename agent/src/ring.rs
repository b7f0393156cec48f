//! The ring between a capture and the sketch worker: bounded, one writer, one
//! reader. The writer decodes and keeps the books.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::capture::Packet;
use crate::edge::Edge;
use crate::tally::{Ignored, Tally};
use crate::{config, decode};

/// The end a capture writes to.
pub struct Tap {
    tally: Arc<Tally>,
    ring: Producer<Edge>,
    decode: decode::Options,
    one_in: u32,
    rng: Xoshiro256PlusPlus,
}

/// A ring for `slots` packets and its two ends.
pub fn ring(
    slots: usize,
    tally: Arc<Tally>,
    config: &config::Capture,
    seed: u64,
) -> (Tap, Consumer<Edge>) {
    let (producer, consumer) = RingBuffer::new(slots);
    tally.ring_slots.store(slots as u64, Relaxed);
    let tap = Tap {
        tally,
        ring: producer,
        decode: config.decode(),
        one_in: config.sample,
        rng: Xoshiro256PlusPlus::seed_from_u64(seed),
    };
    (tap, consumer)
}

impl Tap {
    /// Counts and decodes a packet.
    fn take_in(&mut self, packet: &Packet<'_>) -> Option<Edge> {
        self.tally.receive(packet.wire_len.into());
        // By lot, not every Nth: traffic has rhythms.
        if self.one_in > 1 && self.rng.random_range(0..self.one_in) != 0 {
            self.tally.ignore(Ignored::Sampled);
            return None;
        }
        match decode::pair(packet.link, packet.data, &self.decode) {
            Ok(pair) => Some(Edge {
                pair,
                bytes: packet.wire_len,
                time: packet.time,
            }),
            Err(reason) => {
                self.tally.ignore(reason);
                None
            }
        }
    }

    /// Passes a packet on; if the ring is full the packet is dropped and
    /// counted. Never blocks: for live captures.
    pub fn offer(&mut self, packet: &Packet<'_>) {
        if let Some(edge) = self.take_in(packet)
            && self.ring.push(edge).is_err()
        {
            self.tally.ring_full.fetch_add(1, Relaxed);
        }
    }

    /// Passes a packet on, waiting while the ring is full: for files. Fails
    /// if the reader is gone.
    pub fn deliver(&mut self, packet: &Packet<'_>) -> Result<(), WorkerGone> {
        let Some(mut edge) = self.take_in(packet) else {
            return Ok(());
        };
        loop {
            match self.ring.push(edge) {
                Ok(()) => return Ok(()),
                Err(_) if self.ring.is_abandoned() => return Err(WorkerGone),
                Err(rtrb::PushError::Full(back)) => edge = back,
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// The books this end keeps.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// The sketch worker ended early; it says why itself.
#[derive(Debug)]
pub struct WorkerGone;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Link;

    #[test]
    fn a_full_ring_drops_the_newest_and_counts_it() {
        let tally = Arc::new(Tally::default());
        let (mut tap, mut consumer) = ring(4, Arc::clone(&tally), &config::Capture::default(), 1);
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
            tap.offer(&packet(&frame));
        }
        tap.offer(&packet(&frame[..3]));
        assert_eq!(tally.packets.load(Relaxed), 11);
        assert_eq!(tally.bytes.load(Relaxed), 1100);
        assert_eq!(tally.ring_full.load(Relaxed), 6);
        assert_eq!(tally.outstanding(), 4, "what is in the ring");
        assert_eq!(consumer.pop().unwrap().bytes, 100);
        drop(consumer);
        assert!(tap.deliver(&packet(&frame)).is_ok(), "there is room again");
        assert!(
            tap.deliver(&packet(&frame)).is_err(),
            "nobody will ever make room"
        );
    }
}
