//! The windows of one interface: the current one, the one before it and, of a file that is divided
//! into windows, one over all packets.

use std::sync::Arc;
use std::time::Instant;

use super::exact::ExactCounts;
use super::groups::Groups;
use super::run::Run;
use super::snapshot::{EndedView, InterfaceView};
use super::state::Figures;
use super::{Assignment, Bounds, WallWindows, Window, WindowClock};
use crate::config::length::WindowLength;
use crate::lookup::Lookup;
use crate::process::clock::wall_clock;
use crate::saved::window::SavedWindow;
use crate::sketches::Blueprint;
use crate::sketches::budget::Budget;
use crate::sketches::sampling::Sampling;
use crate::traffic::edge::Edge;
use crate::traffic::names::Names;
use crate::traffic::slot::Slot;
use crate::traffic::tally::{Ignored, Tally};

/// Number of a window over all packets. A file that is not divided has only this one, so that both
/// give the same answers.
const WHOLE: u64 = 0;

/// Called with every window that has ended, the name and the counters of its interface, before
/// packets are stored in the next one.
pub type OnTurn = Arc<dyn Fn(&str, &Arc<Window>, &Arc<Tally>) + Send + Sync>;

/// Returns whether the previous run reported the window of this interface with this start.
pub type WasReported = Box<dyn Fn(&str, u64) -> bool + Send>;

pub struct Options {
    /// Name of the interface.
    pub interface: String,
    pub tally: Arc<Tally>,
    pub clock: WindowClock,
    /// Packets that each stored packet stands for.
    pub scale: u64,
    pub blueprint: Arc<Blueprint>,
    pub budget: Budget,
    /// Names of networks to count by, if they are configured.
    pub names: Option<Arc<Names>>,
    /// Databases and host names of addresses.
    pub lookup: Arc<Lookup>,
    /// Whether to keep a window over all packets in addition.
    pub whole: bool,
    /// Whether to count all pairs exactly in addition.
    pub exact: bool,
    pub on_turn: Option<OnTurn>,
}

/// All windows of an interface.
pub struct Windows {
    interface: String,
    pub(super) current: Window,
    last: Option<Arc<Window>>,
    /// The window over all packets, if the current window is another one.
    pub(super) whole: Option<Window>,
    pub(super) exact: Option<ExactCounts>,
    on_turn: Option<OnTurn>,
    names: Option<Arc<Names>>,
    lookup: Arc<Lookup>,
    /// Traffic between named networks since the start, if there are names.
    pub(super) groups: Option<Groups>,
    clock: WindowClock,
    /// A packet whose window depends on the time of the next packet.
    held: Option<Edge>,
    /// Windows begun so far.
    begun: u64,
    /// Layers added since the start.
    pub(super) expansions: usize,
    /// Packets that each stored packet stands for.
    pub(super) scale: u64,
    /// Counts packets that are not sampled.
    tally: Arc<Tally>,
    /// Value of that counter when the current window began.
    unsampled: u64,
    pub(super) blueprint: Arc<Blueprint>,
    budget: Budget,
}

/// A change of how packets are stored. It begins a new window.
pub struct Renewal {
    pub length: WindowLength,
    /// Packets that each stored packet stands for.
    pub scale: u64,
    /// Other sketches and their memory, if these have changed.
    pub rebuilt: Option<(Arc<Blueprint>, Budget)>,
}

/// An interface or file that has ended.
pub struct Ended {
    /// Name of the interface or file.
    pub name: String,
    pub tally: Arc<Tally>,
    /// The window over all packets of a file, or the last window of an interface.
    pub whole: Arc<Window>,
    pub figures: Arc<Figures>,
    /// Exact counts of all pairs, if they were requested.
    pub exact: Option<ExactCounts>,
    /// The final state, which readers see from now on.
    pub view: Arc<InterfaceView>,
}

