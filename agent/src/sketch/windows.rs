//! The windows of one interface: the one that is being filled, the one before
//! it and, where a file is cut into windows, one over all of it.

use std::sync::Arc;
use std::time::Instant;

use super::answer::WindowName;
use super::batch::Batch;
use super::budget::Budget;
use super::groups::Groups;
use super::past::{Compared, Past};
use super::renewal::Renewal;
use super::sampling::Sampling;
use super::saved::window::SavedWindow;
use super::sketches::Blueprint;
use super::slot::Slot;
use super::window::{Bounds, Cadence, Place, Window, WindowClock, wall_clock};
use crate::edge::Edge;
use crate::names::Names;
use crate::tally::{Ignored, Tally};

/// The number of a window over all packets: that of the only one where a file is not
/// cut into windows, so that both tell the same.
const WHOLE: u64 = 0;

/// All windows of an interface. See the head of this module.
pub struct Windows {
    /// For log lines.
    interface: String,
    current: Window,
    last: Option<Window>,
    /// All packets, if the windows are not.
    whole: Option<Window>,
    /// What is kept for a report, if there will be one.
    past: Option<Past>,
    /// What was sent between networks since the start, if they have names.
    groups: Option<Groups>,
    clock: WindowClock,
    /// A packet of which the next one will tell where it belongs.
    held: Option<Edge>,
    /// Windows begun so far.
    begun: u64,
    /// Layers added since the start.
    expansions: usize,
    /// Packets that each packet stands for.
    scale: u64,
    /// Counts what is left out.
    tally: Arc<Tally>,
    /// How many had been left out when the current window began.
    left_out: u64,
    blueprint: Arc<Blueprint>,
    budget: Budget,
}

impl Windows {
    /// An empty first window of `interface`, in which each packet stands for
    /// `scale`.
    pub fn new(
        interface: String,
        clock: WindowClock,
        past: Option<Past>,
        scale: u64,
        tally: Arc<Tally>,
        blueprint: Arc<Blueprint>,
        budget: Budget,
    ) -> crane_model::Result<Self> {
        let window = |number, bounds| {
            let sampling = Sampling::new(scale, Arc::clone(&tally), 0);
            let sketches = blueprint.build(&budget, number, sampling)?;
            crane_model::Result::Ok(Window::new(bounds, sketches))
        };
        Ok(Self {
            interface,
            current: window(0, clock.first(wall_clock()))?,
            last: None,
            whole: match clock {
                WindowClock::Packets(_) if past.is_some() => Some(window(WHOLE, None)?),
                _ => None,
            },
            past,
            groups: None,
            clock,
            held: None,
            begun: 1,
            expansions: 0,
            scale,
            tally,
            left_out: 0,
            blueprint,
            budget,
        })
    }

    /// The same, which count between networks as well.
    pub fn with_groups(self, groups: Option<Groups>) -> Self {
        Self { groups, ..self }
    }

    /// The window that is being filled.
    pub fn current(&self) -> &Window {
        &self.current
    }

    /// The one before it.
    pub fn last(&self) -> Option<&Window> {
        self.last.as_ref()
    }

    /// The one with most packets of all: of a file that is cut into windows all
    /// of it, otherwise the current one.
    pub fn widest(&self) -> &Window {
        self.whole.as_ref().unwrap_or(&self.current)
    }

    /// The window that is asked for, or none if there is no such.
    pub fn meant(&self, asked: Option<WindowName>) -> Option<(WindowName, &Window)> {
        let which = WindowName::meant(asked, self.last.is_some())?;
        let last = self.last.as_ref().filter(|_| which == WindowName::Last);
        Some((which, last.unwrap_or(&self.current)))
    }

    /// What turns them.
    pub fn clock(&self) -> &WindowClock {
        &self.clock
    }

    /// How many have begun: another number, another last window.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Layers added since the start.
    pub fn expansions(&self) -> usize {
        self.expansions
    }

    /// What is kept for a report.
    pub fn past(&mut self) -> Option<&mut Past> {
        self.past.as_mut()
    }

    /// What was sent between networks since the start.
    pub fn groups(&self) -> Option<&Groups> {
        self.groups.as_ref()
    }

    /// All pairs beside their exact counts, if those are kept.
    pub fn compare(&self) -> crane_model::Result<Option<Vec<Compared>>> {
        let compare = |past: &Past| past.compare(&self.widest().sketches);
        self.past.as_ref().map_or(Ok(None), compare)
    }

