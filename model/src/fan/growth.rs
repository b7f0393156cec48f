//! Growth: a full set of pairs becomes a larger one, or bits.
//!
//! All pairs are known until then, so a fan that has grown is as good as one
//! that was large from the start. Only names may be missing: those of nodes
//! with few peers, which get in again with their next ones. While it grows both
//! are there, for less than a millisecond.

use super::candidates::Candidates;
use super::levels::Levels;
use super::{FEW_NAMES, Fan, Kept, MOST_NAMES, NAMES, pairs};

/// What the first pair is put into.
pub(super) const FIRST: usize = 2 << 10;

impl Fan {
    /// Makes room for more pairs; where there is no memory for that, bits take
    /// their place, in all that there is.
    pub(super) fn grow(&mut self) {
        let most = self.allowance.most();
        let larger = self.bytes.saturating_mul(2).clamp(FIRST.min(most), most);
        if larger > self.bytes && self.allowance.reach(larger) {
            return self.resize(larger);
        }
        let all = self.allowance.reach_most();
        if all > self.bytes {
            self.resize(all);
        }
        self.turn_to_bits();
    }

    /// Moves all pairs and names to so many bytes, no fewer than they have.
    pub(super) fn resize(&mut self, bytes: usize) {
        let counts = self.counts();
        let (mut candidates, words) = shape(bytes);
        candidates.take_over(&self.candidates, |tag| {
            counts.get(&tag).copied().unwrap_or(0)
        });
        let before = std::mem::replace(&mut self.words, words);
        for tagged in pairs::all(&before) {
            pairs::insert(&mut self.words, tagged);
        }
        self.candidates = candidates;
        self.bytes = bytes;
    }

    /// From here on there is a bit for a pair instead of the pair.
    pub(super) fn turn_to_bits(&mut self) {
        if !self.keeps_pairs() {
            return;
        }
        let mut levels = Levels::new(self.words.len());
        let bits = vec![0; self.words.len()];
        let words = std::mem::replace(&mut self.words, bits);
        for tagged in pairs::all(&words) {
            levels.set(&mut self.words, tagged);
        }
        self.kept = Kept::Bits(levels.into());
        self.count_rarer(0);
    }
}

/// Names and words, all of them empty, that so many bytes have room for: [`FIRST`] or
/// more.
pub(super) fn shape(bytes: usize) -> (Candidates, Vec<u64>) {
    let few = (bytes / 2).min(FEW_NAMES);
    let candidates = Candidates::new((bytes / NAMES).clamp(few, MOST_NAMES));
    let rest = bytes - candidates.memory_bytes() - size_of::<Levels>();
    (candidates, vec![0; rest / size_of::<u64>()])
}
