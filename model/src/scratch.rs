//! Working memory for storing a batch.
//!
//! It belongs to the thread that stores, not to a sketch: one is enough for all sketches
//! that a thread stores into, and a sketch that is only read needs none.

use crate::crown::Count;
use crate::name::AnyName;
use crate::packed::narrow::CellScratch;

/// Working memory of [`Crane::store_with`](crate::Crane::store_with). It grows to
/// [`Scratch::BYTES_PER_ARRIVAL`] bytes for each arrival of the largest batch.
#[derive(Default)]
pub struct Scratch {
    /// Indices of arrivals whose edges have an entry in the crown.
    pub(crate) named: Vec<u32>,
    /// Indices of arrivals that outrank an entry of the crown with the packets of this
    /// batch alone.
    pub(crate) heavy: Vec<u32>,
    pub(crate) rest: Rest,
    pub(crate) moved: Moved,
    pub(crate) cells: CellScratch,
}

/// Arrivals of a batch that are stored in the layers.
#[derive(Default)]
pub(crate) struct Rest {
    /// Their indices in the batch.
    pub at: Vec<u32>,
    pub ids: Vec<u64>,
    pub packets: Vec<u64>,
    /// Their upper bounds after they were stored.
    pub bounds: Vec<u64>,
}

/// Edges that a batch moves between crown and layers.
#[derive(Default)]
pub(crate) struct Moved {
    /// Edges that were admitted, and how many of their packets are in the layers.
    pub ids: Vec<u64>,
    pub packets: Vec<u64>,
    /// Entries that were evicted.
    pub evicted: Vec<(AnyName, Count)>,
}

impl Scratch {
    /// Upper bound of the working memory for each arrival of a batch. Vectors double
    /// their capacity, so up to twice their length may be allocated.
    pub const BYTES_PER_ARRIVAL: usize = 2
        * (size_of::<u32>() // named
            + size_of::<u32>() // heavy
            + size_of::<u32>() + 3 * size_of::<u64>() // rest
            + 2 * size_of::<u64>() + size_of::<(AnyName, Count)>() // moved
            + CellScratch::BYTES_PER_ARRIVAL);

    /// Bytes in use.
    pub fn memory_bytes(&self) -> usize {
        let Self {
            named,
            heavy,
            rest,
            moved,
            cells,
        } = self;
        let numbers = [
            &rest.ids,
            &rest.packets,
            &rest.bounds,
            &moved.ids,
            &moved.packets,
        ];
        let numbers: usize = numbers.iter().map(|one| one.capacity()).sum();
        4 * (named.capacity() + heavy.capacity() + rest.at.capacity())
            + 8 * numbers
            + moved.evicted.capacity() * size_of::<(AnyName, Count)>()
            + cells.memory_bytes()
    }

    /// After a batch was stored in layers, the indices of its arrivals whose edges have an
    /// entry in the crown, or had one until they were evicted in this batch
    /// ([`forgotten`](Self::forgotten)).
    pub fn named(&self) -> &[u32] {
        &self.named
    }

    /// After a batch was stored in layers, the edges that were evicted from the crown and
    /// are no longer known by name.
    pub fn forgotten(&self) -> impl Iterator<Item = &AnyName> {
        self.moved.evicted.iter().map(|(name, _)| name)
    }

    pub(crate) fn clear(&mut self) {
        self.named.clear();
        self.heavy.clear();
        self.rest.at.clear();
        self.rest.ids.clear();
        self.rest.packets.clear();
        self.moved.ids.clear();
        self.moved.packets.clear();
        self.moved.evicted.clear();
    }
}

impl Rest {
    pub(crate) fn push<N>(&mut self, at: u32, arrival: &crate::Arrival<N>) {
        self.at.push(at);
        self.ids.push(arrival.id);
        self.packets.push(arrival.packets);
    }
}
