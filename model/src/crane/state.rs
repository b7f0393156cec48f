//! Saving a sketch and answering from it in another process.
//!
//! A state holds what answers need and nothing else: a header of a few numbers, then
//! either all names with their totals, or witnesses, crown, sample and layers.

use super::{Layered, Store};
use crate::format::strip_magic;
use crate::name::{AnyName, Narrow, Wide};
use crate::sample::Sample;
use crate::sizes::PacketSizes;
use crate::table::{TableKey, Tables, Total};
use crate::witnesses::Witness;
use crate::{Crane, Error, Result};

const MAGIC: &[u8; 8] = b"CRANEk07";
const TABLES: u64 = 0;

fn fault<T>(what: &str) -> Result<T> {
    Err(Error::State(what.into()))
}

/// Removes a number from the front.
fn number(state: &mut &[u8]) -> Result<u64> {
    let Some((bytes, rest)) = state.split_first_chunk() else {
        return fault("it is truncated");
    };
    *state = rest;
    Ok(u64::from_le_bytes(*bytes))
}

/// Removes a number of items of `bytes` bytes each from the front. Returns an error if
/// the rest is too short for them.
fn count(state: &mut &[u8], bytes: usize) -> Result<usize> {
    let count = number(state)?;
    match usize::try_from(count) {
        Ok(count) if count <= state.len() / bytes => Ok(count),
        _ => fault("it is truncated"),
    }
}

/// Removes a list of numbers, preceded by its length, from the front.
fn numbers(state: &mut &[u8]) -> Result<Vec<u64>> {
    (0..count(state, 8)?).map(|_| number(state)).collect()
}

fn put(state: &mut Vec<u8>, number: u64) {
    state.extend(number.to_le_bytes());
}

impl Crane {
    /// The state of the sketch, to be given to [`Self::load_state`] of a sketch with the
    /// same secret, window and memory.
    pub fn save_state(&self) -> Result<Vec<u8>> {
        let mut state = MAGIC.to_vec();
        put(&mut state, self.codes.check());
        match &self.store {
            Store::Tables(tables) => {
                put(&mut state, TABLES);
                // The sizes of both tables are saved because they cannot be derived from
                // the budget: the memory that one table has taken is not available to the
                // other.
                put(&mut state, tables.of::<Narrow>().memory_bytes() as u64);
                put(&mut state, tables.of::<Wide>().memory_bytes() as u64);
                save_names::<Narrow>(&mut state, tables);
                save_names::<Wide>(&mut state, tables);
            }
            Store::Layered(layered) => {
                put(&mut state, self.profile.layers.number());
                put(&mut state, self.allowance.held() as u64);
                layered.save(&mut state)?;
            }
        }
        Ok(state)
    }

    /// Continues from a saved state. If the state does not fit, an error is returned and
    /// the sketch is unchanged.
    pub fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let rest = &mut strip_magic(state, MAGIC, "the state of a sketch")?;
        if number(rest)? != self.codes.check() {
            return fault("it was made with another seed");
        }
        let store = match number(rest)? {
            TABLES => {
                let (narrow, wide) = (number(rest)?, number(rest)?);
                let bytes = narrow.saturating_add(wide);
                if bytes > self.allowance.most() as u64 {
                    return fault("it is larger than the budget");
                }
                let mut tables = Tables::with_bytes(narrow as usize, wide as usize);
                self.load_names::<Narrow>(rest, &mut tables)?;
                self.load_names::<Wide>(rest, &mut tables)?;
                if !self.allowance.reach(bytes as usize) {
                    return fault("there is no memory for it");
                }
                Store::Tables(tables)
            }
            kind if kind == self.profile.layers.number() => {
                let bytes = number(rest)? as usize;
                if bytes > self.allowance.most() {
                    return fault("it is larger than the budget");
                }
                let mut layered = self.empty_layers(bytes)?;
                layered.load(rest)?;
                if !self.allowance.reach(bytes) {
                    return fault("there is no memory for it");
                }
                Store::Layered(layered)
            }
            _ => return fault("it is one of another profile"),
        };
        if !rest.is_empty() {
            return fault("something follows after its end");
        }
        self.store = store;
        Ok(())
    }

    fn load_names<N: TableKey>(&self, state: &mut &[u8], tables: &mut Tables) -> Result<()> {
        let words = N::default().words().len();
        for _ in 0..count(state, 8 * (words + 2))? {
            let mut name = Vec::with_capacity(words);
            for _ in 0..words {
                name.push(number(state)?);
            }
            let (name, packets, bytes) = (N::from_words(&name), number(state)?, number(state)?);
            let tag = self.codes.tag(self.codes.id(&name));
            let table = tables.of_mut::<N>();
            let is_new = packets > 0 && table.get(&name, tag).packets == 0;
            if !is_new || !table.add(name, tag, packets, bytes) {
                return fault("its table is invalid");
            }
        }
        Ok(())
    }
}

fn save_names<N: TableKey>(state: &mut Vec<u8>, tables: &Tables) {
    put(state, tables.of::<N>().len() as u64);
    for (name, _, total) in tables.of::<N>().entries() {
        name.words().iter().for_each(|word| put(state, *word));
        put(state, total.packets);
        put(state, total.bytes);
    }
}

impl Layered {
    fn save(&self, state: &mut Vec<u8>) -> Result<()> {
        put(state, self.sizes.least);
        put(state, self.sizes.most);
        put(state, self.total.packets);
        put(state, self.total.bytes);
        put(state, self.unnamed.packets);
        put(state, self.unnamed.bytes);
        put(state, self.witnesses.limit());
        put(state, self.witnesses.all().len() as u64);
        for witness in self.witnesses.all() {
            put(state, witness.id);
            put(state, witness.packets);
            put(state, witness.bytes);
        }
        let crown: Vec<u64> = self.crown.to_words().collect();
        put(state, crown.len() as u64);
        crown.iter().for_each(|word| put(state, *word));
        let sample = self.sample.as_ref().map_or(Vec::new(), Sample::to_words);
        put(state, sample.len() as u64);
        sample.iter().for_each(|word| put(state, *word));
        self.layers.save(state)
    }

    fn load(&mut self, state: &mut &[u8]) -> Result<()> {
        self.sizes = PacketSizes {
            least: number(state)?,
            most: number(state)?,
        };
        self.total = Total {
            packets: number(state)?,
            bytes: number(state)?,
        };
        self.unnamed = Total {
            packets: number(state)?,
            bytes: number(state)?,
        };
        let limit = number(state)?;
        let mut seen = Vec::new();
        for _ in 0..count(state, 24)? {
            seen.push(Witness {
                id: number(state)?,
                packets: number(state)?,
                bytes: number(state)?,
            });
        }
        if !self.witnesses.restore(limit, seen) {
            return fault("its witnesses are invalid");
        }
        let spot = |name: &AnyName| self.codes.spot(self.codes.id_of_any(name));
        if !self.crown.restore(&numbers(state)?, spot) {
            return fault("its crown is invalid");
        }
        let words = numbers(state)?;
        let fits = match &mut self.sample {
            Some(sample) => sample.restore(&words),
            None => words.is_empty(),
        };
        if !fits {
            return fault("its sample is invalid");
        }
        self.layers.load(state)?;
        self.refresh();
        Ok(())
    }
}
