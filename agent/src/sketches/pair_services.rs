//! The services of pairs: for every pair that is known by name up to three services, each with
//! its packets and bytes.
//!
//! An entry holds a pair, one of its services and their counts. It is in one of two buckets,
//! which follow from the id of the pair. A fourth service of a pair replaces the one with the
//! fewest packets and inherits these as a possible error, as in Space-Saving. So the packets of
//! all entries of a pair add up to those that were recorded for it, and a service with most of
//! the packets has an entry, even if its packets are the last.
//!
//! Both buckets of a pair are rarely full before 95 % of all entries are in use. Then the table
//! grows. If there is no memory for that, an entry of a new pair replaces the lightest one in
//! its buckets, with a probability that decreases with the packets of that entry. The counts of
//! a replaced entry become unrecorded packets of its pair, so the guaranteed bounds of all
//! answers remain valid.
//!
//! **Cost.** 24 bytes for a service of a pair of IPv4 addresses, 48 bytes for one of a pair of
//! IPv6 addresses. Counting an arrival reads one or two buckets.

mod bucket;
mod table;

use std::hash::Hash;

use crane_model::codes::{ODD, SALT, mix};
use crane_model::name::{AnyName, Name, Narrow, Wide};
use crane_model::table::TableKey;
use crane_model::{Allowance, Crane, Secret};

use crate::sketches::parts::{put, take};
use crate::traffic::batch::{FoldedPairs, Part};
use crate::traffic::edge::Ends;
use table::Table;

pub use bucket::{Known, Record};

/// Number of services that are kept for a pair.
pub const MOST: usize = 3;

/// Bytes that are always available, enough for the first table.
pub const LEAST: usize = 1 << 10;

/// Arrivals whose buckets are fetched into the cache at once.
const AHEAD: usize = 32;

/// The services of all pairs that are known by name.
pub struct PairServices {
    narrow: Table<Narrow>,
    wide: Table<Wide>,
    secret: Secret,
    allowance: Allowance,
    /// Whether no more memory is available.
    is_full_grown: bool,
    /// State of the random numbers that decide which entries are replaced then.
    random: u64,
}

/// A name that can be stored in [`PairServices`].
pub trait Kind: Ends + TableKey + Hash {
    #[doc(hidden)]
    fn table(services: &PairServices) -> &Table<Self>;
    #[doc(hidden)]
    fn table_mut(services: &mut PairServices) -> &mut Table<Self>;
}

impl Kind for Narrow {
    fn table(services: &PairServices) -> &Table<Self> {
        &services.narrow
    }

    fn table_mut(services: &mut PairServices) -> &mut Table<Self> {
        &mut services.narrow
    }
}

impl Kind for Wide {
    fn table(services: &PairServices) -> &Table<Self> {
        &services.wide
    }

    fn table_mut(services: &mut PairServices) -> &mut Table<Self> {
        &mut services.wide
    }
}

impl PairServices {
    /// Without entries. Memory is taken when it is needed.
    pub fn new(secret: Secret, allowance: Allowance) -> Self {
        Self {
            narrow: Table::default(),
            wide: Table::default(),
            secret,
            allowance,
            is_full_grown: false,
            random: 0,
        }
    }

    /// Records all pairs of a batch.
    pub fn store<N: Kind>(&mut self, pairs: &FoldedPairs<N>) {
        self.store_some(pairs, 0..pairs.arrivals().len());
    }

    /// Records those pairs of a batch whose indices are given.
    pub fn store_some<N: Kind>(
        &mut self,
        pairs: &FoldedPairs<N>,
        some: impl Iterator<Item = usize> + Clone,
    ) {
        let arrivals = pairs.arrivals();
        let mut rest = some;
        loop {
            // A large table is not in the cache: several buckets are fetched at once.
            let chunk = rest.clone().take(AHEAD);
            let table = N::table(self);
            let touched = chunk.clone().map(|at| table.touch(arrivals[at].id));
            std::hint::black_box(touched.fold(0, |all, one| all ^ one));
            let mut count = 0;
            for at in chunk {
                count += 1;
                for part in pairs.services(at) {
                    self.count(arrivals[at].name, arrivals[at].id, part);
                }
            }
            if count < AHEAD {
                return;
            }
            rest.nth(AHEAD - 1);
        }
    }