impl Windows {
    /// Starts with an empty window.
    pub fn new(options: Options) -> crane_model::Result<Self> {
        let Options {
            interface,
            tally,
            clock,
            scale,
            blueprint,
            budget,
            names,
            lookup,
            ..
        } = options;
        let window = |number, bounds| {
            let sampling = Sampling::new(scale, Arc::clone(&tally), 0);
            let sketches = blueprint.build(&budget, number, sampling)?;
            let (until, names, lookup) = (clock.until(), names.clone(), Arc::clone(&lookup));
            let window = Window::new(number, bounds, until, sketches, names, lookup);
            crane_model::Result::Ok(window)
        };
        Ok(Self {
            current: window(0, clock.first())?,
            last: None,
            whole: match clock {
                WindowClock::Packets(_) if options.whole => Some(window(WHOLE, None)?),
                _ => None,
            },
            exact: options.exact.then(ExactCounts::default),
            on_turn: options.on_turn,
            groups: names.clone().map(Groups::new),
            names,
            lookup,
            interface,
            clock,
            held: None,
            begun: 1,
            expansions: 0,
            scale,
            tally,
            unsampled: 0,
            blueprint,
            budget,
        })
    }

    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The window that is being filled.
    pub fn current(&self) -> &Window {
        &self.current
    }

    /// The last complete window.
    pub fn last(&self) -> Option<&Arc<Window>> {
        self.last.as_ref()
    }

    pub fn clock(&self) -> &WindowClock {
        &self.clock
    }

    /// Number of windows that have begun. The last window changes when this number changes.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Figures besides the windows.
    pub fn figures(&self) -> crane_model::Result<Figures> {
        let sketches = &self.current.sketches;
        let loads = sketches.pairs.loads()?;
        Ok(Figures {
            loads: loads.iter().map(|load| load.mean).collect(),
            expansions: self.expansions,
            memory_bytes: self.memory_bytes(),
            saturated: sketches.is_saturated()?,
            groups: self.groups.as_ref().map(Groups::seen),
            current: self.current.state(),
        })
    }

    /// Bytes of all sketches.
    fn memory_bytes(&self) -> usize {
        let others = self.last.as_deref().into_iter().chain(&self.whole);
        let windows = others.chain([&self.current]);
        windows.map(|window| window.sketches.memory_bytes()).sum()
    }

    /// Returns the packet that was held back. It has to be stored before later packets.
    pub fn take_held(&mut self) -> Option<Edge> {
        self.held.take()
    }

    /// Stores the packets of a run in the windows they belong to. The last one may be held back;
    /// returns how many were. `pause` is called every few milliseconds while that takes.
    pub fn store(&mut self, run: &mut Run, pause: &mut dyn FnMut()) -> anyhow::Result<usize> {
        self.store_before(run, None, pause)?;
        Ok(usize::from(self.held.is_some()))
    }

    /// Stores packets in the windows they belong to. `after` is the time of the packet after them.
    /// If it is not known, the last packet may be held back.
    fn store_before(
        &mut self,
        run: &mut Run,
        after: Option<u64>,
        pause: &mut dyn FnMut(),
    ) -> anyhow::Result<()> {
        let Run {
            slots,
            ends,
            memory,
        } = run;
        if let (WindowClock::Never, Some(first)) = (&self.clock, Slot::edges(slots).next()) {
            self.current.start = self.current.start.min(first.time);
        }
        // Batches of the current window that are not stored yet, and where the next one begins.
        let (mut batches, mut begin) = (Vec::with_capacity(ends.len()), 0);
        for end in ends {
            let (mut from, mut rest) = (&slots[begin..*end], &slots[begin..*end]);
            begin = *end;
            if !matches!(self.clock, WindowClock::Packets(_)) {
                rest = &[];
            }
            while let Some((edge, behind)) = Slot::split_first(rest) {
                let before = &from[..from.len() - rest.len()];
                let next = Slot::edges(behind).next().map(|next| next.time);
                match self.clock.place(edge.time, next.or(after)) {
                    Assignment::Current => {}
                    Assignment::First(window) => {
                        (self.current.start, self.current.end) = (window.start, Some(window.end));
                        if let Some(whole) = &mut self.whole {
                            whole.start = window.start;
                        }
                    }
                    Assignment::Next(window) => {
                        batches.push(before);
                        self.store_batches(memory, &batches, pause)?;
                        batches.clear();
                        self.turn(window)?;
                        from = rest;
                    }
                    // It begins the next batch.
                    Assignment::Unknown => {
                        begin = *end - rest.len();
                        from = before;
                        break;
                    }
                }
                rest = behind;
            }
            batches.push(from);
        }
        self.held = Slot::edges(&slots[begin..]).next();
        self.store_batches(memory, &batches, pause)
    }

