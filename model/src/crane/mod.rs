//! Crane: a table that grows, then layers with a crown, in one of two profiles.
//!
//! A sketch starts small, as a table of all edges ([`crate::table`]). When the
//! table is full it asks for twice the memory; when there is no more to be had,
//! everything is poured into layers that take all it may have (`growth`).
//! From then on the heaviest edges are in the crown ([`crate::crown`]) and all
//! others in the layers ([`crate::layers`]); `admission` says who moves.
//!
//! | module | holds |
//! |---|---|
//! | `profile` | which layers there will be |
//! | `growth` | a table becomes a larger one, or layers |
//! | `admission` | storing a batch in crown and layers |
//! | `answers` | asking them |
//! | `sums` | asking them about many edges at once, known or not |
//! | `inside` | what it looks like inside |
//! | `unnamed` | what an edge may have had that is not known by name |
//! | `state` | saving a sketch, and answering in another process |

mod admission;
mod answers;
mod growth;
mod inside;
mod profile;
mod state;
mod sums;
mod unnamed;

use std::sync::Arc;

use crate::answer::Flow;
use crate::arrival::Arrival;
use crate::codes::Codes;
use crate::layers::Load;
use crate::memory::Allowance;
use crate::secret::Secret;
use crate::table::{Kept, Tables, Total};
use crate::{Error, Result};

pub use inside::{Inside, Judged};
pub use profile::Profile;

pub(crate) use admission::Layered;

/// A sketch of an edge stream with its heavy hitters, for one window.
pub struct Crane {
    profile: Arc<Profile>,
    codes: Codes,
    allowance: Allowance,
    store: Store,
    /// Whether layers have a sample beside them.
    sampled: bool,
    expansions: usize,
}

/// Where edges are.
// A sketch is made once and used for long: its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Store {
    /// All of them by name.
    Tables(Tables),
    /// The heaviest by name, the others in layers.
    Layered(Layered),
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
        Ok(Self {
            codes: Codes::new(secret, window),
            store: Store::Tables(Tables::new(allowance.held())),
            profile: Arc::clone(profile),
            allowance,
            sampled: false,
            expansions: 0,
        })
    }

    /// The same that keeps a sample as soon as it has layers, for
    /// [`sum`](Self::sum). One byte in sixteen is for it ([`crate::sample`]).
    pub fn with_sample(self) -> Self {
        Self {
            sampled: true,
            ..self
        }
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
        crane.store = Store::Layered(crane.poured(bytes, &Tables::new(0))?);
        Ok(crane)
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store<N: Kept>(&mut self, batch: &[Arrival<N>]) -> Result<()> {
        let mut rest = batch;
        loop {
            match &mut self.store {
                Store::Layered(layered) => return layered.store(rest),
                Store::Tables(tables) => {
                    let table = tables.of_mut::<N>();
                    let full = rest.iter().position(|a| {
                        let tag = self.codes.tag(a.id);
                        a.packets > 0 && !table.add(a.name, tag, a.packets, a.bytes)
                    });
                    let Some(full) = full else {
                        return Ok(());
                    };
                    rest = &rest[full..];
                    self.grow::<N>()?;
                }
            }
        }
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
            Store::Layered(layered) => layered.flows(names),
            Store::Tables(tables) => {
                let flow = |name: &N| {
                    let tag = self.codes.tag(self.codes.id(name));
                    Flow::exact(*name, tables.of::<N>().get(name, tag))
                };
                Ok(names.iter().map(flow).collect())
            }
        }
    }

    /// The upper bound of each of these edges.
    pub fn bounds<N: Kept>(&self, names: &[N]) -> Result<Vec<u64>> {
        match &self.store {
            Store::Layered(layered) => layered.bounds(names),
            Store::Tables(_) => Ok(self
                .flows(names)?
                .iter()
                .map(|flow| flow.packets.high)
                .collect()),
        }
    }

    /// All edges that are known by a name of this kind, in no particular order:
    /// all there are, or the heaviest.
    pub fn named<N: Kept>(&self) -> impl Iterator<Item = Flow<N>> {
        let (tables, layered) = match &self.store {
            Store::Tables(tables) => (Some(tables), None),
            Store::Layered(layered) => (None, Some(layered)),
        };
        let kept = tables.into_iter().flat_map(|tables| {
            let entries = tables.of::<N>().entries();
            entries.map(|(name, _, total)| Flow::exact(name, total))
        });
        kept.chain(layered.into_iter().flat_map(Layered::named))
    }

    /// The names of all these edges.
    pub fn names<N: Kept>(&self) -> impl Iterator<Item = N> {
        let (tables, layered) = match &self.store {
            Store::Tables(tables) => (Some(tables), None),
            Store::Layered(layered) => (None, Some(layered)),
        };
        let kept = tables.into_iter().flat_map(|tables| {
            let entries = tables.of::<N>().entries();
            entries.map(|(name, ..)| name)
        });
        kept.chain(layered.into_iter().flat_map(Layered::names))
    }

    /// Crown and layers, once there are any.
    pub(crate) fn below_table(&self) -> Option<&Layered> {
        match &self.store {
            Store::Tables(_) => None,
            Store::Layered(layered) => Some(layered),
        }
    }

    /// Whether every edge is known by name, and exactly.
    pub fn is_exact(&self) -> bool {
        matches!(self.store, Store::Tables(_))
    }

    /// How many edges there are: exact while all of them fit, an estimate
    /// afterwards, none if nothing tells.
    pub fn distinct(&self) -> Option<u64> {
        match &self.store {
            Store::Tables(tables) => Some(tables.len() as u64),
            Store::Layered(layered) => {
                let distinct = layered.witnesses.distinct();
                (distinct > 0.0).then_some(distinct.round() as u64)
            }
        }
    }

    /// How many packets an edge may have had that [`named`](Self::named) leaves
    /// out, and how many bytes: among those with more the list is complete. Nothing
    /// while all are in it.
    pub fn most_unnamed(&self) -> Total {
        let below = self.below_table();
        below.map_or(Total::default(), Layered::most_unnamed)
    }

    /// How full the table is, or each layer, bottom first.
    pub fn loads(&self) -> Result<Vec<Load>> {
        match &self.store {
            Store::Layered(layered) => layered.layers().loads(),
            Store::Tables(tables) => Ok(vec![Load {
                mean: tables.fill(),
                max: tables.fill(),
                typical: tables.fill(),
            }]),
        }
    }

    /// How often it has grown.
    pub fn expansions(&self) -> usize {
        let layers = self.below_table().map(Layered::layers);
        self.expansions + layers.map_or(0, |layers| layers.expansions())
    }

    /// Whether a cell has reached its limit, so that counts may be too low.
    pub fn is_saturated(&self) -> Result<bool> {
        let layers = self.below_table().map(Layered::layers);
        layers.map_or(Ok(false), |layers| layers.is_saturated())
    }

    /// Bytes of everything that answers come from.
    pub fn memory_bytes(&self) -> usize {
        match &self.store {
            Store::Tables(tables) => tables.memory_bytes(),
            Store::Layered(layered) => layered.memory_bytes(),
        }
    }
}
