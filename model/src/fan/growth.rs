//! Growth: replacing a full set of pairs by a larger one, or by bits.
//!
//! All pairs are known until bits replace them, so a fan that has grown is as accurate as
//! one that had its memory from the start. Only names may be missing: those of nodes with
//! few peers, which are inserted again with later pairs. While a fan grows, the old and
//! the new memory exist at the same time, for about 20 ms per million pairs.

use rustc_hash::FxHashMap;

use super::candidates::Candidates;
use super::levels::Levels;
use super::{Content, FEW_NAMES, Fan, MOST_NAMES, NAMES, pairs};

/// Bytes that are allocated for the first pair.
pub(super) const FIRST: usize = 2 << 10;

impl Fan {
    /// Makes room for more pairs. If there is no memory for that, takes all available
    /// memory and replaces the pairs by bits.
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
        self.convert_to_bits();
    }

    /// Moves all pairs and names to `bytes` bytes, which must not be fewer than before.
    pub(super) fn resize(&mut self, bytes: usize) {
        let counts = self.candidate_counts();
        let (mut candidates, words) = shape(bytes);
        candidates.take_over(&self.candidates, |tag| {
            counts.get(&tag).copied().unwrap_or(0)
        });
        let before = std::mem::replace(&mut self.words, words);
        for tags in pairs::all(&before) {
            pairs::insert(&mut self.words, tags);
        }
        self.candidates = candidates;
        self.bytes = bytes;
    }

    /// The number of pairs of each candidate. Only candidates: a map of all nodes takes a
    /// quarter of a second for a million pairs.
    fn candidate_counts(&self) -> FxHashMap<u32, u64> {
        let candidates = self.candidates.all().map(|candidate| (candidate.tag, 0));
        let mut counts: FxHashMap<u32, u64> = candidates.collect();
        for tags in pairs::all(&self.words) {
            if let Some(count) = counts.get_mut(&tags.node) {
                *count += 1;
            }
        }
        counts
    }

    /// Replaces the set of pairs by bits.
    pub(super) fn convert_to_bits(&mut self) {
        if !self.keeps_pairs() {
            return;
        }
        let mut levels = Levels::new(self.words.len());
        let bits = vec![0; self.words.len()];
        let words = std::mem::replace(&mut self.words, bits);
        for tags in pairs::all(&words) {
            levels.set(&mut self.words, tags);
        }
        self.content = Content::Bits(levels.into());
        self.rescale_candidates(0);
    }
}

/// Empty candidates and words for `bytes` bytes, which must be at least [`FIRST`].
pub(super) fn shape(bytes: usize) -> (Candidates, Vec<u64>) {
    let few = (bytes / 2).min(FEW_NAMES);
    let candidates = Candidates::new((bytes / NAMES).clamp(few, MOST_NAMES));
    let rest = bytes - candidates.memory_bytes() - size_of::<Levels>();
    (candidates, vec![0; rest / size_of::<u64>()])
}
