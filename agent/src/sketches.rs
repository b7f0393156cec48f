//! The sketches of one window: who talks to whom, who sends, who receives.

use std::hash::Hash;
use std::net::Ipv6Addr;
use std::sync::Arc;

use crane_model::crown::Slot;
use crane_model::encoder::CODE;
use crane_model::{Crane, DeviceChoice, Edge, Flow, Settings, Weights};

use crate::batch::Batch;
use crate::config;
use crate::edge::{Pair, model_node};

/// Bytes of a layer.
const LAYER: u64 = (CODE * CODE * size_of::<f32>()) as u64;
/// The least memory a sketch can live in: a layer and a small crown.
const LEAST: u64 = LAYER + (4 << 10);
/// The least memory the sketches of a window can live in.
pub const FLOOR: u64 = 64 << 10;
const _: () = assert!(3 * LEAST <= FLOOR);

/// How sketches are built, whatever their size.
pub struct Blueprint {
    weights: Arc<Weights>,
    device: DeviceChoice,
    max_layers: usize,
    node_percent: u8,
    one_in: u32,
    seed: u64,
}

/// Three sketches of the same packets.
pub struct Sketches {
    /// Each packet stands for this many.
    one_in: u32,
    /// By source and destination.
    pub pairs: Crane<Pair>,
    /// By source.
    pub sources: Crane<Ipv6Addr>,
    /// By destination.
    pub destinations: Crane<Ipv6Addr>,
}

impl Blueprint {
    /// Sketches as `config` wants them, of one packet in so many.
    pub fn new(config: &config::Sketch, weights: Weights, one_in: u32, seed: u64) -> Self {
        Self {
            weights: Arc::new(weights),
            device: config.device,
            max_layers: config.max_layers,
            node_percent: config.node_percent,
            one_in,
            seed,
        }
    }

    /// Sketches that never weigh more than `budget`, with as many layers at
    /// the start as the `previous` ones needed.
    pub fn build(&self, budget: u64, previous: Option<&Sketches>) -> crane_model::Result<Sketches> {
        // Everyone has a layer and a small crown; what is beyond is shared out.
        let more = budget.saturating_sub(3 * LEAST);
        let nodes = LEAST + more * u64::from(self.node_percent) / 100 / 2;
        let pairs = LEAST + more - 2 * (nodes - LEAST);
        let layers = |needed: fn(&Sketches) -> usize| previous.map_or(1, needed);
        Ok(Sketches {
            one_in: self.one_in,
            pairs: self.crane(pairs, layers(|s| in_use(&s.pairs)), Pair::model_edge)?,
            sources: self.crane(nodes, layers(|s| in_use(&s.sources)), model_node)?,
            destinations: self.crane(nodes, layers(|s| in_use(&s.destinations)), model_node)?,
        })
    }

    /// At most half of the memory is layers, the rest is crown.
    fn crane<K: Copy + Eq + Hash>(
        &self,
        budget: u64,
        start_layers: usize,
        to_edge: fn(&K) -> Edge,
    ) -> crane_model::Result<Crane<K>> {
        let max_layers = self.max_layers.min((budget / 2 / LAYER) as usize).max(1);
        let settings = Settings {
            start_layers: start_layers.min(max_layers),
            max_layers,
            ..Settings::of(&self.weights)
        };
        let layers = self.device.open(Arc::clone(&self.weights), settings)?;
        let crown = budget.saturating_sub(max_layers as u64 * LAYER);
        // Rounded down to whole buckets, which the crown would round up.
        let slots = (crown as usize / entry_bytes::<K>()) / 8 * 8;
        Ok(Crane::new(layers, slots, self.seed, to_edge))
    }

    /// Where sketches run, for people.
    pub fn device_name(&self) -> crane_model::Result<String> {
        let layers = self
            .device
            .open(Arc::clone(&self.weights), Settings::of(&self.weights))?;
        Ok(layers.device_name())
    }
}

impl Sketches {
    /// Bytes of all three.
    pub fn memory_bytes(&self) -> usize {
        self.pairs.memory_bytes() + self.sources.memory_bytes() + self.destinations.memory_bytes()
    }

    /// Bytes that were of use.
    pub fn needed_bytes(&self) -> u64 {
        needed(&self.pairs) + needed(&self.sources) + needed(&self.destinations)
    }

    /// Whether counts may be too low because a cell is full.
    pub fn is_saturated(&self) -> bool {
        let layers = [
            self.pairs.layers(),
            self.sources.layers(),
            self.destinations.layers(),
        ];
        layers.iter().any(|layers| layers.is_saturated())
    }

