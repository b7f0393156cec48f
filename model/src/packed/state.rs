//! Saving a packed sketch of edges and answering from it in another process.
//!
//! Everything that answers need, nothing else: a head of a few numbers, the
//! cells as they are packed, witnesses and crown entries.

use crate::crown::{Count, Crown};
use crate::packed::Packed;
use crate::packed::body::Body;
use crate::packed::witnesses::{Witness, Witnesses};
use crate::{Edge, Error, Result};

const MAGIC: &[u8; 8] = b"CRANEk01";

fn fault<T>(what: &str) -> Result<T> {
    Err(Error::State(what.into()))
}

/// Takes a number off the front.
fn number(state: &mut &[u8]) -> Result<u64> {
    let Some((bytes, rest)) = state.split_first_chunk() else {
        return fault("it breaks off");
    };
    *state = rest;
    Ok(u64::from_le_bytes(*bytes))
}

impl Packed<Edge> {
    /// All state, to be given to [`Self::load_state`] of a sketch with the
    /// same seed and budget.
    pub fn save_state(&self) -> Result<Vec<u8>> {
        let mut state = MAGIC.to_vec();
        let mut put = |number: u64| state.extend(number.to_le_bytes());
        put(self.codes.check());
        put(self.size as u64);
        put(self.noise);
        put(self.witnesses.limit());
        put(self.witnesses.all().len() as u64);
        for witness in self.witnesses.all() {
            put(witness.id);
            put(witness.count);
        }
        put(self.crown.entries().count() as u64);
        for (edge, count) in self.crown.entries() {
            put(u64::from(edge.src) << 32 | u64::from(edge.dst));
            put(Crown::<Edge>::packed(&count));
            put(count.bytes);
        }
        match &self.body {
            Body::Table(table) => state.extend(table.to_bytes()),
            Body::Layers(stack) => stack.save(&mut state)?,
        }
        Ok(state)
    }

    /// Continues from a saved state. One that does not fit changes nothing.
    pub fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let Some(mut rest) = state.strip_prefix(MAGIC) else {
            return fault("it does not start like a state of the packed profile");
        };
        let rest = &mut rest;
        if number(rest)? != self.codes.check() {
            return fault("it was made with another seed");
        }
        let size = number(rest)? as usize;
        if size > self.budget.most {
            return fault("it is larger than the budget");
        }
        let (size, shape, mut body) = self.empty(size)?;
        let noise = number(rest)?;
        let limit = number(rest)?;
        let mut seen = Vec::new();
        for _ in 0..count(rest, 16)? {
            let (id, count) = (number(rest)?, number(rest)?);
            seen.push(Witness { id, count });
        }
        let mut witnesses = Witnesses::new(shape.witnesses);
        if !witnesses.restore(limit, seen) {
            return fault("its witnesses are not possible");
        }
        let mut crown = Crown::new(shape.crown);
        for _ in 0..count(rest, 24)? {
            let (ends, packed, bytes) = (number(rest)?, number(rest)?, number(rest)?);
            let edge = Edge::new((ends >> 32) as u32, ends as u32);
            let count = Count {
                bytes,
                ..Crown::<Edge>::unpacked(packed)
            };
            if crown.admit(self.codes.id(&edge), edge, count).is_some() {
                return fault("its crown has more entries than places");
            }
        }
        match &mut body {
            Body::Table(table) => {
                if !table.load(rest) {
                    return fault("its table is not possible");
                }
            }
            Body::Layers(stack) => stack.load(rest)?,
        }
        if !rest.is_empty() {
            return fault("something follows after its end");
        }
        (self.size, self.noise) = (size, noise);
        self.floor = crown.floor();
        (self.body, self.crown, self.witnesses) = (body, crown, witnesses);
        self.sight.take();
        Ok(())
    }
}

/// A number of items of so many bytes, no more than there are.
fn count(state: &mut &[u8], bytes: usize) -> Result<usize> {
    let count = number(state)? as usize;
    if count > state.len() / bytes {
        return fault("it breaks off");
    }
    Ok(count)
}
