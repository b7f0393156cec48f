//! The ring between a capture and the sketch worker: bounded, one writer, one
//! reader, and never half an edge in it when it is read.

use std::thread::Thread;

use rtrb::{Consumer, Producer, RingBuffer};

use super::slot::Slot;

/// The end that edges are written to.
pub struct RingWriter {
    ring: Producer<Slot>,
    /// Behind the ring: what is woken at the end shall see that it is the end.
    reader: Reader,
    /// How much is worth waking the reader for.
    full: usize,
}

/// Who reads the ring; woken when nothing comes any more.
struct Reader(Thread);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

/// The sketch worker ended early; it says why itself.
#[derive(Debug)]
pub struct WorkerGone;

/// The end that edges are read from.
pub struct RingReader {
    ring: Consumer<Slot>,
    full: usize,
}

/// A ring of `slots` slots. Its `reader` takes batches of `batch` slots and is
/// woken when there is one.
pub fn ring(slots: usize, reader: Thread, batch: usize) -> (RingWriter, RingReader) {
    let (producer, consumer) = RingBuffer::new(slots);
    // A batch has to fit the ring, which would never be full of it otherwise.
    let full = batch.min(slots / 2);
    let writer = RingWriter {
        ring: producer,
        reader: Reader(reader),
        full,
    };
    let ring = consumer;
    (writer, RingReader { ring, full })
}

impl RingWriter {
    /// Takes what fits from the front of `edges`, and wakes the reader of a full
    /// batch. It sees by itself what comes while it is awake: this costs a
    /// system call for a batch, not for a push.
    pub fn push(&mut self, edges: &mut Vec<Slot>) {
        let room = self.ring.slots();
        // Never half an edge: its reader takes what it finds.
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

    /// Whether nobody will ever make room.
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }
}

impl RingReader {
    /// Whether the writer is gone: what is in the ring by now is all.
    pub fn has_ended(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Slots that are taken.
    pub fn used(&self) -> usize {
        self.ring.slots()
    }

    /// Slots of a full batch.
    pub fn full_batch(&self) -> usize {
        self.full
    }

    /// Moves the next `count` slots to the end of `slots`, and one more if they
    /// end within an edge. How many those were.
    pub fn take(&mut self, slots: &mut Vec<Slot>, count: usize) -> anyhow::Result<usize> {
        let before = slots.len();
        for count in [count, 1] {
            let chunk = self.ring.read_chunk(count)?;
            let (first, second) = chunk.as_slices();
            slots.extend_from_slice(first);
            slots.extend_from_slice(second);
            chunk.commit_all();
            if Slot::whole(slots, slots.len()) == slots.len() {
                break;
            }
        }
        Ok(slots.len() - before)
    }

    /// Gives up all that is in the ring; how many edges that were.
    pub fn abandon(&mut self) -> u64 {
        let Ok(left) = self.ring.read_chunk(self.ring.slots()) else {
            return 0;
        };
        let (first, second) = left.as_slices();
        let count = Slot::edges(&[first, second].concat()).count() as u64;
        left.commit_all();
        count
    }
}
