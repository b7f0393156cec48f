//! One interface or capture file on its way through the worker: its ring, its
//! windows, its books.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crane_model::name::Name;
use crane_model::{Arrival, Flow};
use rtrb::Consumer;

use crate::edge::{Edge, Pair, Slot};
use crate::export::hitters::Hitters;
use crate::export::metrics::BatchMetrics;
use crate::export::snapshot::{Exported, WindowView};
use crate::sketch::batch::Batch;
use crate::sketch::budget::Budget;
use crate::sketch::sketches::{Blueprint, Sketches};
use crate::sketch::window::{Bounds, Place, WindowClock};
use crate::sketch::worker::now;
use crate::tally::{Ignored, Tally};

/// What is kept of the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing but the current window and the last: a capture that runs on.
    LastWindow,
    /// Everything: a file, of which a report is wanted.
    History {
        /// Pairs in the list of a window; none if windows are not reported.
        windows: Option<usize>,
        /// Count exactly, too.
        exactly: bool,
    },
}

/// The number of a window over all packets, among those that turn.
const WHOLE: u64 = u64::MAX;

/// More windows than anyone reads; memory has to end somewhere.
const MOST_WINDOWS: usize = 100_000;

/// What is kept of a window that is over.
pub struct PastWindow {
    /// When it began, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Its packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The pairs with most packets.
    pub top: Vec<Flow<Pair>>,
}

/// A span of time and what is known of it.
pub struct Window {
    /// When it begins, in nanoseconds since 1970.
    pub start: u64,
    /// When it ends; none if it never does. Of a live capture: when it began,
    /// and how long it lasts by the monotonic clock.
    pub end: Option<u64>,
    /// Time of the latest packet of a file.
    pub latest: u64,
    /// Packets stored, scaled if sampled.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Who sent them to whom.
    pub sketches: Sketches,
}

impl Window {
    fn store(&mut self, batch: &Batch) -> crane_model::Result<()> {
        self.latest = self.latest.max(batch.latest);
        self.packets += batch.packets;
        self.bytes += batch.bytes;
        self.sketches.store(batch)
    }
}

/// What interfaces work with, one after the other.
#[derive(Default)]
pub struct Buffers {
    slots: Vec<Slot>,
    batch: Batch,
}

/// Exact packets and bytes beside the sketch. The standard library's map is
/// keyed: no capture can slow it down.
pub type Exact = HashMap<Pair, (u64, u64)>;

/// One interface or file. See the head of this module.
pub struct Interface {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Where its packets come from.
    pub ring: Consumer<Slot>,
    /// The window that is being filled.
    pub current: Window,
    /// The one before it.
    pub last: Option<Window>,
    /// Its picture, which does not change any more.
    pub last_view: Option<Arc<WindowView>>,
    /// All packets, if the windows are not.
    pub whole: Option<Window>,
    /// Windows that are over, if history is kept.
    pub history: Vec<PastWindow>,
    /// Exact counts, if asked for.
    pub exact: Option<Exact>,
    /// Layers added since the start.
    pub expansions: usize,
    /// What was exported last.
    pub exported: Exported,
    /// Whether there is anything that was not published.
    pub dirty: bool,
    /// Whether nothing comes any more.
    pub ended: bool,
    /// When the oldest packet in the ring was first seen there.
    pub waiting: Option<Instant>,
    /// What turns the windows.
    pub clock: WindowClock,
    /// A packet of which the next one will tell where it belongs.
    held: Option<Edge>,
    keep: Keep,
    /// Whether there were more windows than are kept.
    forgets: bool,
    scale: u64,
    sketch: bool,
    blueprint: Arc<Blueprint>,
    budget: Budget,
    /// Windows begun so far.
    windows: u64,
    metrics: Option<BatchMetrics>,
}

/// What an interface is made of.
pub struct Options {
    /// Name of the interface or file.
    pub name: String,
    /// Its books.
    pub tally: Arc<Tally>,
    /// Where its packets come from.
    pub ring: Consumer<Slot>,
    /// What is kept of the past.
    pub keep: Keep,
    /// What turns the windows.
    pub clock: WindowClock,
    /// Packets that each packet stands for.
    pub scale: u64,
    /// Whether packets are stored.
    pub sketch: bool,
    /// How sketches are built.
    pub blueprint: Arc<Blueprint>,
    /// Out of which memory.
    pub budget: Budget,
    /// Histograms of its batches, if anyone looks at them.
    pub metrics: Option<BatchMetrics>,
}

impl Interface {
    /// An interface with an empty first window.
    pub fn new(options: Options) -> crane_model::Result<Self> {
        let window = |number, bounds: Option<Bounds>| {
            crane_model::Result::Ok(Window {
                start: bounds.map_or(u64::MAX, |bounds| bounds.start),
                end: bounds.map(|bounds| bounds.end),
                latest: 0,
                packets: 0,
                bytes: 0,
                sketches: options.blueprint.build(&options.budget, number)?,
            })
        };
        let history = matches!(options.keep, Keep::History { .. });
        Ok(Self {
            current: window(0, options.clock.first(now()))?,
            whole: match options.clock {
                WindowClock::Packets(_) if history => Some(window(WHOLE, None)?),
                _ => None,
            },
            name: options.name,
            tally: options.tally,
            ring: options.ring,
            last: None,
            last_view: None,
            history: Vec::new(),
            exact: matches!(options.keep, Keep::History { exactly: true, .. }).then(Exact::default),
            expansions: 0,
            exported: Exported::default(),
            dirty: true,
            ended: false,
            waiting: None,
            clock: options.clock,
            held: None,
            keep: options.keep,
            forgets: false,
            scale: options.scale,
            sketch: options.sketch,
            blueprint: options.blueprint,
            budget: options.budget,
            windows: 1,
            metrics: options.metrics,
        })
    }

