//! The state of one interface or capture file in the worker: its ring and its windows. Other
//! threads see its [`view`](Interface::view).

mod change;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::edge_ring::RingReader;
use super::renewal::Change;
use crate::process::clock::wall_clock;
use crate::process::panics;
use crate::saved::settings::Settings;
use crate::saved::window::SavedWindow;
use crate::saved::writer::Saver;
use crate::traffic::batch::Cut;
use crate::traffic::slot::Slot;
use crate::traffic::tally::{Ignored, Tally};
use crate::window::run::Run;
use crate::window::snapshot::InterfaceView;
use crate::window::windows::{self, Ended, Windows};

/// What [`Interface::work`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It stored packets, or ended a window.
    Stored,
    /// Nothing was due.
    Waiting,
    /// Everything is stored, and the writer has gone.
    Drained,
}

pub struct Interface {
    name: String,
    tally: Arc<Tally>,
    ring: RingReader,
    /// Rings that follow this one, and what changes with each.
    next: VecDeque<(RingReader, Option<Box<Change>>)>,
    /// Packets that were taken out of the ring and are not stored yet.
    being_stored: u64,
    /// When the oldest packet in the ring was first seen there.
    waiting: Option<Instant>,
    windows: Windows,
    /// Whether packets are stored; otherwise they are only decoded.
    stores: bool,
    /// The published view, and how many windows had begun when it was made. It keeps the memory
    /// of the last window, so there is none unless views are published.
    view: Option<(u64, Arc<InterfaceView>)>,
    /// Settings under which packets are stored. `None` if windows are not saved.
    settings: Option<Arc<Settings>>,
    saved_at: Option<Instant>,
    forgotten: bool,
}

pub struct Options {
    pub ring: RingReader,
    /// Whether packets are stored; otherwise they are only decoded.
    pub stores: bool,
    /// Settings that windows are saved with. `None` if they are not saved.
    pub settings: Option<Arc<Settings>>,
    pub windows: windows::Options,
}

impl Interface {
    /// An interface with an empty first window.
    pub fn new(options: Options) -> crane_model::Result<Self> {
        let (name, tally) = (
            options.windows.interface.clone(),
            Arc::clone(&options.windows.tally),
        );
        let windows = Windows::new(options.windows)?;
        Ok(Self {
            view: None,
            name,
            tally,
            ring: options.ring,
            next: VecDeque::new(),
            being_stored: 0,
            waiting: None,
            windows,
            stores: options.stores,
            settings: options.settings,
            saved_at: None,
            forgotten: false,
        })
    }

    /// Continues a window that another run saved `age` nanoseconds ago.
    pub fn resume(
        &mut self,
        saved: &SavedWindow,
        sketches: &[u8],
        age: u64,
    ) -> crane_model::Result<()> {
        self.windows.resume(saved, sketches, age)
    }

    /// Whether the current window has no packets.
    pub fn is_empty(&self) -> bool {
        self.windows.current().packets == 0
    }

    /// When the current window was last saved.
    pub fn saved_at(&self) -> Option<Instant> {
        self.saved_at
    }

    /// Whether the current window has to be saved: it has packets, and the last save was at least
    /// `interval` ago.
    pub fn is_to_be_saved(&self, interval: Duration, now: Instant) -> bool {
        let long_ago = |at: Instant| now.duration_since(at) >= interval;
        !self.is_empty() && self.saved_at.is_none_or(long_ago)
    }

    /// Saves the current window for the next run.
    pub fn save(&mut self, saver: &Saver) -> crane_model::Result<()> {
        let now = Instant::now();
        self.saved_at = Some(now);
        if let Some(settings) = &self.settings
            && let Some((window, sketches)) = self.windows.save(now, wall_clock())?
        {
            saver.save(window, settings, sketches, &self.tally);
        }
        Ok(())
    }

    /// Name of the interface or file.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Removes the interface as soon as it has ended.
    pub fn forget(&mut self) {
        self.forgotten = true;
    }