    /// Bytes of all sketches.
    pub fn memory_bytes(&self) -> usize {
        let others = self.last.iter().chain(&self.whole);
        let windows = others.chain([&self.current]);
        windows.map(|window| window.sketches.memory_bytes()).sum()
    }

    /// The packet that was held back last time: the first of the next ones.
    pub fn take_held(&mut self) -> Option<Edge> {
        self.held.take()
    }

    /// Stores packets where they belong; the last of them may be held back. How
    /// many were.
    pub fn store(&mut self, batch: &mut Batch, slots: &[Slot]) -> anyhow::Result<usize> {
        self.store_before(batch, slots, None)?;
        Ok(usize::from(self.held.is_some()))
    }

    /// Stores packets where they belong. `after` is the time of the one after
    /// them; while that is not known the last of them may be held back.
    fn store_before(
        &mut self,
        batch: &mut Batch,
        slots: &[Slot],
        after: Option<u64>,
    ) -> anyhow::Result<()> {
        if let (WindowClock::Never, Some(first)) = (&self.clock, Slot::edges(slots).next()) {
            self.current.start = self.current.start.min(first.time);
        }
        if !matches!(self.clock, WindowClock::Packets(_)) {
            return self.store_now(batch, slots);
        }
        let (mut from, mut rest) = (slots, slots);
        while let Some((edge, behind)) = Slot::split_first(rest) {
            let before = &from[..from.len() - rest.len()];
            let next = Slot::edges(behind).next().map(|next| next.time);
            match self.clock.place(edge.time, next.or(after)) {
                Place::Current => {}
                Place::First(window) => {
                    (self.current.start, self.current.end) = (window.start, Some(window.end));
                    if let Some(whole) = &mut self.whole {
                        whole.start = window.start;
                    }
                }
                Place::Next(window) => {
                    self.store_now(batch, before)?;
                    self.turn(window)?;
                    from = rest;
                }
                Place::Unknown => {
                    self.held = Some(edge);
                    return self.store_now(batch, before);
                }
            }
            rest = behind;
        }
        self.store_now(batch, from)
    }

