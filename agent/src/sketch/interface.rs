//! One interface or capture file on its way through the worker. It owns its
//! ring, its windows and its books; others see its [`view`](Interface::view) or
//! its [`summary`](Interface::summary), or have an
//! [`answer`](Interface::answer).

mod change;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::answer::{About, Answer, WindowName};
use super::batch::{Batch, Cut};
use super::budget::Budget;
use super::conversations;
use super::groups::Groups;
use super::past::Past;
use super::renewal::Change;
use super::ring::RingReader;
use super::saved::settings::Settings;
use super::saved::window::SavedWindow;
use super::saved::writer::Saver;
use super::sketches::Blueprint;
use super::slot::Slot;
use super::summary::Summary;
use super::view::{Lists, Views, until};
use super::window::{WindowClock, wall_clock};
use super::windows::Windows;
use crate::export::snapshot::{InterfaceView, Until};
use crate::names::Names;
use crate::panics;
use crate::tally::{Ignored, Tally};

/// What interfaces work with, one after the other.
#[derive(Default)]
pub struct Buffers {
    slots: Vec<Slot>,
    batch: Batch,
}

/// What became of a look into the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Packets were stored, or the window turned.
    Stored,
    /// Nothing is due.
    Waiting,
    /// All is stored, and nothing comes any more.
    Drained,
}

/// One interface or file. See the head of this module.
pub struct Interface {
    name: String,
    tally: Arc<Tally>,
    ring: RingReader,
    /// Rings that packets come through after this one, and how these are stored.
    next: VecDeque<(RingReader, Option<Box<Change>>)>,
    /// Packets out of the ring that are not yet stored.
    in_hand: u64,
    /// When the oldest packet in the ring was first seen there.
    waiting: Option<Instant>,
    windows: Windows,
    /// Whether packets are stored.
    stores: bool,
    views: Views,
    view: Option<Arc<InterfaceView>>,
    /// Settings under which packets are stored; none if windows are not saved.
    settings: Option<Arc<Settings>>,
    /// When its window was last saved.
    saved_at: Option<Instant>,
    /// Whether there is anything that the view does not show.
    changed: bool,
    ended: bool,
    forgotten: bool,
}

/// What an interface is made of.
pub struct Options {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Where its packets come from.
    pub ring: RingReader,
    /// What is kept for a report; none if there will be none.
    pub past: Option<Past>,
    /// What turns the windows.
    pub clock: WindowClock,
    /// Packets that each packet stands for.
    pub scale: u64,
    /// Whether packets are stored; otherwise they are only decoded.
    pub stores: bool,
    /// How sketches are built.
    pub blueprint: Arc<Blueprint>,
    /// Out of which memory.
    pub budget: Budget,
    /// Names of networks to count by, if there are any.
    pub names: Option<Arc<Names>>,
    /// Settings that its windows are saved with, if they are.
    pub settings: Option<Arc<Settings>>,
}

impl Interface {
    /// An interface with an empty first window.
    pub fn new(options: Options) -> crane_model::Result<Self> {
        Ok(Self {
            windows: Windows::new(
                options.name.clone(),
                options.clock,
                options.past,
                options.scale,
                Arc::clone(&options.tally),
                options.blueprint,
                options.budget,
            )?
            .with_groups(options.names.map(Groups::new)),
            name: options.name,
            tally: options.tally,
            ring: options.ring,
            next: VecDeque::new(),
            in_hand: 0,
            waiting: None,
            stores: options.stores,
            views: Views::default(),
            view: None,
            settings: options.settings,
            saved_at: None,
            changed: true,
            ended: false,
            forgotten: false,
        })
    }

    /// Goes on with a window of another run, which saved it `age` nanoseconds ago.
    pub fn resume(
        &mut self,
        saved: &SavedWindow,
        sketches: &[u8],
        age: u64,
    ) -> crane_model::Result<()> {
        self.windows.resume(saved, sketches, age, Instant::now())
    }

