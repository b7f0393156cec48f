//! The sketches of one window: who talks to whom, who sends, who receives.

use std::hash::Hash;
use std::net::Ipv6Addr;
use std::sync::Arc;

use crane_model::crown::{Crown, WAYS};
use crane_model::encoder::CODE;
use crane_model::packed::Budget;
use crane_model::{Crane, DeviceChoice, Edge, Flow, Settings};

use crate::batch::Batch;
use crate::config;
use crate::edge::{Pair, model_node};
use crate::weights::{self, Loaded};

/// The least memory a sketch can live in: a dense layer and a small crown.
const LEAST: u64 = LAYER + (4 << 10);
/// The least memory the sketches of a window can live in.
pub const FLOOR: u64 = 64 << 10;
const _: () = assert!(3 * LEAST <= FLOOR);
/// Bytes of a dense layer.
const LAYER: u64 = (CODE * CODE * size_of::<f32>()) as u64;

/// How sketches are built, whatever their size.
pub struct Blueprint {
    weights: Loaded,
    device: DeviceChoice,
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
    pub fn new(config: &config::Sketch, one_in: u32, seed: u64) -> anyhow::Result<Self> {
        Ok(Self {
            weights: weights::load_for(config.profile, config.weights.as_deref())?,
            device: config.device,
            node_percent: config.node_percent,
            one_in,
            seed,
        })
    }

    /// Sketches that never weigh more than `budget`. They start with half of
    /// it and grow when they are full.
    pub fn build(&self, budget: u64) -> crane_model::Result<Sketches> {
        // Everyone has the least; what is beyond is shared out.
        let more = budget.saturating_sub(3 * LEAST);
        let nodes = LEAST + more * u64::from(self.node_percent) / 100 / 2;
        let pairs = LEAST + more - 2 * (nodes - LEAST);
        Ok(Sketches {
            one_in: self.one_in,
            pairs: self.crane(pairs, Pair::model_edge)?,
            sources: self.crane(nodes, model_node)?,
            destinations: self.crane(nodes, model_node)?,
        })
    }

    fn crane<K: Copy + Eq + Hash>(
        &self,
        budget: u64,
        to_edge: fn(&K) -> Edge,
    ) -> crane_model::Result<Crane<K>> {
        match &self.weights {
            Loaded::Packed(weights) => {
                let most = budget as usize;
                let budget = Budget {
                    start: most / 2,
                    most,
                };
                Crane::packed(Arc::clone(weights), budget, self.seed, self.device)
            }
            Loaded::Paper(weights) => {
                // At most half of the memory is layers, the rest is crown.
                let most = (budget / 2 / LAYER) as usize;
                let max_layers = weights.layers.len().min(most).max(1);
                let settings = Settings {
                    max_layers,
                    ..Settings::of(weights)
                };
                let layers = self.device.open(Arc::clone(weights), settings)?;
                let crown = budget as usize - max_layers * LAYER as usize;
                let slots = crown / Crown::<K>::ENTRY / WAYS * WAYS;
                Ok(Crane::new(layers, slots, self.seed, to_edge))
            }
        }
    }

    /// Where sketches run, for people.
    pub fn device_name(&self) -> crane_model::Result<String> {
        let sketches = self.build(FLOOR)?;
        Ok(sketches.pairs.layers().device_name())
    }
}

impl Sketches {
    /// Bytes of all three.
    pub fn memory_bytes(&self) -> usize {
        self.pairs.memory_bytes() + self.sources.memory_bytes() + self.destinations.memory_bytes()
    }

    /// Bytes that were of use.
    pub fn needed_bytes(&self) -> u64 {
        let needed = [
            self.pairs.needed_bytes(),
            self.sources.needed_bytes(),
            self.destinations.needed_bytes(),
        ];
        needed.iter().sum::<usize>() as u64
    }

    /// Whether counts may be too low because a cell is full.
    pub fn is_saturated(&self) -> bool {
        self.pairs.layers().is_saturated()
            || self.sources.layers().is_saturated()
            || self.destinations.layers().is_saturated()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Profile;

    #[test]
    fn a_sample_makes_answers_less_sure() {
        let blueprint = Blueprint::new(&config::Sketch::default(), 4, 1).unwrap();
        let sketches = blueprint.build(FLOOR).unwrap();
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
        for profile in [Profile::Packed, Profile::Paper] {
            for budget in [FLOOR, 100_000, 512 << 10, 4 << 20] {
                let config = config::Sketch {
                    profile,
                    ..Default::default()
                };
                let blueprint = Blueprint::new(&config, 1, 1).unwrap();
                let mut sketches = blueprint.build(budget).unwrap();
                fill(&mut sketches, budget);
                let sources: Vec<_> = sketches.heavy_sources().collect();
                assert_eq!((sources.len(), sources[0].packets), (1, 40_000));
            }
        }
    }

    /// One source, 40,000 destinations.
    fn fill(sketches: &mut Sketches, budget: u64) {
        let mut batch = Batch::default();
        for round in 0..20u32 {
            let edge = |n: u32| crate::edge::Edge {
                pair: Pair::new([10, 0, 0, 1], (round * 2000 + n).to_be_bytes()),
                bytes: 100,
                time: 0,
            };
            let edges: Vec<_> = (0..2000).map(edge).collect();
            batch.fold(&edges, 1);
            sketches.store(&batch).unwrap();
            let weight = sketches.memory_bytes() as u64;
            assert!(weight <= budget, "{weight} > {budget}");
        }
    }
}
