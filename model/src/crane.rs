//! Crane: a table that grows, then layers with a crown, in one of two profiles.
//!
//! A sketch starts small, as a table of all edges ([`crate::table`]). When the
//! table is full it asks for twice the memory; when there is no more to be had,
//! everything is poured into layers that take all it may have. While it is
//! poured both are there: twice the memory, for milliseconds.

use std::sync::Arc;

use crate::answer::Flow;
use crate::arrival::Arrival;
use crate::codes::Codes;
use crate::device::OpenDevice;
use crate::layers::Load;
use crate::memory::Allowance;
use crate::packed::{self, Ablation, Packed, PackedWeights, Placement};
use crate::paper::{self, Paper};
use crate::secret::Secret;
use crate::table::{Kept, Tables, Total};
use crate::{Error, PaperWeights, Result};

/// What all sketches of a process share: weights on an open device.
pub struct Profile {
    kind: Kind,
    device: String,
}

enum Kind {
    Packed(packed::PackedProfile),
    Paper(paper::PaperProfile),
}

impl Profile {
    /// Narrow cells, for real traffic.
    pub fn packed(weights: Arc<PackedWeights>, device: &OpenDevice) -> Self {
        Self::packed_with(weights, device, Ablation::ALL)
    }

    /// The same without some parts, to see what they are worth.
    pub fn packed_with(
        weights: Arc<PackedWeights>,
        device: &OpenDevice,
        ablation: Ablation,
    ) -> Self {
        Self {
            kind: Kind::Packed(packed::PackedProfile {
                weights,
                placement: Placement::on(device),
                ablation,
            }),
            device: device.name().into(),
        }
    }

    /// Dense layers, as in the paper.
    pub fn paper(weights: Arc<PaperWeights>, device: &OpenDevice) -> Result<Self> {
        Ok(Self {
            kind: Kind::Paper(paper::PaperProfile::new(weights, device)?),
            device: device.name().into(),
        })
    }

    /// The least memory a sketch can live in.
    pub fn least(&self) -> usize {
        match self.kind {
            Kind::Packed(_) => packed::shape::SMALLEST,
            Kind::Paper(_) => paper::SMALLEST,
        }
    }

    /// Where sketches live, for people.
    pub fn device_name(&self) -> &str {
        &self.device
    }
}

/// A sketch of an edge stream with its heavy hitters, for one window.
pub struct Crane {
    pub(crate) profile: Arc<Profile>,
    pub(crate) codes: Codes,
    pub(crate) allowance: Allowance,
    pub(crate) store: Store,
    expansions: usize,
}

/// Where edges are.
// A sketch is made once and used for long: its size does not matter.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Store {
    /// All of them by name.
    Tables(Tables),
    /// Most in narrow cells, the heaviest by name.
    Packed(Packed),
    /// Most in dense layers, the heaviest by name.
    Paper(Paper),
}

impl Crane {
    /// An empty sketch for the window numbered `window`, which starts as a
    /// table.
    pub fn new(
        profile: &Arc<Profile>,
        secret: Secret,
        window: u64,
        allowance: Allowance,
    ) -> Result<Self> {
        let least = profile.least();
        if allowance.held() < least {
            return Err(Error::Setting {
                name: "memory",
                value: format!("{} bytes", allowance.held()),
                allowed: format!("layers and a crown need {least} or more"),
            });
        }
        let learned = match &profile.kind {
            Kind::Packed(packed) => packed.weights.encoders.clone(),
            Kind::Paper(_) => None,
        };
        Ok(Self {
            codes: Codes::new(secret, window, learned),
            store: Store::Tables(Tables::new(allowance.held())),
            profile: Arc::clone(profile),
            allowance,
            expansions: 0,
        })
    }

    /// The same with layers from the start, which take all there is.
    pub fn layered(
        profile: &Arc<Profile>,
        secret: Secret,
        window: u64,
        allowance: Allowance,
    ) -> Result<Self> {
        let mut crane = Self::new(profile, secret, window, allowance)?;
        let bytes = crane.allowance.reach_most();
        crane.store = crane.layers(bytes, &Tables::new(0))?;
        Ok(crane)
    }

    /// Layers of `bytes` that hold what is in `tables`.
    fn layers(&self, bytes: usize, tables: &Tables) -> Result<Store> {
        Ok(match &self.profile.kind {
            Kind::Packed(profile) => {
                let mut packed = Packed::new(profile, &self.codes, bytes)?;
                packed.pour(tables)?;
                Store::Packed(packed)
            }
            Kind::Paper(profile) => {
                let mut paper = Paper::new(profile, &self.codes, bytes)?;
                paper.pour(tables)?;
                Store::Paper(paper)
            }
        })
    }