    /// Whether nothing came in the current window.
    pub fn is_empty(&self) -> bool {
        self.windows.current().packets == 0
    }

    /// When its window was last saved.
    pub fn saved_at(&self) -> Option<Instant> {
        self.saved_at
    }

    /// Whether its window was not saved for so long. One without packets need not be.
    pub fn is_to_be_saved(&self, interval: Duration, now: Instant) -> bool {
        let long_ago = |at: Instant| now.duration_since(at) >= interval;
        !self.ended && !self.is_empty() && self.saved_at.is_none_or(long_ago)
    }

    /// Has its window saved for the next run.
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

    /// Whether nothing comes any more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Has it vanish when it has ended.
    pub fn forget(&mut self) {
        self.forgotten = true;
    }

    /// Whether it shall vanish when it has ended.
    pub fn is_forgotten(&self) -> bool {
        self.forgotten
    }

    /// Stores a batch if one is due, or turns the window.
    pub fn work(&mut self, buffers: &mut Buffers, cut: Cut) -> anyhow::Result<Progress> {
        // Asked before looking into the ring: nothing comes after it.
        let ended = self.ring.has_ended();
        let full = self.ring.full_batch();
        let ready = self.ring.used().min(full);
        let time = Instant::now();
        if self.windows.clock().is_over(time) && !ended {
            // What is in the ring came before.
            let mut left = self.ring.used();
            while left > 0 {
                left = left.saturating_sub(self.store(buffers, left.min(full))?);
            }
            self.windows.turn_at(time, wall_clock())?;
            self.changed = true;
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
            self.store(buffers, ready)?;
            return Ok(Progress::Stored);
        }
        Ok(Progress::Waiting)
    }

    /// Stores what is in the next `count` slots of the ring, and in one more if
    /// they end within an edge. How many those were.
    fn store(&mut self, buffers: &mut Buffers, count: usize) -> anyhow::Result<usize> {
        let start = Instant::now();
        let Buffers { slots, batch } = buffers;
        slots.clear();
        let held = self.windows.take_held();
        let held_before = usize::from(held.is_some());
        if let Some(edge) = held {
            Slot::write(&edge, slots);
        }
        // Out of the ring, because a window may turn in the middle of them.
        let taken = self.ring.take(slots, count)?;
        let edges = Slot::edges(slots).count();
        self.in_hand = edges as u64;
        panics::provoke("sketch", &self.name);
        if self.stores {
            let held = self.windows.store(batch, slots)?;
            self.tally.edges.fetch_add((edges - held) as u64, Relaxed);
        } else {
            self.tally.ignore(Ignored::NotStored, edges as u64);
        }
        self.in_hand = 0;
        self.waiting = None;
        self.changed = true;
        // One that was held back is of the batch before.
        let new = edges - held_before;
        self.tally.batches.record(new, start.elapsed());
        Ok(taken)
    }

    /// Gives up what is in the ring: there is no time for it. It is counted
    /// with what the ring had no room for.
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

    /// Goes on after a panic with new windows: those there were may be in disorder.
    /// Packets that it interrupted are counted with those that the ring had no room
    /// for.
    pub fn recover(&mut self) -> anyhow::Result<()> {
        let lost = std::mem::take(&mut self.in_hand);
        self.tally.ring_full.fetch_add(lost, Relaxed);
        let packets = self.windows.reset()?;
        (self.views, self.changed) = (Views::default(), true);
        tracing::error!(
            interface = self.name,
            packets,
            lost,
            "begins new windows after a fault; what was in the last two is lost"
        );
        Ok(())
    }

    /// Ends the current window: nothing comes any more.
    pub fn end(&mut self) -> anyhow::Result<()> {
        let stored = self.windows.close()?;
        self.tally.edges.fetch_add(stored, Relaxed);
        self.ended = true;
        self.changed = true;
        Ok(())
    }

