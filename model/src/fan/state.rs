//! Saving and loading a fan: a header of a few numbers, all words, all names.

use super::candidates::{Candidate, Candidates};
use super::growth::{FIRST, shape};
use super::levels::Levels;
use super::{Content, Fan, LEAST, pairs};
use crate::format::strip_magic;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"CRANEf02";
const PAIRS: u64 = 0;
const BITS: u64 = 1;

impl Fan {
    /// The state, to be given to [`Self::load_state`] of a fan with the same secret and
    /// allowance.
    pub fn save_state(&self) -> Vec<u8> {
        let kind = match self.content {
            Content::Pairs(_) => PAIRS,
            Content::Bits(_) => BITS,
        };
        let names = self.candidates.slots().flat_map(|slot| slot.to_words());
        let head = [self.check, kind, self.bytes as u64];
        let numbers = head.into_iter().chain(self.words.iter().copied());
        let numbers = numbers.chain(names).flat_map(u64::to_le_bytes);
        MAGIC.iter().copied().chain(numbers).collect()
    }

    /// Continues from a saved state. If the state does not fit, an error is returned and
    /// the fan is unchanged.
    pub fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let fault = |what: &str| Err(Error::State(what.into()));
        let state = strip_magic(state, MAGIC, "the state of a fan")?;
        let (numbers, rest) = state.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_le_bytes).collect();
        let [check, kind, bytes, numbers @ ..] = &numbers[..] else {
            return fault("it is truncated");
        };
        if *check != self.check {
            return fault("it was made with another seed");
        }
        // A fan that took all its memory at once never becomes smaller.
        let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
        if bytes < self.bytes || bytes > self.allowance.most() {
            return fault("it is of another size");
        }
        let (mut candidates, words) = match bytes {
            0 => (Candidates::none(), Vec::new()),
            FIRST.. => shape(bytes),
            _ => return fault("it is smaller than one can be"),
        };
        let Some((words, names)) = numbers.split_at_checked(words.len()) else {
            return fault("it is truncated");
        };
        let content = match *kind {
            PAIRS => {
                let count = pairs::all(words).count();
                if bytes > 0 && pairs::is_full(words, count) {
                    return fault("its pairs are invalid");
                }
                Content::Pairs(count)
            }
            BITS if bytes >= LEAST => {
                let mut levels = Levels::new(words.len());
                levels.recount(words);
                Content::Bits(levels.into())
            }
            _ => return fault("its kind is invalid"),
        };
        let (names, left) = names.as_chunks::<3>();
        let names: Option<Vec<Candidate>> =
            names.iter().copied().map(Candidate::from_words).collect();
        let whole = rest.is_empty() && left.is_empty();
        if !names.is_some_and(|names| whole && candidates.restore(&names)) {
            return fault("its names are invalid");
        }
        if !self.allowance.reach(bytes) {
            return fault("there is no memory for it");
        }
        self.words = words.to_vec();
        self.candidates = candidates;
        self.bytes = bytes;
        self.content = content;
        Ok(())
    }
}
