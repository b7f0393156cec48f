//! The paper profile in use: a crown over dense layers.
//!
//! An edge that outgrows the lightest crown entry leaves the layers with what
//! they believe it to have had, and the other is poured back into them. Layers
//! know an edge by its keyed id, both halves of it.

use std::sync::Arc;

use crate::answer::Flow;
use crate::arrival::Arrival;
use crate::codes::Codes;
use crate::crown::{Count, Crown, PLACE, WAYS};
use crate::device::OpenDevice;
use crate::layers::Load;
use crate::name::{AnyName, Name, Narrow, Wide};
use crate::paper::encoder::CODE;
use crate::paper::executor::fused::Fused;
use crate::paper::executor::tensor::TensorExecutor;
use crate::table::{Kept, Tables};
use crate::{Edge, Error, Hierarchy, PaperWeights, Result, Settings, Sketch, Weighted};

/// Bytes of a layer.
const LAYER: usize = CODE * CODE * size_of::<f32>();

/// The least memory for a layer and a small crown.
pub const SMALLEST: usize = LAYER + (4 << 10);

/// Edges that are poured into the layers at once.
const POURED: usize = 4096;

/// Batches smaller than this say too little about the noise of the layers.
const ENOUGH_FOR_NOISE: usize = 32;

/// Weights on a device, ready to run; made once.
pub struct PaperProfile {
    weights: Arc<PaperWeights>,
    executor: Executor,
}

enum Executor {
    Fused(Fused),
    Tensor(TensorExecutor),
}

impl PaperProfile {
    /// Puts the weights on a device.
    pub fn new(weights: Arc<PaperWeights>, device: &OpenDevice) -> Result<Self> {
        let executor = match &device.device {
            None => Executor::Fused(Fused::new(Arc::clone(&weights))),
            Some(open) => {
                let name = device.name().to_owned();
                Executor::Tensor(TensorExecutor::new(&weights, open.clone(), name)?)
            }
        };
        Ok(Self { weights, executor })
    }

    /// Empty layers.
    pub fn layers(&self, settings: Settings) -> Result<Box<dyn Sketch>> {
        let weights = Arc::clone(&self.weights);
        Ok(match &self.executor {
            Executor::Fused(fused) => Box::new(Hierarchy::new(fused.clone(), weights, settings)?),
            Executor::Tensor(tensor) => {
                Box::new(Hierarchy::new(tensor.clone(), weights, settings)?)
            }
        })
    }
}

/// A crown over layers. See the head of this module.
pub struct Paper {
    layers: Box<dyn Sketch>,
    crown: Crown,
    codes: Codes,
    noise: f64,
}

impl Paper {
    /// An empty one of at most `bytes`: half of it for layers, the rest for
    /// the crown.
    pub fn new(profile: &PaperProfile, codes: &Codes, bytes: usize) -> Result<Self> {
        if bytes < SMALLEST {
            return Err(Error::Setting {
                name: "memory",
                value: format!("{bytes} bytes"),
                allowed: format!("a layer and a crown need {SMALLEST} or more"),
            });
        }
        let max_layers = (bytes / 2 / LAYER).clamp(1, profile.weights.layers.len());
        let settings = Settings {
            max_layers,
            ..Settings::of(&profile.weights)
        };
        let places = (bytes - max_layers * LAYER) / PLACE / WAYS * WAYS;
        Ok(Self {
            layers: profile.layers(settings)?,
            crown: Crown::new(places),
            codes: codes.clone(),
            noise: 0.0,
        })
    }

    /// Takes over all that was in tables.
    pub fn pour(&mut self, tables: &Tables) -> Result<()> {
        let mut below = Vec::new();
        self.pour_names::<Narrow>(tables, &mut below);
        self.pour_names::<Wide>(tables, &mut below);
        below
            .chunks(POURED)
            .try_for_each(|edges| self.layers.store(edges))
    }

    fn pour_names<N: Kept>(&mut self, tables: &Tables, below: &mut Vec<Weighted>) {
        let mut gone = Vec::new();
        for (name, _, total) in tables.of::<N>().entries() {
            let id = self.codes.id(&name);
            let spot = self.codes.spot(id);
            let count = Count::exact(total.packets, total.bytes);
            if count.rank() > self.crown.lightest::<N>(spot) {
                self.crown.admit(spot, &name, count, &mut gone);
            } else {
                below.push(Weighted::new(edge(id), total.packets));
            }
        }
        below.extend(self.weighted(&gone));
    }

