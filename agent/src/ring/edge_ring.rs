//! The bounded ring between a capture and the sketch worker. It has one writer and one reader, and
//! never contains half an edge.

use std::collections::VecDeque;
use std::thread::Thread;

use rtrb::{Consumer, Producer, RingBuffer};

use crate::traffic::slot::Slot;

/// The writing end.
pub struct RingWriter {
    ring: Producer<Slot>,
    /// Dropped after `ring`, so that the reader it wakes sees that the writer has gone.
    reader: Reader,
    /// Number of slots at which the reader is woken.
    full: usize,
}

/// The thread that reads the ring. It is woken when the writer is dropped.
struct Reader(Thread);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

/// The sketch worker has ended. It reports the reason itself.
#[derive(Debug)]
pub struct WorkerGone;

/// The reading end.
pub struct RingReader {
    ring: Consumer<Slot>,
    full: usize,
    /// Slots that were moved out of the ring while there was no time to store them, oldest first.
    aside: VecDeque<Slot>,
}

/// Most slots that are set aside, as a multiple of the slots of the ring. Moving a table of 256 MiB
/// into layers takes two seconds, in which a flood sends 800,000 packets.
const ASIDE: usize = 16;

/// Makes a ring of `slots` slots. The `reader` takes batches of `batch` slots and is woken when
/// there is one.
pub fn ring(slots: usize, reader: Thread, batch: usize) -> (RingWriter, RingReader) {
    let (producer, consumer) = RingBuffer::new(slots);
    // A batch that is larger than the ring would never be complete.
    let full = batch.min(slots / 2);
    let writer = RingWriter {
        ring: producer,
        reader: Reader(reader),
        full,
    };
    let ring = consumer;
    let reader = RingReader {
        ring,
        full,
        aside: VecDeque::new(),
    };
    (writer, reader)
}

impl RingWriter {
    /// Writes as many of `edges` as fit, and wakes the reader when a batch is full. A reader that
    /// is awake finds further edges by itself, so this is one system call per batch, not per push.
    pub fn push(&mut self, edges: &mut Vec<Slot>) {
        let room = self.ring.slots();
        // Whole edges only, because the reader takes all slots it finds.
        let fits = match room < edges.len() {
            true => Slot::whole(edges, room),
            false => edges.len(),
        };
        let (pushed, _) = self.ring.push_partial_slice(&edges[..fits]);
        let pushed = pushed.len();
        edges.drain(..pushed);
        let used = self.ring.buffer().capacity() - self.ring.slots();
        if used >= self.full && used < self.full + pushed {
            self.reader.0.unpark();
        }
    }

    /// Whether the reader has gone.
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

impl RingReader {
    /// Whether the writer has gone. Then the ring holds all that is left.
    pub fn has_ended(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Number of slots in the ring and set aside.
    pub fn used(&self) -> usize {
        self.ring.slots() + self.aside.len()
    }

    /// Moves slots out of the ring to make room during a long operation. Slots beyond the limit
    /// stay in the ring.
    pub fn set_aside(&mut self) {
        let most = ASIDE * self.ring.buffer().capacity();
        let room = most.saturating_sub(self.aside.len());
        let Ok(chunk) = self.ring.read_chunk(self.ring.slots().min(room)) else {
            return;
        };
        let (first, second) = chunk.as_slices();
        self.aside.extend(first);
        self.aside.extend(second);
        chunk.commit_all();
    }

    pub fn full_batch(&self) -> usize {
        self.full
    }

    /// Moves the next `count` slots to the end of `slots`, and one more if the last edge has two.
    /// Returns how many were moved.
    pub fn take(&mut self, slots: &mut Vec<Slot>, count: usize) -> anyhow::Result<usize> {
        let before = slots.len();
        for count in [count, 1] {
            let from_aside = count.min(self.aside.len());
            slots.extend(self.aside.drain(..from_aside));
            if self.aside.is_empty() && self.aside.capacity() > 0 {
                self.aside = VecDeque::new();
            }
            let chunk = self.ring.read_chunk(count - from_aside)?;
            let (first, second) = chunk.as_slices();
            slots.extend_from_slice(first);
            slots.extend_from_slice(second);
            chunk.commit_all();
            if Slot::whole(slots, slots.len()) == slots.len() {
                break;
            }
        }
        // The ring stays empty until all that was set aside is stored.
        if !self.aside.is_empty() {
            self.set_aside();
        }
        Ok(slots.len() - before)
    }

    /// Discards all slots in the ring and set aside. Returns the number of edges.
    pub fn abandon(&mut self) -> u64 {
        let Ok(left) = self.ring.read_chunk(self.ring.slots()) else {
            return 0;
        };
        let (first, second) = left.as_slices();
        let aside = self.aside.drain(..).collect::<Vec<_>>();
        let count = Slot::edges(&[&aside, first, second].concat()).count() as u64;
        left.commit_all();
        count
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::traffic::edge::{Edge, Pair};
    use crate::traffic::service::Service;

    fn push(writer: &mut RingWriter, numbers: std::ops::Range<u32>) -> usize {
        let mut slots = Vec::new();
        for n in numbers {
            let name = match n % 2 {
                0 => Pair::V4(n.into(), 1.into()).name(),
                _ => Pair::V6(u128::from(n).into(), 1.into()).name(),
            };
            let edge = Edge {
                name,
                service: Service::FRAGMENT,
                bytes: n,
                time: 0,
            };
            Slot::write(&edge, &mut slots);
        }
        writer.push(&mut slots);
        slots.len()
    }

    /// Slots that are set aside make room, are read first and in order, and never end within an
    /// edge.
    #[test]
    fn slots_that_are_set_aside_are_read_before_later_ones() {
        let (mut writer, mut reader) = ring(64, thread::current(), 16);
        for round in 0..16 {
            assert_eq!(
                push(&mut writer, round * 40..(round + 1) * 40),
                0,
                "there is room"
            );
            reader.set_aside();
        }
        assert_eq!(reader.used(), 16 * 60);
        let mut read = Vec::new();
        while reader.used() > 0 {
            let mut slots = Vec::new();
            reader.take(&mut slots, reader.used().min(7)).unwrap();
            read.extend(Slot::edges(&slots).map(|edge| edge.bytes));
            let next = read.len() as u32;
            assert!(next >= 640 || reader.used() > 0);
        }
        assert_eq!(read, (0..640).collect::<Vec<u32>>());
        assert_eq!(push(&mut writer, 0..10), 0);
        reader.set_aside();
        assert_eq!(push(&mut writer, 10..20), 0);
        assert_eq!(reader.abandon(), 20, "edges set aside and in the ring");
        assert_eq!(reader.used(), 0);
    }
}
