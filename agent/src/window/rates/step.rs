//! Packets and bytes counted between two moments.

use std::sync::Arc;

use crane_model::crane::Counted;

use crate::sketches::counts::Named;

/// Keys of one step that are kept, those with the most traffic.
const MOST: usize = 4096;
/// Bytes that count as much as one packet in that choice.
const BYTES_PER_PACKET: u64 = 512;

/// Packets and bytes that a key had at least between two moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Increment {
    pub packets: u64,
    pub bytes: u64,
    /// Upper bound of further packets.
    pub unsure: u64,
}

impl Increment {
    pub fn add(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unsure = self.unsure.saturating_add(other.unsure);
    }

    /// All counts of a key that was not known by name before.
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
        // The key was not known by name for a while in between, so its counts began again.
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

/// Increments of all keys of one kind, in the order of keys. Keys that are not in it had at most
/// `others` packets.
#[derive(Debug, Clone)]
pub struct Step<K> {
    pub rows: Vec<(K, Increment)>,
    pub others: u64,
}

impl<K: Copy + Ord> Step<K> {
    /// The increments between two moments of one window. If the window has `ended` in between, the
    /// increments until its end plus the counts of the next one.
    pub fn between(before: &Named<K>, ended: Option<&Named<K>>, now: &Named<K>) -> Self {
        let Some(ended) = ended else {
            return Self {
                rows: grown(before, now, false),
                others: 0,
            };
        };
        // A key without a name at the end of the window may have had this many packets.
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

    /// Sums of increments by key, if these are the increments of all traffic.
    pub fn of_parts(parts: impl Iterator<Item = (K, Increment)>) -> Self {
        Self {
            rows: summed(parts.collect()),
            others: 0,
        }
    }

    /// Keeps the keys with the most traffic.
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

/// Increments since `before` of all keys that are known `now`. Keys without an increment are
/// included only if `with_idle`.
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

/// Adds up rows with the same key, in the order of keys.
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

/// The latest counts of all keys of one kind, and the steps before them, oldest first.
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
    /// Starts again without steps.
    pub fn begin(&mut self, now: Named<K>) {
        self.newest = Arc::new(now);
        self.steps.clear();
    }

    /// Adds the step to the next moment.
    pub fn push(&mut self, mut step: Step<K>, now: Named<K>) {
        step.cut();
        self.steps.push(step);
        self.newest = Arc::new(now);
    }
}
