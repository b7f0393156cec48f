//! What a sketch looks like inside, for those who want to know why to believe it.

use super::{Crane, Layered, Store};
use crate::Result;
use crate::layers::{Bounds, Load};

/// A sketch at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Inside {
    /// Whether it is a table, which has every edge by name.
    pub exact: bool,
    /// Share of its places that are taken, or of the cells of each layer, bottom
    /// first; none where a cell holds any number of edges, as in the paper.
    pub fill: Option<Vec<f32>>,
    /// Edges: exact in a table, otherwise an estimate, or none if nothing tells.
    pub distinct: Option<u64>,
    /// Edges that are known by name.
    pub named: usize,
    /// How many names there is room for now.
    pub places: usize,
    /// Bytes of everything that answers come from.
    pub memory_bytes: usize,
    /// Bytes that it may have.
    pub budget_bytes: usize,
    /// How its layers do on edges that are counted exactly beside them.
    pub judged: Option<Judged>,
}

/// Layers judged by their witnesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// Witnesses that only the layers know.
    pub edges: usize,
    /// Of these the 90 % interval holds the truth.
    pub held: usize,
}

impl Crane {
    /// What it looks like inside. Judging takes a look at all witnesses.
    pub fn inside(&self) -> Result<Inside> {
        let means = |loads: Vec<Load>| -> Vec<f32> { loads.iter().map(|load| load.mean).collect() };
        let loads = || self.loads().map(means);
        let (named, places, fill, judged) = match &self.store {
            Store::Tables(tables) => (tables.len(), tables.places(), Some(loads()?), None),
            Store::Layered(layered) => {
                let shares = layered.layers().worth() == Bounds::Guaranteed;
                let fill = shares.then(loads).transpose()?;
                let (named, places) = layered.places_taken();
                (named, places, fill, layered.judge()?)
            }
        };
        Ok(Inside {
            exact: self.is_exact(),
            fill,
            distinct: self.distinct(),
            named,
            places,
            memory_bytes: self.memory_bytes(),
            budget_bytes: self.allowance.most(),
            judged,
        })
    }
}

impl Layered {
    /// Edges that the crown has, and its places.
    fn places_taken(&self) -> (usize, usize) {
        (self.crown.entries().count(), self.crown.places())
    }

    /// None where there are no witnesses.
    fn judge(&self) -> Result<Option<Judged>> {
        let witnesses = self.uncrowned().witnesses;
        let ids: Vec<u64> = witnesses.iter().map(|witness| witness.id).collect();
        let estimates = self.estimates(&ids)?;
        let held = estimates
            .iter()
            .zip(&witnesses)
            .filter(|(likely, witness)| {
                let [low, _, high] = likely.packets;
                (low..=high).contains(&witness.packets)
            });
        let (held, edges) = (held.count(), witnesses.len());
        Ok((edges > 0).then_some(Judged { edges, held }))
    }
}
