//! Storing several batches in a row. With a second thread one stores pairs while the other stores
//! addresses and services of the batch before ([`crate::sketches`]): each sketch gets all batches
//! in their order, so the number of threads changes no answer.
//!
//! The threads share no lock and no counter; a batch is handed over once, after its pairs are
//! stored. So two threads are as many as this gains from.

use std::sync::mpsc;
use std::thread;

use crane_model::Scratch;

use super::exact::ExactCounts;
use super::groups::Groups;
use super::windows::Windows;
use crate::traffic::batch::{Batch, Pairs};
use crate::traffic::slot::Slot;

/// A second thread is used for at least so many batches: starting it takes as long as storing some
/// hundred packets.
const WORTH_A_THREAD: usize = 4;
/// Batches of a run. More would only take packets out of the ring earlier.
const MOST_BATCHES: usize = 16;
/// Batches in use while two threads store.
const IN_USE: usize = 3;

/// Packets of one or more batches, and the memory to store them.
#[derive(Default)]
pub struct Run {
    /// The packets of all batches, in order.
    pub slots: Vec<Slot>,
    /// Where each batch ends.
    pub ends: Vec<usize>,
    pub memory: Memory,
}

/// Memory to store a run.
#[derive(Default)]
pub struct Memory {
    batches: Vec<Batch>,
    scratch: Scratch,
    second_scratch: Scratch,
    /// Whether a second thread may be used.
    pub second_thread: bool,
}

impl Run {
    /// A run without packets.
    pub fn new(second_thread: bool) -> Self {
        let memory = Memory {
            second_thread,
            ..Memory::default()
        };
        Self {
            memory,
            ..Self::default()
        }
    }

    /// The number of batches that are stored together.
    pub fn most_batches(&self) -> usize {
        if self.memory.second_thread {
            MOST_BATCHES
        } else {
            1
        }
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.ends.clear();
    }

    /// Ends a batch after the last packet.
    pub fn end_batch(&mut self) {
        self.ends.push(self.slots.len());
    }
}

impl Windows {
    /// Stores batches that belong to the current window. `pause` is called every few milliseconds
    /// while that takes.
    pub(super) fn store_batches(
        &mut self,
        memory: &mut Memory,
        batches: &[&[Slot]],
        pause: &mut dyn FnMut(),
    ) -> anyhow::Result<()> {
        let expansions = self.current.sketches.pairs.expansions();
        match memory.second_thread && batches.len() >= WORTH_A_THREAD {
            true => self.store_by_two(memory, batches, pause)?,
            false => self.store_by_one(memory, batches, pause)?,
        }
        let pairs = &self.current.sketches.pairs;
        let grown = pairs.expansions() - expansions;
        if grown > 0 {
            self.expansions += grown;
            let (interface, bytes) = (self.interface(), pairs.memory_bytes());
            tracing::debug!(interface, bytes, "the sketch has grown");
        }
        Ok(())
    }

    fn store_by_one(
        &mut self,
        memory: &mut Memory,
        batches: &[&[Slot]],
        pause: &mut dyn FnMut(),
    ) -> anyhow::Result<()> {
        let Memory {
            batches: spare,
            scratch,
            ..
        } = memory;
        if spare.is_empty() {
            spare.push(Batch::default());
        }
        let batch = &mut spare[0];
        for slots in batches.iter().filter(|slots| !slots.is_empty()) {
            batch.fold(self.blueprint.secret(), slots, self.scale);
            for window in [Some(&mut self.current), self.whole.as_mut()] {
                let Some(window) = window else { continue };
                window.count(&batch.pairs.totals);
                let (mut pairs, mut nodes) = window.sketches.split();
                pairs.store(&batch.pairs, scratch, pause)?;
                nodes.store(batch, scratch, pause)?;
            }
            count_exactly(&mut self.exact, &mut self.groups, &batch.pairs);
        }
        Ok(())
    }

    fn store_by_two(
        &mut self,
        memory: &mut Memory,
        batches: &[&[Slot]],
        pause: &mut dyn FnMut(),
    ) -> anyhow::Result<()> {
        let Memory {
            batches: spare,
            scratch,
            second_scratch,
            ..
        } = memory;
        spare.resize_with(IN_USE, Batch::default);
        let (secret, scale) = (self.blueprint.secret(), self.scale);
        let mut totals = Vec::with_capacity(batches.len());
        let (exact, groups) = (&mut self.exact, &mut self.groups);
        let windows = [Some(&mut self.current), self.whole.as_mut()];
        let windows = windows.into_iter().flatten();
        let (mut pairs, mut nodes): (Vec<_>, Vec<_>) =
            windows.map(|window| window.sketches.split()).unzip();
        let (to_nodes, with_pairs) = mpsc::channel::<Batch>();
        let (done, free) = mpsc::channel();
        let store_nodes = move || {
            for mut batch in with_pairs {
                for nodes in &mut nodes {
                    nodes.store(&mut batch, second_scratch, &mut || {})?;
                }
                // Used again by the other thread, or in the next run.
                let _ = done.send(batch);
            }
            crane_model::Result::Ok(())
        };
        let store_pairs = || {
            // Dropped at the end, which ends the other thread.
            let to_nodes = to_nodes;
            for slots in batches.iter().filter(|slots| !slots.is_empty()) {
                let batch = spare.pop().or_else(|| free.recv().ok());
                // Without one, the other thread has ended with an error.
                let Some(mut batch) = batch else { break };
                batch.fold(secret, slots, scale);
                totals.push(batch.pairs.totals);
                for pairs in &mut pairs {
                    pairs.store(&batch.pairs, scratch, pause)?;
                }
                count_exactly(exact, groups, &batch.pairs);
                // The other thread has more to do.
                let Batch { pairs, nodes } = &mut batch;
                nodes.fold(secret, pairs);
                if to_nodes.send(batch).is_err() {
                    break;
                }
            }
            crane_model::Result::Ok(())
        };
        thread::scope(|scope| {
            let second = thread::Builder::new().name("sketch-nodes".into());
            let second = second.spawn_scoped(scope, store_nodes)?;
            let stored = store_pairs();
            second
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            anyhow::Ok(stored?)
        })?;
        spare.extend(free.try_iter());
        for window in [Some(&mut self.current), self.whole.as_mut()] {
            let Some(window) = window else { continue };
            totals.iter().for_each(|batch| window.count(batch));
        }
        Ok(())
    }
}

/// Counts the pairs of a batch in the exact counters, if there are any.
fn count_exactly(exact: &mut Option<ExactCounts>, groups: &mut Option<Groups>, pairs: &Pairs) {
    if let Some(exact) = exact {
        exact.count(pairs);
    }
    if let Some(groups) = groups {
        groups.count(pairs);
    }
}
