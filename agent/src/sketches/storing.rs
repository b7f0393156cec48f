//! Storing a batch. The sketches are of two kinds that share nothing, so that two threads can
//! store the same batch: those of pairs, and those of addresses and services. What a sketch holds
//! depends only on the order of its own batches.

use crane_model::{Crane, Scratch, Secret};

use super::Sketches;
use super::fans::Fans;
use super::pair_services::{Kind, PairServices};
use crate::traffic::batch::{Batch, FoldedPairs, Pairs};

/// The sketches of pairs and of their services.
pub struct PairSketches<'a> {
    pairs: &'a mut Crane,
    services: &'a mut PairServices,
}

/// The sketches of addresses, peers and services.
pub struct NodeSketches<'a> {
    secret: &'a Secret,
    sources: &'a mut Crane,
    destinations: &'a mut Crane,
    services: &'a mut Crane,
    fans: &'a mut Fans,
}

impl Sketches {
    /// The sketches by kind.
    pub fn split(&mut self) -> (PairSketches<'_>, NodeSketches<'_>) {
        let pairs = PairSketches {
            pairs: &mut self.pairs,
            services: &mut self.pair_services,
        };
        let nodes = NodeSketches {
            secret: &self.secret,
            sources: &mut self.sources,
            destinations: &mut self.destinations,
            services: &mut self.services,
            fans: &mut self.fans,
        };
        (pairs, nodes)
    }

    /// Stores a batch in all sketches.
    #[cfg(test)]
    pub fn store(&mut self, batch: &mut Batch, scratch: &mut Scratch) -> crane_model::Result<()> {
        let (mut pairs, mut nodes) = self.split();
        pairs.store(&batch.pairs, scratch, &mut || {})?;
        nodes.store(batch, scratch, &mut || {})
    }
}

impl PairSketches<'_> {
    /// Stores the pairs of a batch. `pause` is called every few milliseconds while that takes.
    pub fn store(
        &mut self,
        pairs: &Pairs,
        scratch: &mut Scratch,
        pause: &mut dyn FnMut(),
    ) -> crane_model::Result<()> {
        self.store_kind(&pairs.narrow, scratch, pause)?;
        self.store_kind(&pairs.wide, scratch, pause)
    }

    /// Stores pairs, and the services of those that are known by name.
    fn store_kind<N: Kind>(
        &mut self,
        pairs: &FoldedPairs<N>,
        scratch: &mut Scratch,
        pause: &mut dyn FnMut(),
    ) -> crane_model::Result<()> {
        let were_exact = self.pairs.is_exact();
        self.pairs.store_with(pairs.arrivals(), scratch, pause)?;
        let services = &mut self.services;
        if were_exact {
            services.store(pairs);
            if !self.pairs.is_exact() {
                services.keep_named(self.pairs);
            }
        } else {
            let named = scratch.named().iter();
            services.store_some(pairs, named.map(|at| *at as usize));
            scratch.forgotten().for_each(|name| services.forget(name));
        }
        Ok(())
    }
}

impl NodeSketches<'_> {
    /// Stores the addresses and services of a batch. `pause` is called every few milliseconds
    /// while that takes.
    pub fn store(
        &mut self,
        batch: &mut Batch,
        scratch: &mut Scratch,
        pause: &mut dyn FnMut(),
    ) -> crane_model::Result<()> {
        let Batch { pairs, nodes } = batch;
        nodes.fold(self.secret, pairs);
        self.fans.store(pairs, nodes);
        self.services.store_with(nodes.services(), scratch, pause)?;
        let (narrow, wide) = (&nodes.narrow, &nodes.wide);
        self.sources.store_with(narrow.sources(), scratch, pause)?;
        self.sources.store_with(wide.sources(), scratch, pause)?;
        let destinations = &mut self.destinations;
        destinations.store_with(narrow.destinations(), scratch, pause)?;
        destinations.store_with(wide.destinations(), scratch, pause)
    }
}