    /// An empty sketch of the packed profile, to be filled from a saved state.
    pub(crate) fn empty_packed(&self, bytes: usize) -> Result<Packed> {
        match &self.profile.kind {
            Kind::Packed(profile) => Packed::new(profile, &self.codes, bytes),
            Kind::Paper(_) => Err(Error::State("it is one of the packed profile".into())),
        }
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store<N: Kept>(&mut self, batch: &[Arrival<N>]) -> Result<()> {
        let mut rest = batch;
        while let Store::Tables(tables) = &mut self.store {
            let table = tables.of_mut::<N>();
            let mut arrivals = rest.iter();
            let full = arrivals.position(|a| {
                a.packets > 0 && !table.add(a.name, self.codes.tag(a.id), a.packets, a.bytes)
            });
            let Some(full) = full else {
                return Ok(());
            };
            rest = &rest[full..];
            if let Some(layers) = self.grow::<N>()? {
                self.store = layers;
            }
        }
        match &mut self.store {
            Store::Packed(packed) => packed.store(rest),
            Store::Paper(paper) => paper.store(rest),
            Store::Tables(_) => Ok(()),
        }
    }

    /// Makes the table of names of this kind larger; where there is no memory
    /// for that, or no use in it, the layers that take its place.
    fn grow<N: Kept>(&mut self) -> Result<Option<Store>> {
        let Store::Tables(tables) = &mut self.store else {
            return Ok(None);
        };
        self.expansions += 1;
        let doubled = tables.doubled::<N>(self.allowance.most());
        let larger = doubled.filter(|bytes| self.allowance.reach(*bytes));
        if larger.is_some_and(|bytes| tables.resize::<N>(bytes)) {
            return Ok(None);
        }
        let bytes = self.allowance.reach_most();
        let Store::Tables(tables) = &self.store else {
            return Ok(None);
        };
        self.layers(bytes, tables).map(Some)
    }

    /// What is known of an edge.
    pub fn flow<N: Kept>(&self, name: N) -> Result<Flow<N>> {
        let flows = self.flows(&[name])?;
        let flow = flows.first().copied();
        flow.ok_or_else(|| Error::State("an edge without an answer".into()))
    }

    /// What is known of each of these edges.
    pub fn flows<N: Kept>(&self, names: &[N]) -> Result<Vec<Flow<N>>> {
        match &self.store {
            Store::Tables(tables) => {
                let flow = |name: &N| Flow::of_table(*name, self.kept(tables, name));
                Ok(names.iter().map(flow).collect())
            }
            Store::Packed(packed) => packed.flows(names),
            Store::Paper(paper) => paper.flows(names),
        }
    }

    fn kept<N: Kept>(&self, tables: &Tables, name: &N) -> Total {
        let tag = self.codes.tag(self.codes.id(name));
        tables.of::<N>().get(name, tag)
    }

    /// The upper bound of each of these edges: none has had more.
    pub fn bounds<N: Kept>(&self, names: &[N]) -> Result<Vec<u64>> {
        match &self.store {
            Store::Packed(packed) => packed.bounds(names),
            Store::Tables(_) | Store::Paper(_) => {
                Ok(self.flows(names)?.iter().map(|flow| flow.high).collect())
            }
        }
    }

    /// All edges that are known by a name of this kind, in no particular order:
    /// all there are, or the heaviest.
    pub fn named<N: Kept>(&self) -> impl Iterator<Item = Flow<N>> {
        let (tables, crown) = match &self.store {
            Store::Tables(tables) => (Some(tables), None),
            Store::Packed(packed) => (None, Some(packed.crown())),
            Store::Paper(paper) => (None, Some(paper.crown())),
        };
        let kept = tables.into_iter().flat_map(|tables| {
            let entries = tables.of::<N>().entries();
            entries.map(|(name, _, total)| Flow::of_table(name, total))
        });
        let crowned = crown.into_iter().flat_map(|crown| crown.entries());
        let crowned =
            crowned.filter_map(|(name, count)| Some(Flow::of_crown(N::of(name)?, &count)));
        kept.chain(crowned)
    }

    /// Whether every edge is known by name, and exactly.
    pub fn is_exact(&self) -> bool {
        matches!(self.store, Store::Tables(_))
    }

    /// How full the table is, or each layer, bottom first.
    pub fn loads(&self) -> Result<Vec<Load>> {
        match &self.store {
            Store::Tables(tables) => Ok(vec![Load {
                mean: tables.fill(),
                max: tables.fill(),
                typical: tables.fill(),
            }]),
            Store::Packed(packed) => packed.loads(),
            Store::Paper(paper) => Ok(paper.loads().to_vec()),
        }
    }

    /// How often it has grown.
    pub fn expansions(&self) -> usize {
        match &self.store {
            Store::Paper(paper) => self.expansions + paper.expansions(),
            Store::Tables(_) | Store::Packed(_) => self.expansions,
        }
    }

    /// Whether a cell has reached its limit, so that counts may be too low.
    pub fn is_saturated(&self) -> Result<bool> {
        match &self.store {
            Store::Tables(_) => Ok(false),
            Store::Packed(packed) => packed.is_saturated(),
            Store::Paper(paper) => Ok(paper.is_saturated()),
        }
    }

    /// Bytes of everything that answers come from.
    pub fn memory_bytes(&self) -> usize {
        match &self.store {
            Store::Tables(tables) => tables.memory_bytes(),
            Store::Packed(packed) => packed.memory_bytes(),
            Store::Paper(paper) => paper.memory_bytes(),
        }
    }
}