    /// Makes the view anew if anything has changed.
    pub fn refresh(&mut self, lists: &Lists) -> crane_model::Result<()> {
        let used = self.ring.used() as u64;
        self.tally.ring_used.store(used, Relaxed);
        if std::mem::take(&mut self.changed) {
            let (name, tally, windows) = (&self.name, &self.tally, &self.windows);
            let view = self.views.next(name, tally, windows, self.ended, lists)?;
            self.view = Some(Arc::new(view));
        }
        Ok(())
    }

    /// What others see of it: a picture as of the last refresh.
    pub fn view(&self) -> Option<&Arc<InterfaceView>> {
        self.view.as_ref()
    }

    /// What is known when it has ended, with the `top` heaviest. The
    /// windows of the past go with it.
    pub fn summary(&mut self, top: usize) -> crane_model::Result<Summary> {
        let past = self.windows.past();
        let wanted = past.as_ref().map(|past| past.wanted().clone());
        let wanted = wanted.unwrap_or_default();
        let windows = past.map(Past::take_windows);
        let widest = self.windows.widest();
        let sketches = &widest.sketches;
        let conversations = match wanted.both {
            true => conversations::heaviest(sketches, top, wanted.by)?,
            false => Vec::new(),
        };
        let heaviest = sketches.heaviest_pairs(top);
        Ok(Summary {
            name: self.name.clone(),
            tally: Arc::clone(&self.tally),
            layers: sketches.pairs.loads()?.len(),
            expansions: sketches.pairs.expansions(),
            memory_bytes: self.windows.memory_bytes(),
            saturated: sketches.is_saturated()?,
            exact: sketches.is_exact(),
            pairs: sketches.pairs.distinct(),
            sampling: sketches.sampling().clone(),
            most_unlisted: sketches.most_unlisted(&heaviest),
            stored_packets: widest.packets,
            stored_bytes: widest.bytes,
            sources: sketches.heaviest_sources(top),
            destinations: sketches.heaviest_destinations(top),
            services: sketches.heaviest_services(top),
            main_services: sketches.main_services(heaviest.union()),
            fans: sketches.largest_fans(top),
            top: heaviest,
            inside: match wanted.inside {
                true => sketches.inside()?,
                false => Vec::new(),
            },
            conversations,
            asked: sketches.asked(&wanted.ask, self.names())?,
            names: self.windows.groups().map(Groups::names).cloned(),
            groups: self.windows.groups().map(Groups::seen),
            windows: windows.unwrap_or_default(),
            compared: self.windows.compare()?,
        })
    }

    /// Which window a query is answered from; none if there is no such.
    pub fn meant(&self, asked: Option<WindowName>) -> Option<WindowName> {
        self.windows.meant(asked).map(|(which, _)| which)
    }

    /// Names of networks, if there are any.
    fn names(&self) -> Option<&Names> {
        self.windows.groups().map(|groups| &**groups.names())
    }

    /// What is known of a pair, networks or a node in a window; none if there is
    /// no such window.
    pub fn answer(
        &self,
        asked: Option<WindowName>,
        about: &About,
    ) -> Option<crane_model::Result<Answer>> {
        let (window, found) = self.windows.meant(asked)?;
        let answer = || {
            let sketches = &found.sketches;
            let until = match window {
                WindowName::Last => Until::End,
                WindowName::Current => until(&self.windows),
            };
            let lists = match about {
                About::Lists { top, with: None } => Some(found.view(*top, until)),
                About::Lists {
                    top,
                    with: Some(node),
                } => Some(found.view_with(*node, *top, until)),
                _ => None,
            };
            let inside = match about {
                About::Inside => sketches.inside()?,
                _ => Vec::new(),
            };
            Ok(Answer {
                interface: self.name.clone(),
                window,
                view: Box::new(found.view_alone(until)),
                flows: sketches.answer(about, self.names())?,
                peers: sketches.peers(about),
                lists: lists.map(Box::new),
                inside,
            })
        };
        Some(answer())
    }
}

#[cfg(test)]
mod tests;
