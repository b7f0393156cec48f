//! Saving: a head of a few numbers, all words, all names.

use super::candidates::Candidate;
use super::levels::Levels;
use super::{Fan, Kept, pairs};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"CRANEf01";
const PAIRS: u64 = 0;
const BITS: u64 = 1;

impl Fan {
    /// All state, to be given to [`Self::load_state`] of one with the same
    /// secret and memory.
    pub fn save_state(&self) -> Vec<u8> {
        let kind = match self.kept {
            Kept::Pairs(_) => PAIRS,
            Kept::Bits(_) => BITS,
        };
        let names = self.candidates.places().flat_map(|place| place.to_words());
        let head = [self.check, kind, self.words.len() as u64];
        let numbers = head.into_iter().chain(self.words.iter().copied());
        let numbers = numbers.chain(names).flat_map(u64::to_le_bytes);
        MAGIC.iter().copied().chain(numbers).collect()
    }

    /// Continues from a saved state. One that does not fit changes nothing.
    pub fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let fault = |what: &str| Err(Error::State(what.into()));
        let Some(state) = state.strip_prefix(MAGIC) else {
            return fault("it does not start like the state of a fan");
        };
        let (numbers, rest) = state.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_le_bytes).collect();
        let [check, kind, count, numbers @ ..] = &numbers[..] else {
            return fault("it breaks off");
        };
        if *check != self.check {
            return fault("it was made with another seed");
        }
        if *count != self.words.len() as u64 || numbers.len() < self.words.len() {
            return fault("it is of another size or breaks off");
        }
        let (words, names) = numbers.split_at(self.words.len());
        let kept = match *kind {
            PAIRS => {
                let count = pairs::all(words).count();
                if pairs::is_full(words, count) {
                    return fault("its pairs are not possible");
                }
                Kept::Pairs(count)
            }
            BITS => Kept::Bits(Levels::new(words.len()).into()),
            _ => return fault("it is of a kind that is not known"),
        };
        let (names, left) = names.as_chunks::<3>();
        let names: Option<Vec<Candidate>> =
            names.iter().copied().map(Candidate::from_words).collect();
        let whole = rest.is_empty() && left.is_empty();
        if !names.is_some_and(|names| whole && self.candidates.restore(&names)) {
            return fault("its names are not possible");
        }
        self.words.copy_from_slice(words);
        self.kept = kept;
        self.recount();
        Ok(())
    }
}
