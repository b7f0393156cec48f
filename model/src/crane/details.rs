//! Internal figures of a sketch: how full it is, what memory it has, and how many of its
//! intervals hold the true count.

use super::{Crane, Layered, Store};
use crate::Result;
use crate::layers::{BoundsKind, Load};

/// Internal figures of a sketch at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SketchDetails {
    /// Whether the sketch is a table, which holds every edge by name.
    pub exact: bool,
    /// Share of the table that is in use, or of the cells of each layer, bottom layer
    /// first. `None` for dense layers, in which every edge touches many cells.
    pub fill: Option<Vec<f32>>,
    /// Number of distinct edges, see [`Crane::distinct`].
    pub distinct: Option<u64>,
    /// Number of edges that are known by name.
    pub named: usize,
    /// Number of names that the table or the crown has room for now.
    pub capacity: usize,
    /// Bytes of all parts that answers are computed from.
    pub memory_bytes: usize,
    /// Bytes that the sketch may grow to.
    pub budget_bytes: usize,
    /// Coverage of the intervals of the layers. `None` if there are no layers or no
    /// witnesses in them.
    pub coverage: Option<WitnessCoverage>,
}

/// How many intervals of the layers hold the exact count of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WitnessCoverage {
    /// Witnesses without an entry in the crown.
    pub witnesses: usize,
    /// Those of them whose count is inside the 90 % interval of the layers.
    pub covered: usize,
}

impl Crane {
    /// Internal figures. Computing the coverage asks the layers for all witnesses.
    pub fn details(&self) -> Result<SketchDetails> {
        let means = |loads: Vec<Load>| -> Vec<f32> { loads.iter().map(|load| load.mean).collect() };
        let loads = || self.loads().map(means);
        let (named, capacity, fill, coverage) = match &self.store {
            Store::Tables(tables) => (tables.len(), tables.capacity(), Some(loads()?), None),
            Store::Layered(layered) => {
                let shares = layered.layers().bounds_kind() == BoundsKind::Guaranteed;
                let fill = shares.then(loads).transpose()?;
                let (named, capacity) = layered.names_and_capacity();
                (named, capacity, fill, layered.check_coverage()?)
            }
        };
        Ok(SketchDetails {
            exact: self.is_exact(),
            fill,
            distinct: self.distinct(),
            named,
            capacity,
            memory_bytes: self.memory_bytes(),
            budget_bytes: self.allowance.most(),
            coverage,
        })
    }
}

impl Layered {
    /// Number of entries of the crown, and of names it has room for.
    fn names_and_capacity(&self) -> (usize, usize) {
        (self.crown.entries().count(), self.crown.slots())
    }

    /// Compares the intervals of the layers with the exact counts of the witnesses.
    /// Returns `None` if there are no witnesses.
    fn check_coverage(&self) -> Result<Option<WitnessCoverage>> {
        let witnesses = self.uncrowned().witnesses;
        let ids: Vec<u64> = witnesses.iter().map(|witness| witness.id).collect();
        let estimates = self.estimates(&ids)?;
        let covered = estimates
            .iter()
            .zip(&witnesses)
            .filter(|(likely, witness)| {
                let [low, _, high] = likely.packets;
                (low..=high).contains(&witness.packets)
            });
        let (covered, all) = (covered.count(), witnesses.len());
        Ok((all > 0).then_some(WitnessCoverage {
            witnesses: all,
            covered,
        }))
    }
}