    fn store_now(&mut self, batch: &mut Batch, slots: &[Slot]) -> anyhow::Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        batch.fold(self.blueprint.secret(), slots, self.scale);
        let expansions = self.current.sketches.pairs.expansions();
        self.current.store(batch)?;
        if let Some(whole) = &mut self.whole {
            whole.store(batch)?;
        }
        if let Some(past) = &mut self.past {
            past.count(&batch.pairs);
        }
        if let Some(groups) = &mut self.groups {
            groups.count(&batch.pairs);
        }
        let pairs = &self.current.sketches.pairs;
        let grown = pairs.expansions() - expansions;
        if grown > 0 {
            self.expansions += grown;
            let bytes = pairs.memory_bytes();
            tracing::debug!(interface = self.interface, bytes, "the sketch has grown");
        }
        Ok(())
    }

    /// Turns the window `now`, which is `wall` by the wall clock, if the
    /// monotonic clock turns windows.
    pub fn turn_at(&mut self, now: Instant, wall: u64) -> anyhow::Result<()> {
        let WindowClock::Monotonic(clock) = &mut self.clock else {
            return Ok(());
        };
        self.current.end = Some(self.current.start.saturating_add(clock.lasted(now)));
        let next = clock.turn(now, wall);
        self.turn(next)
    }

    /// Ends the window early, and goes on in another way.
    pub fn renew(&mut self, renewal: Renewal) -> anyhow::Result<()> {
        let (now, wall) = (Instant::now(), wall_clock());
        if let WindowClock::Monotonic(clock) = &self.clock {
            self.current.end = Some(self.current.start.saturating_add(clock.lasted(now)));
        }
        if let Some(rebuilt) = renewal.rebuilt {
            (self.blueprint, self.budget) = rebuilt;
        }
        self.scale = renewal.scale;
        let cadence = Cadence::new(renewal.origin, renewal.length, now);
        let bounds = cadence.bounds(wall);
        self.clock = WindowClock::Monotonic(cadence);
        self.turn(bounds)
    }

    /// Counts between networks by other names.
    pub fn rename(&mut self, names: Option<Arc<Names>>) {
        let before = self.groups.take();
        self.groups = names.map(|names| match before {
            Some(before) => before.renamed(names),
            None => Groups::new(names),
        });
    }

    /// The current window and its sketches, to be taken up by another run; none unless
    /// the monotonic clock turns windows.
    pub fn save(
        &self,
        now: Instant,
        wall: u64,
    ) -> crane_model::Result<Option<(SavedWindow, Vec<u8>)>> {
        let WindowClock::Monotonic(clock) = &self.clock else {
            return Ok(None);
        };
        let window = SavedWindow {
            interface: self.interface.clone(),
            number: self.begun - 1,
            start: self.current.start,
            saved: wall,
            lasted: clock.lasted(now),
            left: clock.left(now),
            unseen: self.current.unseen,
            packets: self.current.packets,
            bytes: self.current.bytes,
            left_out: self.current.sketches.left_out(),
        };
        Ok(Some((window, self.current.sketches.save()?)))
    }

    /// Goes on `now` with a window of another run, which saved it `age` nanoseconds ago, in
    /// the place of the first one.
    pub fn resume(
        &mut self,
        saved: &SavedWindow,
        sketches: &[u8],
        age: u64,
        now: Instant,
    ) -> crane_model::Result<()> {
        let WindowClock::Monotonic(clock) = &mut self.clock else {
            return Ok(());
        };
        let sampling = Sampling::new(self.scale, Arc::clone(&self.tally), 0).after(saved.left_out);
        let mut resumed = self.blueprint.build(&self.budget, saved.number, sampling)?;
        resumed.load(sketches)?;
        let (lasted, left) = (saved.lasted + age, saved.left.saturating_sub(age));
        *clock = Cadence::resumed(clock.length(), lasted, left, now);
        let bounds = Bounds {
            start: saved.start,
            end: saved.start.saturating_add(lasted + left),
        };
        self.current = Window::new(Some(bounds), resumed);
        self.current.unseen = saved.unseen + age;
        self.current.packets = saved.packets;
        self.current.bytes = saved.bytes;
        self.begun = saved.number + 1;
        Ok(())
    }

    /// Begins anew, without the windows there were; how many packets were in them.
    /// For windows that the monotonic clock turns.
    pub fn reset(&mut self) -> anyhow::Result<u64> {
        let dropped = self.current.packets + self.last.as_ref().map_or(0, |last| last.packets);
        self.turn_at(Instant::now(), wall_clock())?;
        self.last = None;
        Ok(dropped)
    }

    /// Begins a new window.
    fn turn(&mut self, bounds: Bounds) -> anyhow::Result<()> {
        // Gives its memory back before the next one asks for any.
        self.last = None;
        // What is handed over just now may have been left out a while ago, but
        // not before the window that is over. Files are read far ahead.
        let left_out = match self.clock {
            WindowClock::Monotonic(_) => self.tally.ignored(Ignored::Sampled),
            _ => 0,
        };
        let before = std::mem::replace(&mut self.left_out, left_out);
        let sampling = Sampling::new(self.scale, Arc::clone(&self.tally), before);
        let sketches = self.blueprint.build(&self.budget, self.begun, sampling)?;
        self.begun += 1;
        // Windows of packets that end early: the clock was set back.
        if matches!(self.clock, WindowClock::Packets(_)) && self.current.ends_after(bounds.start) {
            self.current.cut();
        }
        let next = Window::new(Some(bounds), sketches);
        let over = std::mem::replace(&mut self.current, next);
        if let Some(past) = &mut self.past {
            let names = self.groups.as_ref().map(|groups| &**groups.names());
            past.remember(&over, &self.interface, names)?;
        }
        self.last = Some(over);
        Ok(())
    }

    /// Ends the current window: nothing comes any more. How many packets that
    /// were held back were stored.
    pub fn close(&mut self) -> anyhow::Result<u64> {
        let held = self.held.take();
        if let Some(edge) = held {
            let mut slots = Vec::new();
            Slot::write(&edge, &mut slots);
            // With nothing after it, it is its own witness.
            self.store_before(&mut Batch::default(), &slots, Some(edge.time))?;
        }
        match (&self.clock, self.current.end) {
            _ if self.current.packets == 0 => {}
            (WindowClock::Monotonic(_), _) => self.turn_at(Instant::now(), wall_clock())?,
            (_, Some(_)) => {
                self.current.cut();
                let end = self.current.end.unwrap_or(u64::MAX);
                self.turn(Bounds { start: end, end })?;
            }
            (_, None) => {}
        }
        Ok(u64::from(held.is_some()))
    }
}