    fn weighted(&self, gone: &[(AnyName, Count)]) -> Vec<Weighted> {
        let edge = |name: &AnyName| edge(self.codes.id_of_any(name));
        gone.iter()
            .map(|(name, count)| Weighted::new(edge(name), count.packets))
            .collect()
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store<N: Name>(&mut self, batch: &[Arrival<N>]) -> Result<()> {
        let (crown, codes) = (&mut self.crown, &self.codes);
        let mut gone = Vec::new();
        let rest = batch.iter().filter(|a| {
            a.packets > 0 && !crown.count(codes.spot(a.id), &a.name, a.packets, a.bytes)
        });
        let rest: Vec<&Arrival<N>> = rest.collect();
        if rest.is_empty() {
            return Ok(());
        }
        let weighted: Vec<Weighted> = rest
            .iter()
            .map(|a| Weighted::new(edge(a.id), a.packets))
            .collect();
        let ratios = self.layers.store_and_query(&weighted)?;
        let bounds: Vec<f64> = ratios
            .iter()
            .map(|ratios| self.layers.bound(ratios))
            .collect();
        self.learn_noise(&rest, &bounds);
        for (arrival, bound) in rest.into_iter().zip(bounds) {
            let spot = self.codes.spot(arrival.id);
            let lightest = self.crown.lightest::<N>(spot);
            let count = count_on_admission(arrival, bound, self.noise, lightest);
            if count.rank() > lightest {
                self.layers.take(edge(arrival.id), count.packets)?;
                self.crown.admit(spot, &arrival.name, count, &mut gone);
            }
        }
        match gone.is_empty() {
            true => Ok(()),
            false => self.layers.store(&self.weighted(&gone)),
        }
    }

    /// The layers answer too high, most of them by about the same: by what
    /// the median edge of a batch has beyond its own packets.
    fn learn_noise<N>(&mut self, rest: &[&Arrival<N>], bounds: &[f64]) {
        if rest.len() < ENOUGH_FOR_NOISE {
            return;
        }
        let beyond = rest
            .iter()
            .zip(bounds)
            .map(|(a, bound)| (bound - a.packets as f64).max(0.0));
        let mut beyond: Vec<f64> = beyond.collect();
        let middle = beyond.len() / 2;
        self.noise = *beyond.select_nth_unstable_by(middle, f64::total_cmp).1;
    }

    /// What is known of each of these edges.
    pub fn flows<N: Name>(&self, names: &[N]) -> Result<Vec<Flow<N>>> {
        let ids: Vec<u64> = names.iter().map(|name| self.codes.id(name)).collect();
        let edges: Vec<Edge> = ids.iter().map(|id| edge(*id)).collect();
        let ratios = self.layers.ratios(&edges)?;
        let edges = names.iter().zip(ids).zip(ratios);
        Ok(edges
            .map(|((name, id), ratios)| {
                if let Some(count) = self.crown.get(self.codes.spot(id), name) {
                    return Flow::of_crown(*name, &count);
                }
                let high = self.layers.bound(&ratios).ceil() as u64;
                let packets = self.layers.decode(&ratios).round() as u64;
                Flow::of_layers(*name, [0, packets, high.max(packets)])
            })
            .collect())
    }

    /// The table of heavy edges.
    pub fn crown(&self) -> &Crown {
        &self.crown
    }

    /// How full each layer is, bottom first.
    pub fn loads(&self) -> &[Load] {
        self.layers.loads()
    }

    /// Layers added since the start.
    pub fn expansions(&self) -> usize {
        self.layers.expansions()
    }

    /// Whether a cell has reached its limit.
    pub fn is_saturated(&self) -> bool {
        self.layers.is_saturated()
    }

    /// Bytes of layers and crown.
    pub fn memory_bytes(&self) -> usize {
        self.layers.memory_bytes() + self.crown.memory_bytes()
    }
}

fn edge(id: u64) -> Edge {
    Edge::of_name([id])
}

/// The layers say at most `bound`, of which `noise` is usually not the edge's
/// own. They can be wrong without limit where many edges share cells, so they
/// are believed no further than the rank of the lightest: no admission then adds
/// more to the crown than the packets that arrived, as in Space-Saving.
fn count_on_admission<N>(arrival: &Arrival<N>, bound: f64, noise: f64, lightest: u64) -> Count {
    let mean_bytes = arrival.bytes / arrival.packets.max(1);
    let limit = (bound as u64).saturating_sub(arrival.packets);
    let believed = ((bound - noise) as u64).saturating_sub(arrival.packets);
    let earlier = believed.min(lightest);
    Count {
        packets: arrival.packets.saturating_add(earlier),
        slack: limit.saturating_sub(earlier).max(earlier),
        bytes: arrival.bytes,
        // Of what the layers hold nothing is known, not even that it is nothing.
        all_bytes: false,
        guessed_bytes: earlier.saturating_mul(mean_bytes),
    }
}
