//! How much came between two moments.

use std::sync::Arc;

use crane_model::crane::Counted;

use crate::sketches::counts::Named;

/// So many of one step are kept, those with the most; the others are known to have had less.
const MOST: usize = 4096;
/// So many bytes weigh as much as a packet in that choice.
const BYTES_PER_PACKET: u64 = 512;

/// How much came, certainly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Increment {
    pub packets: u64,
    pub bytes: u64,
    /// How many more packets may have come.
    pub unsure: u64,
}

impl Increment {
    pub fn add(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unsure = self.unsure.saturating_add(other.unsure);
    }

    /// All that was counted of one that had no name before.
    fn all(count: &Counted) -> Self {
        Self {
            packets: count.packets,
            bytes: count.bytes,
            unsure: count.unsure,
        }
    }

    fn between(before: &Counted, now: &Counted) -> Self {
        let packets = now.packets.checked_sub(before.packets);
        let bytes = now.bytes.checked_sub(before.bytes);
        if let Some((packets, bytes)) = packets.zip(bytes)
            && now.unsure == before.unsure
        {
            return Self {
                packets,
                bytes,
                unsure: 0,
            };
        }
        // It lost its name in between and got it again: what was counted is not of one piece.
        let earlier = before.packets.saturating_add(before.unsure);
        let least = now.packets.saturating_sub(earlier);
        let most = now.packets.saturating_add(now.unsure);
        let most = most.saturating_sub(before.packets);
        let share = least as f64 / now.packets.max(1) as f64;
        Self {
            packets: least,
            bytes: (now.bytes as f64 * share) as u64,
            unsure: most.saturating_sub(least),
        }
    }

    fn rank(&self) -> u64 {
        let packets = self.packets.saturating_add(self.unsure);
        packets.max(self.bytes / BYTES_PER_PACKET)
    }
}

/// What everything of one kind got, in the order of keys. Who is not in it got nothing, or
/// no more than `others` packets.
#[derive(Debug, Clone)]
pub struct Step<K> {
    pub rows: Vec<(K, Increment)>,
    pub others: u64,
}

impl<K: Copy + Ord> Step<K> {
    /// What came between two moments of one window, or until the end of a window and then in
    /// the next one.
    pub fn between(before: &Named<K>, ended: Option<&Named<K>>, now: &Named<K>) -> Self {
        let Some(ended) = ended else {
            return Self {
                rows: grown(before, now, false),
                others: 0,
            };
        };
        // Who has no name at the end may have had a little.
        let others = ended.others_at_most;
        let mut rows = grown(before, ended, others > 0);
        let new = now.counts.iter().map(|(key, count)| {
            let mut increment = Increment::all(count);
            if rows.binary_search_by(|(known, _)| known.cmp(key)).is_err() {
                increment.unsure = increment.unsure.saturating_add(others);
            }
            (*key, increment)
        });
        let new: Vec<_> = new.collect();
        rows.extend(new);
        Self {
            rows: summed(rows),
            others,
        }
    }

    /// The sums of parts that have all there is: what was counted of the whole.
    pub fn of_parts(parts: impl Iterator<Item = (K, Increment)>) -> Self {
        Self {
            rows: summed(parts.collect()),
            others: 0,
        }
    }

    /// Leaves those with the most.
    pub fn cut(&mut self) {
        if self.rows.len() <= MOST {
            return;
        }
        let rank = |(_, one): &(K, Increment)| std::cmp::Reverse(one.rank());
        self.rows.select_nth_unstable_by_key(MOST, rank);
        let cut = self.rows.drain(MOST..);
        let most = cut.map(|(_, one)| one.packets.saturating_add(one.unsure));
        self.others = self.others.max(most.max().unwrap_or(0));
        self.rows.sort_unstable_by_key(|(key, _)| *key);
        self.rows.shrink_to_fit();
    }
}

/// What everything that is named `now` got since `before`; those that got nothing only if
/// `with_idle`.
fn grown<K: Copy + Ord>(before: &Named<K>, now: &Named<K>, with_idle: bool) -> Vec<(K, Increment)> {
    let mut before = before.counts.iter().peekable();
    let grown = now.counts.iter().map(|(key, count)| {
        while before.next_if(|(known, _)| known < key).is_some() {}
        let known = before.next_if(|(known, _)| known == key);
        let increment = match known {
            Some((_, before)) => Increment::between(before, count),
            None => Increment::all(count),
        };
        (*key, increment)
    });
    let is_idle = |one: &Increment| *one == Increment::default();
    grown
        .filter(|(_, one)| with_idle || !is_idle(one))
        .collect()
}

/// One row a key, in the order of keys.
fn summed<K: Copy + Ord>(mut rows: Vec<(K, Increment)>) -> Vec<(K, Increment)> {
    rows.sort_by_key(|(key, _)| *key);
    rows.dedup_by(|next, kept| {
        let is_same = next.0 == kept.0;
        if is_same {
            kept.1.add(&next.1);
        }
        is_same
    });
    rows
}

/// The latest moment of everything of one kind, and the steps to it, oldest first.
pub struct Kind<K> {
    pub newest: Arc<Named<K>>,
    pub steps: Vec<Step<K>>,
}

impl<K> Default for Kind<K> {
    fn default() -> Self {
        Self {
            newest: Arc::default(),
            steps: Vec::new(),
        }
    }
}

impl<K: Copy + Ord> Kind<K> {
    /// Begins anew.
    pub fn begin(&mut self, now: Named<K>) {
        self.newest = Arc::new(now);
        self.steps.clear();
    }

    /// A step to the next moment.
    pub fn push(&mut self, mut step: Step<K>, now: Named<K>) {
        step.cut();
        self.steps.push(step);
        self.newest = Arc::new(now);
    }
}