    /// Ends the window `now`, which is `wall` by the wall clock, if windows follow the clock.
    pub fn turn_at(&mut self, now: Instant, wall: u64) -> anyhow::Result<()> {
        let WindowClock::Wall(clock) = &mut self.clock else {
            return Ok(());
        };
        let next = clock.turn(now, wall);
        self.turn(next)
    }

    /// Ends the window early and stores the following packets with other settings.
    pub fn renew(&mut self, renewal: Renewal) -> anyhow::Result<()> {
        let (now, wall) = (Instant::now(), wall_clock());
        self.cut_at(now);
        if let Some(rebuilt) = renewal.rebuilt {
            (self.blueprint, self.budget) = rebuilt;
        }
        self.scale = renewal.scale;
        let clock = WallWindows::new(renewal.length, now, wall);
        let bounds = clock.bounds();
        self.clock = WindowClock::Wall(clock);
        self.turn(bounds)
    }

    /// Sets the end of a window of the wall clock to `now`.
    fn cut_at(&mut self, now: Instant) {
        if let WindowClock::Wall(clock) = &self.clock {
            let lasted = self.current.start.saturating_add(clock.lasted(now));
            let end = self.current.end.unwrap_or(u64::MAX);
            self.current.end = Some(lasted.min(end));
        }
    }

    /// Replaces the names of networks between which traffic is counted.
    pub fn rename(&mut self, names: Option<Arc<Names>>) {
        self.names.clone_from(&names);
        self.current.names.clone_from(&names);
        let before = self.groups.take();
        self.groups = names.map(|names| match before {
            Some(before) => before.renamed(names),
            None => Groups::new(names),
        });
    }

    /// The current window and its sketches for the next run. `None` unless windows follow the wall
    /// clock.
    pub fn save(
        &self,
        now: Instant,
        wall: u64,
    ) -> crane_model::Result<Option<(SavedWindow, Vec<u8>)>> {
        let WindowClock::Wall(clock) = &self.clock else {
            return Ok(None);
        };
        let window = SavedWindow {
            interface: self.interface.clone(),
            number: self.current.number,
            start: self.current.start,
            saved: wall,
            lasted: clock.lasted(now),
            left: clock.left(now),
            unseen: self.current.unseen,
            packets: self.current.packets,
            bytes: self.current.bytes,
            unsampled: self.current.sketches.unsampled(),
        };
        Ok(Some((window, self.current.sketches.save()?)))
    }

    /// Replaces the first window by one that another run saved `age` nanoseconds ago.
    pub fn resume(
        &mut self,
        saved: &SavedWindow,
        sketches: &[u8],
        age: u64,
    ) -> crane_model::Result<()> {
        let WindowClock::Wall(clock) = &mut self.clock else {
            return Ok(());
        };
        let sampling = Sampling::new(self.scale, Arc::clone(&self.tally), 0).after(saved.unsampled);
        let mut resumed = self.blueprint.build(&self.budget, saved.number, sampling)?;
        resumed.load(sketches)?;
        clock.resume(saved.start, saved.lasted + age);
        let (bounds, until) = (clock.bounds(), self.clock.until());
        let (names, lookup) = (self.names.clone(), Arc::clone(&self.lookup));
        self.current = Window::new(saved.number, Some(bounds), until, resumed, names, lookup);
        self.current.unseen = saved.unseen + age;
        self.current.packets = saved.packets;
        self.current.bytes = saved.bytes;
        self.begun = saved.number + 1;
        Ok(())
    }