    /// Whether it is removed as soon as it has ended.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    pub fn parts(&mut self) -> (&Windows, &mut RingReader) {
        (&self.windows, &mut self.ring)
    }

    /// Stores batches or ends the window, if either is due. `pause` is called with the ring every
    /// few milliseconds while that takes.
    pub fn work(
        &mut self,
        run: &mut Run,
        cut: Cut,
        pause: &mut dyn FnMut(&mut RingReader),
    ) -> anyhow::Result<Progress> {
        // Read before the ring is, because nothing is written after the writer has gone.
        let ended = self.ring.has_ended();
        let full = self.ring.full_batch();
        let ready = self.ring.used().min(full);
        let time = Instant::now();
        if self.windows.clock().is_over(time) && !ended {
            // Packets in the ring belong to the window that ends.
            let mut left = self.ring.used();
            while left > 0 {
                left = left.saturating_sub(self.store(run, left.min(full), 1, pause)?);
            }
            self.windows.turn_at(time, wall_clock())?;
            return Ok(Progress::Stored);
        }
        if ready == 0 && ended {
            return Ok(Progress::Drained);
        }
        if ready == 0 {
            return Ok(Progress::Waiting);
        }
        let since = *self.waiting.get_or_insert_with(Instant::now);
        let due = matches!(cut, Cut::Linger(linger) if since.elapsed() >= linger);
        if ready == full || ended || due {
            self.store(run, ready, run.most_batches(), pause)?;
            return Ok(Progress::Stored);
        }
        Ok(Progress::Waiting)
    }

    /// Stores a batch of the next `count` slots of the ring, and one more if the last edge has two,
    /// and up to `most` full batches if there are as many. Returns how many slots were taken.
    fn store(
        &mut self,
        run: &mut Run,
        count: usize,
        most: usize,
        pause: &mut dyn FnMut(&mut RingReader),
    ) -> anyhow::Result<usize> {
        let start = Instant::now();
        run.clear();
        let held = self.windows.take_held();
        let held_before = usize::from(held.is_some());
        if let Some(edge) = held {
            Slot::write(&edge, &mut run.slots);
        }
        // Copied out of the ring, because a window may end in the middle of them.
        let mut taken = self.ring.take(&mut run.slots, count)?;
        run.end_batch();
        while run.ends.len() < most && self.ring.used() >= self.ring.full_batch() {
            taken += self.ring.take(&mut run.slots, self.ring.full_batch())?;
            run.end_batch();
        }
        let edges = Slot::edges(&run.slots).count();
        self.being_stored = edges as u64;
        panics::provoke("sketch", &self.name);
        if self.stores {
            let ring = &mut self.ring;
            let held = self.windows.store(run, &mut || pause(ring))?;
            self.tally.edges.fetch_add((edges - held) as u64, Relaxed);
        } else {
            self.tally.ignore(Ignored::NotStored, edges as u64);
        }
        self.being_stored = 0;
        self.waiting = None;
        // A packet that was held back has been counted with the previous batch.
        let new = edges - held_before;
        self.tally
            .batches
            .record(new, run.ends.len(), start.elapsed());
        Ok(taken)
    }

    /// Discards the packets in the ring because there is no time to store them. They are counted as
    /// dropped by the ring.
    pub fn abandon(&mut self) {
        let count = self.ring.abandon();
        if count == 0 {
            return;
        }
        self.tally.ring_full.fetch_add(count, Relaxed);
        tracing::warn!(
            interface = self.name,
            packets = count,
            "stopped before these were stored"
        );
    }

    /// Starts new windows after a panic, because the current ones may be inconsistent. Packets that
    /// were being stored are counted as dropped by the ring.
    pub fn recover(&mut self) -> anyhow::Result<()> {
        let lost = std::mem::take(&mut self.being_stored);
        self.tally.ring_full.fetch_add(lost, Relaxed);
        let packets = self.windows.reset()?;
        tracing::error!(
            interface = self.name,
            packets,
            lost,
            "begins new windows after a fault; what was in the last two is lost"
        );
        Ok(())
    }

    /// Ends the interface after its last packet. With `is_resumed`, the next run resumes its
    /// window, which is not reported as ended.
    pub fn end(mut self, is_resumed: bool) -> anyhow::Result<Ended> {
        if is_resumed {
            self.windows.remove_listener();
        }
        let stored = self.windows.close()?;
        self.tally.edges.fetch_add(stored, Relaxed);
        Ok(self.windows.end()?)
    }

    /// Updates the counter of used ring slots.
    pub fn count_ring_used(&self) {
        let used = self.ring.used() as u64;
        self.tally.ring_used.store(used, Relaxed);
    }

    /// Whether a window has begun since the view was made.
    pub fn has_turned(&self) -> bool {
        let begun = self.windows.begun();
        self.view.as_ref().is_none_or(|(at, _)| *at != begun)
    }

    /// What other threads see.
    pub fn view(&mut self) -> Arc<InterfaceView> {
        if let Some((_, view)) = &self.view
            && !self.has_turned()
        {
            return Arc::clone(view);
        }
        let view = view(&self.name, &self.tally, &self.windows);
        self.view = Some((self.windows.begun(), Arc::clone(&view)));
        view
    }
}

fn view(name: &str, tally: &Arc<Tally>, windows: &Windows) -> Arc<InterfaceView> {
    Arc::new(InterfaceView {
        name: name.into(),
        tally: Arc::clone(tally),
        last: windows.last().cloned(),
        ended: None,
    })
}

#[cfg(test)]
pub mod tests;