    /// Stores what is in the next `count` slots of the ring.
    pub fn store(&mut self, buffers: &mut Buffers, count: usize) -> anyhow::Result<()> {
        let start = Instant::now();
        let Buffers { slots, batch } = buffers;
        slots.clear();
        if let Some(edge) = self.held.take() {
            Slot::write(&edge, slots);
        }
        self.take(slots, count)?;
        let edges = Slot::edges(slots).count();
        if self.sketch {
            self.store_all(batch, slots, None)?;
            let stored = edges - usize::from(self.held.is_some());
            self.tally.edges.fetch_add(stored as u64, Relaxed);
        } else {
            self.tally.ignore(Ignored::NotStored, edges as u64);
        }
        self.waiting = None;
        self.dirty = true;
        if let Some(metrics) = &self.metrics {
            metrics.record(count, start.elapsed());
        }
        Ok(())
    }

    /// Copies the next `count` slots out of the ring, because a window may
    /// turn in the middle of them, and one more if they end within an edge.
    fn take(&mut self, slots: &mut Vec<Slot>, count: usize) -> anyhow::Result<()> {
        for count in [count, 1] {
            let chunk = self.ring.read_chunk(count)?;
            let (first, second) = chunk.as_slices();
            slots.extend_from_slice(first);
            slots.extend_from_slice(second);
            chunk.commit_all();
            if Slot::whole(slots, slots.len()) == slots.len() {
                break;
            }
        }
        Ok(())
    }

    /// Stores packets where they belong. `after` is the time of the one after
    /// them; while that is not known the last of them may be held back.
    fn store_all(
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
                    self.turn(window.start, window.end)?;
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
        if let Some(exact) = &mut self.exact {
            count_exactly(exact, batch.narrow.pairs());
            count_exactly(exact, batch.wide.pairs());
        }
        let pairs = &self.current.sketches.pairs;
        let grown = pairs.expansions() - expansions;
        if grown > 0 {
            self.expansions += grown;
            let bytes = pairs.memory_bytes();
            tracing::debug!(interface = self.name, bytes, "the sketch has grown");
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
        self.turn(next.start, next.end)
    }

    /// Begins a new window.
    fn turn(&mut self, start: u64, end: u64) -> anyhow::Result<()> {
        // Gives its memory back before the next one asks for any.
        self.last = None;
        let number = self.windows;
        self.windows += 1;
        let next = Window {
            start,
            end: Some(end),
            latest: 0,
            packets: 0,
            bytes: 0,
            sketches: self.blueprint.build(&self.budget, number)?,
        };
        let over = std::mem::replace(&mut self.current, next);
        if let Keep::History {
            windows: Some(top), ..
        } = self.keep
        {
            self.remember(&over, top);
        }
        self.last = Some(over);
        self.last_view = None;
        self.dirty = true;
        Ok(())
    }

    /// Keeps what a report says of a window.
    fn remember(&mut self, over: &Window, top: usize) {
        if self.history.len() == MOST_WINDOWS {
            if !std::mem::replace(&mut self.forgets, true) {
                tracing::warn!(
                    interface = self.name,
                    "the report ends after {MOST_WINDOWS} windows"
                );
            }
            return;
        }
        self.history.push(PastWindow {
            start: over.start,
            end: over.end.unwrap_or(u64::MAX),
            packets: over.packets,
            bytes: over.bytes,
            top: Hitters::of(over.sketches.named_pairs(), top).by_packets,
        });
    }

    /// Gives up what is in the ring: there is no time for it. It is counted
    /// with what the ring had no room for.
    pub fn abandon(&mut self) {
        let slots = self.ring.slots();
        if slots == 0 {
            return;
        }
        if let Ok(left) = self.ring.read_chunk(slots) {
            let (first, second) = left.as_slices();
            let count = Slot::edges(&[first, second].concat()).count() as u64;
            left.commit_all();
            self.tally.ring_full.fetch_add(count, Relaxed);
            tracing::warn!(
                interface = self.name,
                packets = count,
                "stopped before these were stored"
            );
        }
    }

    /// Ends the current window: nothing comes any more.
    pub fn close(&mut self) -> anyhow::Result<()> {
        if let Some(edge) = self.held.take() {
            let mut slots = Vec::new();
            Slot::write(&edge, &mut slots);
            // With nothing after it, it is its own witness.
            self.store_all(&mut Batch::default(), &slots, Some(edge.time))?;
            self.tally.edges.fetch_add(1, Relaxed);
        }
        match (&self.clock, self.current.end) {
            _ if self.current.packets == 0 => Ok(()),
            (WindowClock::Monotonic(_), _) => self.turn_at(Instant::now(), now()),
            (_, Some(end)) => self.turn(end, end),
            (_, None) => Ok(()),
        }
    }

    /// Bytes of all sketches.
    pub fn memory_bytes(&self) -> usize {
        let others = self.last.iter().chain(&self.whole);
        let windows = others.chain([&self.current]);
        windows.map(|window| window.sketches.memory_bytes()).sum()
    }
}

fn count_exactly<N: Name>(exact: &mut Exact, arrivals: &[Arrival<N>]) {
    for arrival in arrivals {
        let pair = Pair::of_name(arrival.name.any());
        let (packets, bytes) = exact.entry(pair).or_default();
        *packets += arrival.packets;
        *bytes += arrival.bytes;
    }
}