    /// Starts again with empty windows, if windows follow the wall clock. Returns how many packets
    /// the discarded windows had.
    pub fn reset(&mut self) -> anyhow::Result<u64> {
        let dropped = self.current.packets + self.last.as_ref().map_or(0, |last| last.packets);
        // The discarded windows may be inconsistent, so they are not reported.
        let on_turn = self.on_turn.take();
        let now = Instant::now();
        self.cut_at(now);
        self.turn_at(now, wall_clock())?;
        self.on_turn = on_turn;
        self.last = None;
        Ok(dropped)
    }

    /// Begins a new window.
    fn turn(&mut self, bounds: Bounds) -> anyhow::Result<()> {
        // Releases memory before the next window needs it.
        self.last = None;
        // Packets of the next window may already have been skipped by the sampling before this
        // moment, but not before the window that ends now began. Files are read far ahead, so
        // their count starts at 0.
        let unsampled = match self.clock {
            WindowClock::Wall(_) => self.tally.ignored(Ignored::Sampled),
            _ => 0,
        };
        let before = std::mem::replace(&mut self.unsampled, unsampled);
        let sampling = Sampling::new(self.scale, Arc::clone(&self.tally), before);
        let number = self.begun;
        let sketches = self.blueprint.build(&self.budget, number, sampling)?;
        self.begun += 1;
        // The window of a file ends early if its clock was set back.
        if matches!(self.clock, WindowClock::Packets(_)) && self.current.ends_after(bounds.start) {
            self.current.cut();
        }
        let (until, names) = (self.clock.until(), self.names.clone());
        let lookup = Arc::clone(&self.lookup);
        let next = Window::new(number, Some(bounds), until, sketches, names, lookup);
        let over = std::mem::replace(&mut self.current, next).finish();
        if let Some(on_turn) = &self.on_turn {
            on_turn(&self.interface, &over, &self.tally);
        }
        self.last = Some(over);
        Ok(())
    }

    /// Stops reporting windows that end from now on.
    pub fn remove_listener(&mut self) {
        self.on_turn = None;
    }

    /// Ends the current window after the last packet, and stores the packet that was held back, if
    /// any. Returns the number of such packets.
    pub fn close(&mut self) -> anyhow::Result<u64> {
        let held = self.held.take();
        if let Some(edge) = held {
            let mut run = Run::default();
            Slot::write(&edge, &mut run.slots);
            run.end_batch();
            // No packet follows, so the timestamp is taken as correct.
            self.store_before(&mut run, Some(edge.time), &mut || {})?;
        }
        match (&self.clock, self.current.end) {
            _ if self.current.packets == 0 => {}
            (WindowClock::Wall(_), _) => {
                let now = Instant::now();
                self.cut_at(now);
                self.turn_at(now, wall_clock())?;
            }
            (_, Some(_)) => {
                self.current.cut();
                let end = self.current.end.unwrap_or(u64::MAX);
                self.turn(Bounds { start: end, end })?;
            }
            (_, None) => {}
        }
        Ok(u64::from(held.is_some()))
    }

    /// The final windows.
    pub fn end(self) -> crane_model::Result<Ended> {
        let figures = Arc::new(self.figures()?);
        let current = self.current.finish();
        let whole = self.whole.map(Window::finish);
        let view = InterfaceView {
            name: self.interface.clone(),
            tally: Arc::clone(&self.tally),
            last: self.last,
            ended: Some(EndedView {
                current: Arc::clone(&current),
                figures: Arc::clone(&figures),
            }),
        };
        Ok(Ended {
            name: self.interface,
            tally: self.tally,
            whole: whole.unwrap_or(current),
            figures,
            exact: self.exact,
            view: Arc::new(view),
        })
    }
}
