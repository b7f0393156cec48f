//! The ring between a capture and the sketch worker: bounded, one writer, one
//! reader. The writer decodes and keeps the books.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Thread};
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::edge::{Edge, Slot};
use crate::packet::Packet;
use crate::tally::{Ignored, Tally};
use crate::{config, decode};

/// Packets that are handed over together: the counters and the ring are
/// shared with another core, which is dear.
const HAND_OVER_AT: usize = 256;

/// The end a capture writes to.
pub struct PacketSink {
    tally: Arc<Tally>,
    ring: Producer<Slot>,
    /// Behind the ring: what is woken at the end shall see that it is the end.
    reader: Reader,
    /// How much is worth waking the reader for.
    full: usize,
    decode: decode::Options,
    one_in: u32,
    rng: Xoshiro256PlusPlus,
    /// Taken in, but not yet handed over.
    pending: Pending,
}

/// Who reads the ring; woken when nothing comes any more.
struct Reader(Thread);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

#[derive(Default)]
struct Pending {
    packets: u64,
    bytes: u64,
    ignored: [u64; Ignored::ALL.len()],
    edges: Vec<Slot>,
}

/// A ring of `slots` slots and its two ends. Its `reader` takes batches of
/// `batch` slots and is woken when there is one.
pub fn ring(
    slots: usize,
    (reader, batch): (Thread, usize),
    tally: Arc<Tally>,
    config: &config::Capture,
    seed: u64,
) -> (PacketSink, Consumer<Slot>) {
    let (producer, consumer) = RingBuffer::new(slots);
    tally.ring_slots.store(slots as u64, Relaxed);
    let sink = PacketSink {
        tally,
        ring: producer,
        reader: Reader(reader),
        full: full_batch(batch, slots),
        decode: config.into(),
        one_in: config.sample,
        rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        pending: Pending::default(),
    };
    (sink, consumer)
}

/// Slots of a full batch: it has to fit the ring, which would never be full
/// of it otherwise.
pub fn full_batch(batch: usize, slots: usize) -> usize {
    batch.min(slots / 2)
}

impl PacketSink {
    /// Decodes a packet and keeps it for the next flush; true if one is due.
    #[inline]
    fn take_in(&mut self, packet: &Packet<'_>) -> bool {
        self.pending.packets += 1;
        self.pending.bytes += u64::from(packet.wire_len);
        // By lot, not every Nth: traffic has rhythms.
        if self.one_in > 1 && self.rng.random_range(0..self.one_in) != 0 {
            self.pending.ignored[Ignored::Sampled as usize] += 1;
        } else {
            match decode::pair(packet.link, packet.data, &self.decode) {
                Ok(pair) => {
                    let edge = Edge {
                        name: pair.name(),
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

    /// Takes a packet of a live capture.
    #[inline]
    pub fn offer(&mut self, packet: &Packet<'_>) {
        if self.take_in(packet) {
            self.hand_over();
        }
    }

    /// Passes on what was taken; what the ring has no room for is dropped and
    /// counted. Never blocks: for live captures.
    pub fn hand_over(&mut self) {
        self.count();
        self.push();
        let lost = Slot::edges(&self.pending.edges).count() as u64;
        self.pending.edges.clear();
        self.tally.ring_full.fetch_add(lost, Relaxed);
    }

    /// Takes a packet of a file. Fails if the reader of the ring is gone.
    #[inline]
    pub fn deliver(&mut self, packet: &Packet<'_>) -> Result<(), WorkerGone> {
        if self.take_in(packet) {
            return self.deliver_all();
        }
        Ok(())
    }

    /// Passes on what was taken, waiting while the ring is full: for files.
    pub fn deliver_all(&mut self) -> Result<(), WorkerGone> {
        self.count();
        loop {
            self.push();
            if self.pending.edges.is_empty() {
                return Ok(());
            }
            if self.ring.is_abandoned() {
                return Err(WorkerGone);
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Enters what was taken into the books.
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
    }

    /// Puts into the ring what fits, and wakes the reader of a full batch. It
    /// sees by itself what comes while it is awake: this costs a system call
    /// for a batch, not for a hand-over.
    fn push(&mut self) {
        let (room, edges) = (self.ring.slots(), &self.pending.edges);
        // Never half an edge: its reader takes what it finds.
        let fits = match room < edges.len() {
            true => Slot::whole(edges, room),
            false => edges.len(),
        };
        let (pushed, _) = self.ring.push_partial_slice(&edges[..fits]);
        let pushed = pushed.len();
        self.pending.edges.drain(..pushed);
        let used = self.ring.buffer().capacity() - self.ring.slots();
        if used >= self.full && used < self.full + pushed {
            self.reader.0.unpark();
        }
    }

    /// The books this end keeps.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Drop for PacketSink {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// The sketch worker ended early; it says why itself.
#[derive(Debug)]
pub struct WorkerGone;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Link;

    #[test]
    fn a_full_ring_drops_the_newest_and_counts_it() {
        let tally = Arc::new(Tally::default());
        let (mut sink, mut consumer) = ring(
            4,
            (thread::current(), 2),
            Arc::clone(&tally),
            &config::Capture::default(),
            1,
        );
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
        assert_eq!(tally.outstanding(), 4, "what is in the ring");
        let slot = [consumer.pop().unwrap()];
        assert_eq!(Slot::edges(&slot).next().unwrap().bytes, 100);
        drop(consumer);
        assert!(sink.deliver(&packet(&frame)).is_ok());
        assert!(sink.deliver_all().is_ok(), "there is room again");
        assert!(sink.deliver(&packet(&frame)).is_ok());
        assert!(sink.deliver_all().is_err(), "nobody will ever make room");
        drop(sink);
        assert_eq!(tally.ring_full.load(Relaxed), 7, "what is left is counted");
    }
}
