//! What readers see: an immutable picture of all interfaces, swapped whole.

use std::cmp::Reverse;
use std::sync::Arc;

use crane_model::Flow;

use crate::edge::Pair;
use crate::tally::Tally;
use crate::worker::Lane;

/// All interfaces at one moment.
pub struct Snapshot {
    /// In the order they were opened.
    pub interfaces: Vec<InterfaceView>,
}

impl Snapshot {
    /// The picture of all lanes, with their `top` heaviest pairs.
    pub fn of(lanes: &[Lane], top: usize) -> Self {
        let interfaces = lanes
            .iter()
            .map(|lane| InterfaceView::of(lane, top))
            .collect();
        Self { interfaces }
    }
}

/// One interface at one moment.
pub struct InterfaceView {
    /// Name of the interface or file.
    pub name: String,
    /// Its books; these are always current.
    pub tally: Arc<Tally>,
    /// Slots of its ring, and how many are taken.
    pub ring: (usize, usize),
    /// Mean load of each layer, bottom first.
    pub loads: Vec<f32>,
    /// Layers added since the start.
    pub expansions: usize,
    /// Bytes of its sketch.
    pub memory_bytes: usize,
    /// Whether counts may be too low because a cell is full.
    pub saturated: bool,
    /// The heaviest pairs by packets, heaviest first.
    pub by_packets: Vec<Flow<Pair>>,
    /// The heaviest pairs by bytes, heaviest first.
    pub by_bytes: Vec<Flow<Pair>>,
}

impl InterfaceView {
    fn of(lane: &Lane, top: usize) -> Self {
        let layers = lane.crane.layers();
        let slots = lane.ring.buffer().capacity();
        Self {
            name: lane.name.clone(),
            tally: Arc::clone(&lane.tally),
            ring: (slots, lane.ring.slots()),
            loads: layers.loads().iter().map(|load| load.mean).collect(),
            expansions: layers.expansions(),
            memory_bytes: lane.crane.memory_bytes(),
            saturated: layers.is_saturated(),
            by_packets: heaviest(lane, top, |flow| flow.packets),
            by_bytes: heaviest(lane, top, |flow| flow.bytes),
        }
    }

    /// The union of both lists, each pair once.
    pub fn heavy(&self) -> impl Iterator<Item = &Flow<Pair>> {
        let rest = self.by_bytes.iter();
        let new = rest.filter(|flow| !self.by_packets.iter().any(|seen| seen.key == flow.key));
        self.by_packets.iter().chain(new)
    }
}

fn heaviest(lane: &Lane, top: usize, size: fn(&Flow<Pair>) -> u64) -> Vec<Flow<Pair>> {
    let mut flows: Vec<Flow<Pair>> = lane.crane.heavy().collect();
    // Equal sizes are ordered by address, so that lists do not flap.
    flows.sort_unstable_by_key(|flow| (Reverse(size(flow)), flow.key));
    flows.truncate(top);
    flows
}
