//! The sketch: a table that grows, then layers below a crown.
//!
//! A sketch starts as a small table of all edges ([`crate::table`]). When the table is
//! full it asks its [`Allowance`] for twice the memory. When no more memory is available,
//! all entries are moved to a crown and layers that take the whole allowance (`growth`).
//! From then on the heaviest edges are counted in the crown ([`crate::crown`]) and all
//! others in the layers ([`crate::layers`]); `admission` decides which edges move between
//! the two.
//!
//! **Accuracy.** Exact while it is a table. Afterwards exact for the packets that the
//! crown has counted; for the rest see [`crate::packed`] or [`crate::paper`]. **Cost.**
//! Memory never exceeds the allowance, except while entries are moved: then the old and
//! the new store exist at the same time, for some milliseconds. Storing an arrival costs
//! O(1).
//!
//! | module | contents |
//! |---|---|
//! | `profile` | the kind of layers |
//! | `growth` | replacing a full table by a larger one or by layers |
//! | `admission` | storing a batch in crown and layers |
//! | `answers` | answers from crown and layers |
//! | `counted` | counters of edges known by name, for differences |
//! | `sums` | sums over any set of edges |
//! | `details` | internal figures: fill, memory, coverage of the intervals |
//! | `unnamed` | upper bounds for edges that are not known by name |
//! | `state` | saving and loading |

mod admission;
mod answers;
mod counted;
mod details;
mod growth;
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
use crate::name::AnyName;
use crate::scratch::Scratch;
use crate::secret::Secret;
use crate::table::{Table, TableKey, Tables, Total};
use crate::{Error, Result};

pub use counted::Counted;
pub use details::{SketchDetails, WitnessCoverage};
pub use profile::Profile;

pub(crate) use admission::Layered;

/// Places of a table that are fetched at once.
const AHEAD: usize = 32;

/// A sketch of the edge stream of one window.
///
/// ```
/// use std::sync::Arc;
/// use crane_model::name::Narrow;
/// use crane_model::{Allowance, Arrival, Crane, DeviceChoice, PackedWeights, Profile, Secret};
///
/// # fn main() -> crane_model::Result<()> {
/// let device = DeviceChoice::Cpu.open()?;
/// let profile = Arc::new(Profile::packed(Arc::new(PackedWeights::built_in()?), &device));
/// let secret = Secret::from_seed(1);
/// let empty = || Crane::new(&profile, secret, 0, Allowance::alone(8 << 10, 64 << 10));
///
/// let mut sketch = empty()?;
/// sketch.store(&[
///     Arrival::new(&secret, [1], 10, 600),
///     Arrival::new(&secret, [2], 1, 1500),
/// ])?;
/// assert!(sketch.is_exact());
/// assert_eq!(sketch.distinct(), Some(2));
/// assert_eq!(sketch.named::<Narrow>().count(), 2);
/// // An edge that never occurred.
/// assert_eq!(sketch.flow([3])?.packets.at_most, Some(0));
///
/// // A saved sketch gives the same answers in another process.
/// let mut loaded = empty()?;
/// loaded.load_state(&sketch.save_state()?)?;
/// assert_eq!(loaded.flow([1])?, sketch.flow([1])?);
/// # Ok(())
/// # }
/// ```
pub struct Crane {
    profile: Arc<Profile>,
    codes: Codes,
    allowance: Allowance,
    store: Store,
    /// Whether a [sample](crate::sample) is kept beside the layers.
    sampled: bool,
    expansions: usize,
}

/// How the edges are stored.
// A process has few sketches and keeps them for long, so the size of the value does not
// matter.
#[allow(clippy::large_enum_variant)]
enum Store {
    /// All edges by name.
    Tables(Tables),
    /// The heaviest edges by name, all others in layers.
    Layered(Layered),
}

impl Codes {
    /// Stores arrivals in a table until it is full. Returns how many were stored.
    fn store_in<N: TableKey>(&self, table: &mut Table<N>, batch: &[Arrival<N>]) -> usize {
        for (chunk, first) in batch.chunks(AHEAD).zip((0..).step_by(AHEAD)) {
            // Large tables are not in the cache: several places are fetched at once.
            let touched = chunk.iter().map(|a| table.touch(self.tag(a.id)));
            std::hint::black_box(touched.fold(0, |all, one| all ^ one));
            let full = chunk.iter().position(|a| {
                let tag = self.tag(a.id);
                a.packets > 0 && !table.add(a.name, tag, a.packets, a.bytes)
            });
            if let Some(full) = full {
                return first + full;
            }
        }
        batch.len()
    }
}

impl Crane {
    /// An empty sketch for the window numbered `window`. It starts as a table. Returns an
    /// error if the allowance starts with less than [`Profile::least`].
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
                allowed: format!("{least} bytes or more, for layers and a crown"),
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

    /// Makes the sketch keep a sample as soon as it has layers, so that
    /// [`sum`](Self::sum) has an estimate. The sample takes one byte in sixteen
    /// ([`crate::sample`]).
    pub fn with_sample(self) -> Self {
        Self {
            sampled: true,
            ..self
        }
    }