    /// The heaviest pairs.
    pub fn heavy_pairs(&self) -> impl Iterator<Item = Flow<Pair>> {
        self.pairs.heavy().map(|flow| self.honest(flow))
    }

    /// The heaviest senders.
    pub fn heavy_sources(&self) -> impl Iterator<Item = Flow<Ipv6Addr>> {
        self.sources.heavy().map(|flow| self.honest(flow))
    }

    /// The heaviest receivers.
    pub fn heavy_destinations(&self) -> impl Iterator<Item = Flow<Ipv6Addr>> {
        self.destinations.heavy().map(|flow| self.honest(flow))
    }

    /// What is known of a pair.
    pub fn pair(&self, pair: Pair) -> crane_model::Result<Flow<Pair>> {
        Ok(self.honest(self.pairs.flow(pair)?))
    }

    /// What a node sends and receives.
    pub fn node(&self, node: Ipv6Addr) -> crane_model::Result<[Flow<Ipv6Addr>; 2]> {
        let ends = [self.sources.flow(node)?, self.destinations.flow(node)?];
        Ok(ends.map(|flow| self.honest(flow)))
    }

    /// An answer of a sketch, no surer of itself than sampling allows: three
    /// standard deviations to both sides, but no fewer than were seen.
    fn honest<K>(&self, flow: Flow<K>) -> Flow<K> {
        if self.one_in == 1 {
            return flow;
        }
        let one_in = u64::from(self.one_in);
        let spread = (flow.packets.saturating_mul(one_in - 1) as f64).sqrt();
        let spread = (3.0 * spread).ceil() as u64;
        Flow {
            low: flow.low.saturating_sub(spread).max(flow.low / one_in),
            high: flow.high.saturating_add(spread),
            ..flow
        }
    }

    /// Stores a batch in all three.
    pub fn store(&mut self, batch: &Batch) -> crane_model::Result<()> {
        self.pairs.store(batch.pairs())?;
        self.sources.store(batch.sources())?;
        self.destinations.store(batch.destinations())
    }
}

fn entry_bytes<K>() -> usize {
    size_of::<Option<Slot<K>>>()
}

/// Layers that hold anything.
fn in_use<K: Copy + Eq + Hash>(crane: &Crane<K>) -> usize {
    let loads = crane.layers().loads();
    loads.iter().filter(|load| load.mean > 0.0).count().max(1)
}

fn needed<K: Copy + Eq + Hash>(crane: &Crane<K>) -> u64 {
    let entries = crane.heavy().count() * entry_bytes::<K>();
    in_use(crane) as u64 * LAYER + entries as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_makes_answers_less_sure() {
        let weights = crate::weights::load(None).unwrap();
        let blueprint = Blueprint::new(&config::Sketch::default(), weights, 4, 1);
        let sketches = blueprint.build(FLOOR, None).unwrap();
        let flow = |packets| Flow {
            key: (),
            packets,
            bytes: 0,
            low: packets,
            high: packets,
        };
        let sure = sketches.honest(flow(40_000));
        assert_eq!(
            (sure.low, sure.packets, sure.high),
            (38_960, 40_000, 41_040)
        );
        let small = sketches.honest(flow(8));
        assert_eq!((small.low, small.high), (2, 23), "two were seen");
    }

    #[test]
    fn sketches_keep_to_their_budget() {
        let weights = crate::weights::load(None).unwrap();
        let blueprint = Blueprint::new(&config::Sketch::default(), weights, 1, 1);
        for budget in [FLOOR, 100_000, 512 << 10, 4 << 20] {
            let mut sketches = blueprint.build(budget, None).unwrap();
            let mut batch = Batch::default();
            for round in 0..20u32 {
                let edges: Vec<crate::edge::Edge> = (0..2000u32)
                    .map(|n| crate::edge::Edge {
                        pair: Pair::new([10, 0, 0, 1], (round * 2000 + n).to_be_bytes()),
                        bytes: 100,
                        time: 0,
                    })
                    .collect();
                batch.fold(&edges, 1);
                sketches.store(&batch).unwrap();
            }
            assert!(
                sketches.memory_bytes() as u64 <= budget,
                "{} > {budget}",
                sketches.memory_bytes()
            );
            assert!(sketches.needed_bytes() <= budget);
            let heavy: Vec<_> = sketches.sources.heavy().collect();
            assert_eq!((heavy.len(), heavy[0].packets), (1, 40_000));
        }
    }
}