    /// Counts packets of a pair and a service.
    #[inline]
    fn count<N: Kind>(&mut self, name: N, id: u64, part: Part) {
        if !N::table_mut(self).add(&name, id, part) {
            self.insert(name, id, part);
        }
    }

    /// Makes an entry for a service of a pair that has none.
    fn insert<N: Kind>(&mut self, name: N, id: u64, part: Part) {
        loop {
            if N::table_mut(self).insert(name, id, part) {
                return;
            }
            if self.is_full_grown || !self.grow::<N>() {
                break;
            }
        }
        let random = self.next_random();
        N::table_mut(self).replace_lightest(name, id, part, random);
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(ODD);
        mix(self.random, SALT)
    }

    /// Enlarges the table for names of this length. Returns whether there was memory for that.
    #[cold]
    fn grow<N: Kind>(&mut self) -> bool {
        let (own, all) = (N::table(self).memory_bytes(), self.memory_bytes());
        let left = self.allowance.most().saturating_sub(all);
        let more = own.max(Table::<N>::FIRST).min(left);
        let worth = more >= Table::<N>::BUCKET && more >= own / 8;
        if !worth || !self.allowance.reach(all + more) {
            self.is_full_grown = true;
            return false;
        }
        let secret = self.secret;
        N::table_mut(self).resize(own + more, |name| secret.id(name));
        true
    }

    /// Removes all pairs except those that `crane` has by name.
    pub fn keep_named(&mut self, crane: &Crane) {
        self.narrow.keep(crane.names().collect());
        self.wide.keep(crane.names().collect());
    }

    /// Removes a pair.
    pub fn forget(&mut self, name: &AnyName) {
        match name {
            AnyName::Narrow(name) => self.narrow.forget(name, self.secret.id(name)),
            AnyName::Wide(name) => self.wide.forget(name, self.secret.id(name)),
        }
    }

    /// The services of a pair.
    pub fn of(&self, name: &AnyName) -> Record {
        match name {
            AnyName::Narrow(name) => self.narrow.record(name, self.secret.id(name)),
            AnyName::Wide(name) => self.wide.record(name, self.secret.id(name)),
        }
    }

    /// All entries, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = (AnyName, Known)> {
        let narrow = self.narrow.entries();
        let narrow = narrow.map(|(name, known)| (name.any(), known));
        let wide = self.wide.entries().map(|(name, known)| (name.any(), known));
        narrow.chain(wide)
    }

    /// The state, which [`Self::load`] can read with the same allowance.
    pub fn save(&self) -> Vec<u8> {
        let mut state = Vec::with_capacity(32 + self.memory_bytes());
        put(&mut state, self.random);
        put(&mut state, self.is_full_grown.into());
        self.narrow.save(&mut state);
        self.wide.save(&mut state);
        state
    }

    /// Continues from a saved state. Returns whether the state is valid.
    pub fn load(&mut self, mut state: &[u8]) -> bool {
        let state = &mut state;
        let mut loaded = || {
            let (random, is_full_grown) = (take(state)?, take(state)?);
            let narrow = Table::<Narrow>::load(state)?;
            let wide = Table::<Wide>::load(state)?;
            state.is_empty().then_some(())?;
            Some((random, is_full_grown, narrow, wide))
        };
        let Some((random, is_full_grown, narrow, wide)) = loaded() else {
            return false;
        };
        let bytes = narrow.memory_bytes() + wide.memory_bytes();
        if !self.allowance.reach(bytes) {
            return false;
        }
        (self.narrow, self.wide, self.random) = (narrow, wide, random);
        // Without any entry the tables have to grow first.
        self.is_full_grown = is_full_grown > 0 && bytes > 0;
        true
    }

    pub fn memory_bytes(&self) -> usize {
        self.narrow.memory_bytes() + self.wide.memory_bytes()
    }
}

#[cfg(test)]
mod tests;