    /// An empty sketch that has layers from the start and takes its whole allowance at
    /// once.
    pub fn layered(
        profile: &Arc<Profile>,
        secret: Secret,
        window: u64,
        allowance: Allowance,
    ) -> Result<Self> {
        let mut crane = Self::new(profile, secret, window, allowance)?;
        let bytes = crane.allowance.reach_most();
        crane.store = Store::Layered(crane.filled_from(bytes, &Tables::new(0), &mut || {})?);
        Ok(crane)
    }

    /// Stores a batch in which no edge occurs twice.
    pub fn store<N: TableKey>(&mut self, batch: &[Arrival<N>]) -> Result<()> {
        self.store_with(batch, &mut Scratch::default(), &mut || {})
    }

    /// Like [`store`](Self::store), with working memory that is kept from batch to batch.
    /// Moving a full table to layers takes about 0.2 µs for each edge, so one second for
    /// five million. During that move `pause` is called every few milliseconds.
    pub fn store_with<N: TableKey>(
        &mut self,
        batch: &[Arrival<N>],
        scratch: &mut Scratch,
        pause: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut rest = batch;
        loop {
            match &mut self.store {
                Store::Layered(layered) => return layered.store(rest, scratch),
                Store::Tables(tables) => {
                    let stored = self.codes.store_in(tables.of_mut::<N>(), rest);
                    if stored == rest.len() {
                        return Ok(());
                    }
                    rest = &rest[stored..];
                    self.grow::<N>(pause)?;
                }
            }
        }
    }

    /// Packets and bytes of an edge.
    pub fn flow<N: TableKey>(&self, name: N) -> Result<Flow<N>> {
        let flows = self.flows(&[name])?;
        let flow = flows.first().copied();
        flow.ok_or_else(|| Error::State("an edge without an answer".into()))
    }

    /// Packets and bytes of each of these edges.
    pub fn flows<N: TableKey>(&self, names: &[N]) -> Result<Vec<Flow<N>>> {
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

    /// The upper bound of the packets of each of these edges.
    pub fn bounds<N: TableKey>(&self, names: &[N]) -> Result<Vec<u64>> {
        match &self.store {
            Store::Layered(layered) => layered.bounds(names),
            Store::Tables(_) => Ok(self
                .flows(names)?
                .iter()
                .map(|flow| flow.packets.high)
                .collect()),
        }
    }

    /// All edges that are known by a name of this length, in no particular order: every
    /// edge while the sketch is a table, the heaviest edges afterwards.
    pub fn named<N: TableKey>(&self) -> impl Iterator<Item = Flow<N>> {
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

    /// The names of the edges that [`named`](Self::named) returns.
    pub fn names<N: TableKey>(&self) -> impl Iterator<Item = N> {
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

    /// Crown and layers. Returns `None` while the sketch is a table.
    pub(crate) fn as_layered(&self) -> Option<&Layered> {
        match &self.store {
            Store::Tables(_) => None,
            Store::Layered(layered) => Some(layered),
        }
    }

    /// Whether the sketch is still a table, so that every answer is exact.
    pub fn is_exact(&self) -> bool {
        matches!(self.store, Store::Tables(_))
    }

    /// The number of distinct edges: exact while the sketch is a table, an estimate
    /// afterwards. Returns `None` if the profile has no witnesses to estimate it from.
    pub fn distinct(&self) -> Option<u64> {
        match &self.store {
            Store::Tables(tables) => Some(tables.len() as u64),
            Store::Layered(layered) => {
                let distinct = layered.witnesses.distinct();
                (distinct > 0.0).then_some(distinct.round() as u64)
            }
        }
    }

    /// Upper bounds of the packets and bytes of every edge that [`named`](Self::named)
    /// leaves out. Above these numbers that list is complete. Both are 0 while the sketch
    /// is a table.
    pub fn most_unnamed(&self) -> Total {
        let below = self.as_layered();
        below.map_or(Total::default(), Layered::most_unnamed)
    }

    /// The number of packets that an edge which is neither in [`named`](Self::named) nor
    /// among `known` has had at most. This is likely, not guaranteed. 0 while the sketch
    /// is a table.
    pub fn most_unknown(&self, known: &[AnyName]) -> Result<u64> {
        let below = self.as_layered();
        below.map_or(Ok(0), |layered| layered.most_unknown(known))
    }

    /// How full the table is, or each layer, bottom layer first.
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

    /// How many times the sketch has grown.
    pub fn expansions(&self) -> usize {
        let layers = self.as_layered().map(Layered::layers);
        self.expansions + layers.map_or(0, |layers| layers.expansions())
    }

    /// Whether a cell has reached its limit, so that estimates may be too low.
    pub fn is_saturated(&self) -> Result<bool> {
        let layers = self.as_layered().map(Layered::layers);
        layers.map_or(Ok(false), |layers| layers.is_saturated())
    }

    /// Bytes of all parts that answers are computed from.
    pub fn memory_bytes(&self) -> usize {
        match &self.store {
            Store::Tables(tables) => tables.memory_bytes(),
            Store::Layered(layered) => layered.memory_bytes(),
        }
    }
}
